"""`TokenClassification`: one tag per word, such as entities or parts of speech."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bert_keras.errors import InputError
from bert_keras.features import IGNORED_LABEL
from bert_keras.heads.signatures import Arrays, TensorSpec, make_specs, pad_rows
from bert_keras.heads.task import LabelledSequences, Row, Task, check_choice, encode_labels, softmax
from bert_keras.metrics import classes
from bert_keras.metrics.tag_schemes import detect_scheme, entity_scores, find_entities, get_entity_label, to_iob2
from bert_keras.pipelines.batches.encoding import EncodedSequences, encode, has_most_context
from bert_keras.pipelines.readers.words.tagged_sentences import OUTSIDE, TaggedSentence, split_words

if TYPE_CHECKING:
    from bert_keras.pipelines.text.tokenizer import BertTokenizer

SCHEMES = ("IOB2", "none")
TOKENS = ("first", "all")


@dataclasses.dataclass(frozen=True)
class TokenClassification(Task):
    """Tagging of words (Devlin et al. 2018, 5.3), predicted at the first token of each word.

    Longer texts are split into windows, and a word is tagged in the window where it has the most context.

    Args:
        labels: names of the tags.
        scheme: "IOB2" if tags are "B-...", "I-..." or "O" and form entities; "none" for other tags.
        labelled_tokens: the tokens of a word that have a label in training: "first" or "all". With "IOB2", the later
            tokens of a "B-" word have the "I-" label.

    Raises:
        InputError: a setting is out of range.
    """

    window_overlap: int | None = 32
    labels: tuple[str, ...] = ()
    scheme: str = "none"
    labelled_tokens: str = "first"

    name: ClassVar[str] = "tag"
    example_class: ClassVar[type] = TaggedSentence
    is_token_level: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "labels", tuple(self.labels))
        check_choice("scheme", self.scheme, SCHEMES)
        check_choice("labelled_tokens", self.labelled_tokens, TOKENS)

    @classmethod
    def derive_settings(cls, labels: Sequence[str], vocabulary: Sequence[str]) -> dict[str, object]:
        """Return the scheme of the labels."""
        return {"scheme": "none" if detect_scheme([labels]) == "none" else "IOB2"}

    @property
    def main_score(self) -> str:
        """F1 of entities, or accuracy of other tags."""
        return "accuracy" if self.scheme == "none" else "f1"

    def head_arguments(self) -> dict:
        """Return the number and names of the tags."""
        return {"num_classes": len(self.labels), "labels": list(self.labels)}

    def make_example(self, text: str, second_text: str | None = None, line: int | None = None) -> TaggedSentence:
        """Create an example from a text, split into words at white space and punctuation."""
        if second_text is not None:
            raise InputError("tagging needs single texts, and a second text was given: leave it out")
        ranges = split_words(text)
        return TaggedSentence(
            text=text,
            words=tuple(text[start:end] for start, end in ranges),
            starts=tuple(start for start, _ in ranges),
            ends=tuple(end for _, end in ranges),
            tags=None,
            line=line,
        )

    def make_example_from_words(self, words: Sequence[str]) -> TaggedSentence:
        """Create an example from words, joined by spaces."""
        for number, word in enumerate(words, 1):
            if not word.strip():
                raise InputError(
                    f"the word {number} is {word!r}; expected at least one character besides white space: leave it out"
                )
        return TaggedSentence.from_words(words, None, line=None) if words else self.make_example("")

    def list_labels(self, example: TaggedSentence) -> list[str]:
        """Return the entities or tags of a sentence, except "O"."""
        tags = [tag for tag in example.tags if tag != OUTSIDE]
        return tags if self.scheme == "none" else list(map(get_entity_label, tags))

    def list_readings(self, texts: Sequence[str]) -> Iterator[str]:
        """Yield each text as it is, and as words joined by spaces."""
        yield from (form for text in texts for form in (text, " ".join(self.make_example(text).words)))

    def list_texts(self, example: TaggedSentence) -> tuple[str, ...]:
        """Return the sentence, with a space between its words."""
        return (" ".join(example.words),)

    def fill_label(self, example: TaggedSentence) -> TaggedSentence:
        """Return a sentence with the first tag for each word."""
        return dataclasses.replace(example, tags=(self.labels[0],) * len(example.words))

    def encode(self, tokenizer: "BertTokenizer", examples: Sequence[TaggedSentence]) -> EncodedSequences:
        """Tokenize sentences, in windows."""
        return encode(
            tokenizer,
            [" ".join(sentence.words) for sentence in examples],  # the spaces keep a token from joining two words
            max_sequence_length=self.max_sequence_length,
            window_overlap=self.window_overlap,
            with_offsets=True,
        )

    def add_labels(self, sequences: EncodedSequences, examples: Sequence[TaggedSentence]) -> LabelledSequences:
        """Add the tags of words to their tokens."""
        tags = encode_labels([tag for sentence in examples for tag in sentence.tags], self.labels)
        words = _Words.locate(sequences, examples)
        labels = np.full(len(sequences.token_ids), IGNORED_LABEL, np.int32)
        if self.labelled_tokens == "all":
            labels[words.token_indices] = self._get_inner_tags()[tags[words.word_indices]]
        labels[words.token_indices[words.is_first]] = tags[words.word_indices[words.is_first]]
        return LabelledSequences(sequences, token_labels=labels)

    def decode(
        self, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence[TaggedSentence]
    ) -> list[dict]:
        """Return the tags of each sentence, and its entities or tagged words."""
        answers = []
        probabilities = self.compute_word_probabilities(sequences, outputs, examples)
        for sentence, words in zip(examples, probabilities, strict=True):
            tags = [self.labels[tag] for tag in self._choose_tags(words)]
            answers.append(self._make_answer(sentence, tags, words.max(axis=1)))
        return answers

    def compute_word_probabilities(
        self, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence[TaggedSentence]
    ) -> list[np.ndarray]:
        """Return the probabilities of the tags of each word `(W, C)`, for each example.

        A word without tokens (only control characters) has probabilities of 0.
        """
        words = _Words.locate(sequences, examples)
        is_predicted = words.is_first & has_most_context(sequences)[words.token_indices]
        probabilities = np.zeros((words.num_words, len(self.labels)))
        logits = outputs["logits"][words.token_indices[is_predicted]]
        probabilities[words.word_indices[is_predicted]] = softmax(logits)
        ends = np.cumsum([len(sentence.words) for sentence in examples])
        return np.split(probabilities, ends[:-1])

    def find_word_ranges(self, sequences: EncodedSequences, examples: Sequence[TaggedSentence]) -> list[np.ndarray]:
        """Return the range of characters of each word `(W, 2)` in its text, for each example.

        It excludes accents and control characters at the edges of a word, which belong to no token, as in SavedModels.
        """
        words = _Words.locate(sequences, examples)
        starts = np.array([start for sentence in examples for start in sentence.starts], np.int64)
        ranges = np.stack([starts, starts], axis=1)
        tokens, indices = words.token_indices, words.word_indices
        edges = np.stack([sequences.word_starts[tokens], sequences.word_ends[tokens]], axis=1)
        ranges[indices] += edges - words.offsets[indices, np.newaxis]  # all tokens of a word have the same edges
        return np.split(ranges, np.cumsum([len(sentence.words) for sentence in examples])[:-1])

    def score(self, answers: Sequence[Mapping], examples: Sequence[TaggedSentence]) -> dict[str, float]:
        """Compute the scores of entities, or of tags."""
        truth, predicted = [list(sentence.tags) for sentence in examples], [answer["tags"] for answer in answers]
        if self.scheme == "none":
            flat = [encode_labels(list(itertools.chain(*tags)), self.labels) for tags in (truth, predicted)]
            return classes.class_scores(*flat, num_classes=len(self.labels))
        scores = entity_scores(truth, predicted)
        if not self._has_iob2_labels():
            predicted = [to_iob2(tags, "IOB2") for tags in predicted]
        pairs = zip(itertools.chain(*truth), itertools.chain(*predicted), strict=True)
        return {**scores, "accuracy": float(np.mean([one == other for one, other in pairs]))}

    def make_row(self, example: TaggedSentence, answer: Mapping) -> Row:
        """Return the row of a tagged sentence in a table of answers."""
        label, prediction = (
            " ".join(f"{word}/{tag}" for word, tag in zip(example.words, tags, strict=True) if tag != OUTSIDE)
            for tags in (example.tags, answer["tags"])
        )
        found = answer.get("entities", answer.get("words"))
        probability = f"{min(one['probability'] for one in found):.3f}" if found else ""
        return list(answer["tags"]) != list(example.tags), [example.text, label, prediction, probability]

    def describe_for_clients(self) -> dict[str, object]:
        """Return the labels, the scheme and the lengths."""
        names = ("labels", "scheme", "max_sequence_length", "window_overlap")
        return {"name": self.name, **{name: getattr(self, name) for name in names}}

    def shorten_for_clients(self, answer: Mapping) -> dict[str, object]:
        """Return the entities or the tagged words."""
        return {name: value for name, value in answer.items() if name != "tags"}

    def describe_signature(self, num_dimensions: int | None) -> list[TensorSpec]:
        """Return the outputs of each word, padded, and the number of words."""
        types = {"words": "string", "labels": "string", "label_ids": "int32", "probabilities": "float32"}
        types |= {"starts": "int32", "ends": "int32"}
        return [*make_specs(types, (-1, -1)), *make_specs({"num_words": "int32"})]

    def compute_signature(
        self, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence
    ) -> Arrays:
        """Return the outputs of each word, padded, and the number of words."""
        rows: dict[str, list[list]] = {name: [] for name in ("words", "labels", "label_ids", "probabilities")}
        rows |= {"starts": [], "ends": []}
        all_probabilities = self.compute_word_probabilities(sequences, outputs, examples)
        all_ranges = self.find_word_ranges(sequences, examples)
        for sentence, probabilities, ranges in zip(examples, all_probabilities, all_ranges, strict=True):
            words = np.flatnonzero(probabilities.any(axis=1))  # words without tokens are left out
            label_ids = probabilities[words].argmax(axis=1).tolist()
            starts, ends = ranges[words].T.tolist()
            rows["words"].append([sentence.text[start:end] for start, end in zip(starts, ends, strict=True)])
            rows["labels"].append([self.labels[number] for number in label_ids])
            rows["label_ids"].append(label_ids)
            rows["probabilities"].append(probabilities[words].max(axis=1).tolist())
            rows["starts"].append(starts)
            rows["ends"].append(ends)
        kinds: dict[str, tuple[object, type]] = {"words": ("", object), "labels": ("", object)}
        kinds |= {"label_ids": (-1, np.int32), "probabilities": (0.0, np.float32)}
        kinds |= {"starts": (0, np.int32), "ends": (0, np.int32)}
        padded = {name: pad_rows(values, *kinds[name]) for name, values in rows.items()}
        return padded | {"num_words": np.array([*map(len, rows["words"])], np.int32)}

    def _choose_tags(self, probabilities: np.ndarray) -> np.ndarray:
        """Return the most probable tag of each word `(W,)`; "O" for a word without tokens."""
        outside = self.labels.index(OUTSIDE) if OUTSIDE in self.labels else 0
        return np.where(probabilities.any(axis=1), probabilities.argmax(axis=1), outside)

    def _has_iob2_labels(self) -> bool:
        """Return whether the labels are IOB2; those of a third-party checkpoint may be IOB1 or IOBES."""
        letters = {tag[0] for tag in self.labels}
        return letters <= set("BIO") and all(f"B{tag[1:]}" in self.labels for tag in self.labels if tag[0] == "I")

    def _get_inner_tags(self) -> np.ndarray:
        """Return the tag of the later tokens of a word for each tag of a word, `(C,)`."""
        later = [f"I{tag[1:]}" if self.scheme == "IOB2" and tag[0] == "B" else tag for tag in self.labels]
        # there is no I tag if all entities of a label have one word
        known = [tag if tag in self.labels else own for tag, own in zip(later, self.labels, strict=True)]
        return encode_labels(known, self.labels)

    def _make_answer(self, sentence: TaggedSentence, tags: list[str], probabilities: np.ndarray) -> dict:
        if self.scheme == "none":
            spans = [(tag, place, place + 1) for place, tag in enumerate(tags)]
        else:
            spans = find_entities(tags)
        found = []
        for label, first, end in spans:
            begin, stop = sentence.starts[first], sentence.ends[end - 1]
            probability = float(probabilities[first:end].mean())
            text = sentence.text[begin:stop]
            found.append({"label": label, "text": text, "start": begin, "end": stop, "probability": probability})
        return {"tags": tags, "words" if self.scheme == "none" else "entities": found}


@dataclasses.dataclass(frozen=True, eq=False)
class _Words:
    """The word of each token; the words of all sentences are numbered consecutively.

    Attributes:
        token_indices: `(K,)`, the tokens that belong to words, among all P tokens.
        word_indices: `(K,)`, the word of each of these tokens.
        is_first: `(K,)`, whether the token is the first one of its word.
        num_words: number of words in all sentences.
        offsets: `(num_words,)`, the start of each word in the text that was tokenized, its words joined by spaces.
    """

    token_indices: np.ndarray
    word_indices: np.ndarray
    is_first: np.ndarray
    num_words: int
    offsets: np.ndarray

    @classmethod
    def locate(cls, sequences: EncodedSequences, examples: Sequence[TaggedSentence]) -> "_Words":
        """Find the word of each token."""
        lengths = np.array([1 + len(word) for sentence in examples for word in sentence.words], np.int64)  # and a space
        word_starts = np.cumsum(lengths) - lengths
        counts = [len(sentence.words) for sentence in examples]
        first_words = np.cumsum([0, *counts])
        tokens = np.flatnonzero(sequences.text_positions >= 0)
        positions = sequences.text_positions[tokens]
        token_examples = sequences.examples[sequences.sequence_indices[tokens]]
        starts = word_starts[first_words[token_examples]] + sequences.starts[tokens]
        words = np.searchsorted(word_starts, starts, side="right") - 1
        firsts = np.full(len(lengths), np.iinfo(np.int32).max, np.int64)
        np.minimum.at(firsts, words, positions)
        offsets = word_starts - word_starts[np.repeat(first_words[:-1], counts)]
        return cls(tokens, words, positions == firsts[words], len(lengths), offsets)
