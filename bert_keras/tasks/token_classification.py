"""A tag for each word: entities, parts of speech."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from bert_keras.errors import InputError
from bert_keras.metrics import classes
from bert_keras.metrics.entities import entity_scores
from bert_keras.metrics.tag_schemes import find_entities, to_iob2
from bert_keras.pipelines.batches.encoding import IGNORED_LABEL, EncodedSequences, encode, has_most_context
from bert_keras.pipelines.readers.words.tagged_sentences import OUTSIDE, TaggedSentence, split_words
from bert_keras.tasks.base import LabelledSequences, Task, check_choice, encode_labels, softmax

SCHEMES = ("IOB2", "none")
TOKENS = ("first", "all")


@dataclasses.dataclass(frozen=True)
class TokenClassification(Task):
    """A tag for each word (Devlin et al. 2018, 5.3); the first token of a word answers for it.

    Longer texts are read in windows, and a word's tag is taken from the window in which it has the most context.

    Args:
        labels: names of the tags.
        scheme: "IOB2": tags begin with "B-", "I-" or are "O", and make entities; "none": they stand for themselves.
        labelled_tokens: which tokens of a word are trained: the "first", or "all"; in "IOB2" a "B-" goes on as "I-"
            then.

    Raises:
        InputError: a setting is out of range.
    """

    window_overlap: int | None = 32
    labels: tuple[str, ...] = ()
    scheme: str = "none"
    labelled_tokens: str = "first"

    name: ClassVar[str] = "tag"
    model_class: ClassVar[str] = "BertTokenClassifier"
    example_class: ClassVar[type] = TaggedSentence
    is_token_level: ClassVar[bool] = True

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "labels", tuple(self.labels))
        check_choice("scheme", self.scheme, SCHEMES)
        check_choice("labelled_tokens", self.labelled_tokens, TOKENS)

    @property
    def main_score(self) -> str:
        return "accuracy" if self.scheme == "none" else "f1"

    def head_arguments(self) -> dict:
        return {"num_classes": len(self.labels), "labels": list(self.labels)}

    def make_example(self, text: str, second_text: str | None = None, line: int | None = None) -> TaggedSentence:
        """Returns a text as words, which end at white space and at punctuation, as in training from marked texts."""
        if second_text is not None:
            raise InputError("words of single texts are tagged, and a second text was given: leave it out")
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
        """Return words, as they are to be tagged, with a space between."""
        for number, word in enumerate(words, 1):
            if not word.strip():
                raise InputError(
                    f"the word {number} is {word!r}; expected a character that is no white space: leave it out"
                )
        return TaggedSentence.from_words(words, None, line=None) if words else self.make_example("")

    def encode(self, tokenizer, examples: Sequence[TaggedSentence]) -> EncodedSequences:
        return encode(
            tokenizer,
            [" ".join(sentence.words) for sentence in examples],  # so that no token belongs to two words
            max_sequence_length=self.max_sequence_length,
            window_overlap=self.window_overlap,
            with_offsets=True,
        )

    def add_labels(self, rows: EncodedSequences, examples: Sequence[TaggedSentence]) -> LabelledSequences:
        tags = encode_labels([tag for sentence in examples for tag in sentence.tags], self.labels)
        words = _Words.of(rows, examples)
        labels = np.full(len(rows.token_ids), IGNORED_LABEL, np.int32)
        if self.labelled_tokens == "all":
            labels[words.places] = self._within()[tags[words.words]]
        labels[words.places[words.is_first]] = tags[words.words[words.is_first]]
        return LabelledSequences(rows, token_labels=labels)

    def decode(self, rows, outputs, examples) -> list[dict]:
        answers = []
        for sentence, of_words in zip(examples, self.compute_word_probabilities(rows, outputs, examples), strict=True):
            tags = [self.labels[tag] for tag in self._best(of_words)]
            answers.append(self._answer(sentence, tags, of_words.max(axis=1)))
        return answers

    def compute_word_probabilities(self, rows, outputs, examples) -> list[np.ndarray]:
        """Returns the probabilities of the tags of each word `(W, C)`, for each example.

        A word without tokens (control characters alone) is answered by none: its probabilities are 0.
        """
        words = _Words.of(rows, examples)
        answering = words.is_first & has_most_context(rows)[words.places]
        probabilities = np.zeros((words.num_words, len(self.labels)))
        probabilities[words.words[answering]] = softmax(outputs["logits"][words.places[answering]])
        ends = np.cumsum([len(sentence.words) for sentence in examples])
        return np.split(probabilities, ends[:-1])

    def score(self, answers: Sequence[Mapping], examples: Sequence[TaggedSentence]) -> dict[str, float]:
        truth, predicted = [list(sentence.tags) for sentence in examples], [answer["tags"] for answer in answers]
        if self.scheme == "none":
            flat = [encode_labels(list(itertools.chain(*tags)), self.labels) for tags in (truth, predicted)]
            return classes.class_scores(*flat, num_classes=len(self.labels))
        scores = entity_scores(truth, predicted)
        if not self._writes_iob2():
            predicted = [to_iob2(tags, "IOB2") for tags in predicted]
        pairs = zip(itertools.chain(*truth), itertools.chain(*predicted), strict=True)
        return {**scores, "accuracy": float(np.mean([one == other for one, other in pairs]))}

    def _best(self, probabilities: np.ndarray) -> np.ndarray:
        """Returns the number of the likeliest tag of each word `(W,)`; of one without tokens that of "O"."""
        none = self.labels.index(OUTSIDE) if OUTSIDE in self.labels else 0
        return np.where(probabilities.any(axis=1), probabilities.argmax(axis=1), none)

    def _writes_iob2(self) -> bool:
        """Whether the labels are IOB2's; those of a checkpoint from elsewhere may be IOB1's or IOBES's."""
        letters = {tag[0] for tag in self.labels}
        return letters <= set("BIO") and all(f"B{tag[1:]}" in self.labels for tag in self.labels if tag[0] == "I")

    def _within(self) -> np.ndarray:
        """Returns the numbers of the tags that the later tokens of a word learn, by the number of its tag."""
        later = [f"I{tag[1:]}" if self.scheme == "IOB2" and tag[0] == "B" else tag for tag in self.labels]
        # a label whose entities are all of one word has no I
        known = [tag if tag in self.labels else own for tag, own in zip(later, self.labels, strict=True)]
        return encode_labels(known, self.labels)

    def _answer(self, sentence: TaggedSentence, tags: list[str], probabilities: np.ndarray) -> dict:
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
    """Which word each token belongs to, words being numbered through all sentences.

    Attributes:
        places: `(K,)` the tokens of words among all P.
        words: `(K,)` the number of each one's word.
        is_first: `(K,)` whether it is the first token of its word.
        num_words: words of all sentences.
    """

    places: np.ndarray
    words: np.ndarray
    is_first: np.ndarray
    num_words: int

    @classmethod
    def of(cls, rows: EncodedSequences, examples: Sequence[TaggedSentence]) -> "_Words":
        lengths = np.array([len(word) + 1 for sentence in examples for word in sentence.words])  # and a space
        word_starts = np.cumsum(lengths) - lengths
        first_words = np.cumsum([0, *(len(sentence.words) for sentence in examples)])
        places = np.flatnonzero(rows.text_positions >= 0)
        in_all = word_starts[first_words[rows.examples[rows.sequence_indices[places]]]] + rows.starts[places]
        words = np.searchsorted(word_starts, in_all, side="right") - 1
        firsts = np.full(len(lengths), np.iinfo(np.int32).max, np.int64)
        np.minimum.at(firsts, words, rows.text_positions[places])
        return cls(places, words, rows.text_positions[places] == firsts[words], len(lengths))
