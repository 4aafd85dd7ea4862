"""`MaskFilling`: the most probable tokens at each [MASK] of a text.

Engines of artifacts run it like any task; `bk.fill_mask` computes the logits of the masked positions only.
"""

import dataclasses
import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bert_keras.errors import InputError
from bert_keras.heads.fill_mask.mask_checks import MASK, check_have_masks, describe_text
from bert_keras.heads.signatures import Arrays, TensorSpec, make_specs
from bert_keras.heads.task import LabelledSequences, Task, softmax
from bert_keras.pipelines.batches.encoding import EncodedSequences
from bert_keras.pipelines.text.token_arrays import TokenArrays
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS

if TYPE_CHECKING:
    from bert_keras.pipelines.text.tokenizer import BertTokenizer

_SPECIAL = re.compile("|".join(map(re.escape, SPECIAL_TOKENS)))


@dataclasses.dataclass(frozen=True)
class MaskFilling(Task):
    """Prediction of the tokens at each [MASK] of a text, independently of each other.

    Args:
        vocabulary: the tokens in the order of their ids.
        num_best: number of tokens per mask, the most probable first.

    Raises:
        InputError: a setting is out of range.
    """

    vocabulary: tuple[str, ...] = dataclasses.field(default=(), repr=False)
    num_best: int = 5

    name: ClassVar[str] = "fill-mask"
    example_class: ClassVar[type] = str
    warm_up_word: ClassVar[str] = MASK
    is_token_level: ClassVar[bool] = True

    @classmethod
    def derive_settings(cls, labels: Sequence[str] | None, vocabulary: Sequence[str]) -> dict[str, object]:
        """Return the tokens that can be filled in."""
        return {"vocabulary": tuple(vocabulary)}

    @property
    def main_score(self) -> str:
        """Accuracy at masked positions, which `bert-keras evaluate` computes on records."""
        return "accuracy"

    @property
    def has_alternatives(self) -> bool:
        """True: tokens are ranked."""
        return True

    def make_example(self, text: str, second_text: str | None = None, line: int | None = None) -> str:
        """Return the text."""
        if second_text is not None:
            raise InputError(f"filling {MASK} needs single texts, and a second text was given: leave it out")
        return text

    def encode(self, tokenizer: "BertTokenizer", examples: Sequence[str]) -> EncodedSequences:
        """Tokenize texts; [MASK] and other special tokens in them are those tokens.

        Raises:
            InputError: a text has no [MASK] or is too long.
        """
        check_have_masks(examples)
        sequences = self._encode_texts(tokenizer, examples)
        for number, (text, length) in enumerate(zip(examples, sequences.lengths.tolist(), strict=True), 1):
            if length > self.max_sequence_length:
                raise InputError(
                    f"{describe_text(number, text)} has {length} tokens with [CLS] and [SEP]; the model accepts up to "
                    f"{self.max_sequence_length}: cut the text around its {MASK}"
                )
        return sequences

    def encode_truncated(self, tokenizer: "BertTokenizer", examples: Sequence[str]) -> EncodedSequences:
        """Tokenize texts with or without a [MASK], as SavedModels do: long texts are cut, and so are their masks."""
        return self._encode_texts(tokenizer, examples, self.max_sequence_length)

    @functools.cached_property
    def _special_ids(self) -> dict[str, int]:
        return {token: self.vocabulary.index(token) for token in SPECIAL_TOKENS}

    def _encode_texts(
        self, tokenizer: "BertTokenizer", texts: Sequence[str], limit: int | None = None
    ) -> EncodedSequences:
        specials = [list(_SPECIAL.finditer(text)) for text in texts]
        begins = [[0, *(found.end() for found in own)] for own in specials]
        ends = [[*(found.start() for found in own), len(text)] for own, text in zip(specials, texts, strict=True)]
        places = [list(zip(*own, strict=True)) for own in zip(begins, ends, strict=True)]
        parts = [text[begin:end] for text, own in zip(texts, places, strict=True) for begin, end in own]
        arrays: TokenArrays = tokenizer.tokenize_to_arrays(parts, with_offsets=True)
        rows = itertools.pairwise(arrays.row_splits.tolist())
        return EncodedSequences.concatenate(
            [
                self._join(arrays, [(next(rows), begin) for begin, _ in own], found, limit, tokenizer.pad_id)
                for own, found in zip(places, specials, strict=True)
            ]
        )

    def _join(
        self,
        arrays: TokenArrays,
        parts: Sequence[tuple[tuple[int, int], int]],
        specials: Sequence[re.Match],
        limit: int | None,
        pad_id: int,
    ) -> EncodedSequences:
        """Return the sequence of a text.

        Args:
            arrays: the tokens of the parts of all texts.
            parts: the rows of each part of the text in `arrays`, and where the part begins in the text.
            specials: the special tokens between the parts.
            limit: the length to which the sequence is cut.
            pad_id: the id of [PAD].
        """
        ids = self._special_ids
        token_ids, starts, stops = [ids["[CLS]"]], [-1], [-1]
        for ((first, last), begin), special in itertools.zip_longest(parts, specials):
            token_ids += arrays.token_ids[first:last].tolist()
            starts += (arrays.starts[first:last] + begin).tolist()
            stops += (arrays.ends[first:last] + begin).tolist()
            if special is not None:
                token_ids.append(ids[special[0]])
                starts.append(special.start())
                stops.append(special.end())
        if limit is not None:
            token_ids, starts, stops = token_ids[: limit - 1], starts[: limit - 1], stops[: limit - 1]
        token_ids, starts, stops = [*token_ids, ids["[SEP]"]], [*starts, -1], [*stops, -1]
        positions = np.arange(-1, len(token_ids) - 1, dtype=np.int32)
        positions[-1] = -1
        begins, ends = np.array(starts, np.int32), np.array(stops, np.int32)
        return EncodedSequences(
            token_ids=np.array(token_ids, np.int32),
            row_splits=np.array([0, len(token_ids)], np.int64),
            second_starts=np.array([len(token_ids)], np.int32),
            examples=np.zeros(1, np.int64),
            text_positions=positions,
            pad_id=pad_id,
            starts=begins,
            ends=ends,
            word_starts=begins,
            word_ends=ends,
        )

    def add_labels(self, sequences: EncodedSequences, examples: Sequence[str]) -> LabelledSequences:
        """Raise `InputError`: masked LMs are trained on records."""
        raise InputError("a masked LM is trained on records; expected make-records and pretrain: use them")

    def score(self, answers: Sequence[Mapping], examples: Sequence[str]) -> dict[str, float]:
        """Raise `InputError`: masked LMs are scored on records."""
        raise InputError("a masked LM is scored on records; expected make-records and evaluate: use them")

    def decode(
        self, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence[str]
    ) -> list[dict]:
        """Return for each text its `masks`: for each [MASK] the `num_best` tokens.

        Each has its `token`, its `token_id`, its `probability`, and the `text` with it in place of this [MASK].
        """
        logits = outputs["logits"] if "logits" in outputs else outputs["mlm_logits"]  # of an artifact, of a Keras model
        # an embedding table can have more rows than tokens; they count in the softmax, as in transformers
        probabilities = softmax(logits[self.find_masks(sequences)])[:, : len(self.vocabulary)]
        return self.fill(sequences, probabilities, examples)

    def find_masks(self, sequences: EncodedSequences) -> np.ndarray:
        """Return the indices `(M,)` of all [MASK] among the tokens of all sequences."""
        return np.flatnonzero(sequences.token_ids == self._special_ids[MASK])

    def fill(self, sequences: EncodedSequences, probabilities: np.ndarray, examples: Sequence[str]) -> list[dict]:
        """Return what `decode` does, given the probabilities `(M, V)` of the tokens at all [MASK]."""
        answers: list[dict] = [{"masks": []} for _ in examples]
        best = find_top_tokens(probabilities, self.num_best)
        for mask, tokens in zip(self.find_masks(sequences), best, strict=True):
            number = int(sequences.examples[sequences.sequence_indices[mask]])
            place = examples[number], int(sequences.starts[mask]), int(sequences.ends[mask])
            answers[number]["masks"].append([self._make_filling(*place, *token) for token in tokens])
        return answers

    def _make_filling(self, text: str, start: int, end: int, token_id: int, probability: float) -> dict:
        token = self.vocabulary[token_id]
        before = text[:start].rstrip() if token.startswith("##") else text[:start]
        filled = before + token.removeprefix("##") + text[end:]
        return {"token": token, "token_id": token_id, "probability": probability, "text": filled}

    def to_json(self, answer: Mapping, num_best: int = 1) -> dict:
        """Convert an answer to JSON values, with up to `num_best` tokens per mask."""
        return {"masks": [fillings[:num_best] for fillings in answer["masks"]]}

    def describe_signature(self, num_dimensions: int | None) -> list[TensorSpec]:
        """Return the proposals for each mask, padded, and the number of masks."""
        types = {"tokens": "string", "token_ids": "int32", "probabilities": "float32", "texts": "string"}
        shape = (-1, -1, min(self.num_best, len(self.vocabulary)))
        return [*make_specs(types, shape), *make_specs({"num_masks": "int32"})]

    def describe_ids_signature(self, num_dimensions: int | None) -> list[TensorSpec]:
        """Return the logits of each token."""
        return [TensorSpec("logits", "float32", (-1, -1, -1))]

    def compute_signature(
        self, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence
    ) -> Arrays:
        """Return the proposals for each mask, padded, and the number of masks."""
        all_masks = [answer["masks"] for answer in self.decode(sequences, outputs, examples)]
        num_masks = np.array([*map(len, all_masks)], np.int32)
        shape = (len(all_masks), int(num_masks.max(initial=0)), min(self.num_best, len(self.vocabulary)))
        columns: dict[str, tuple[str, object, type]] = {"tokens": ("token", "", object), "texts": ("text", "", object)}
        columns |= {"token_ids": ("token_id", 0, np.int32), "probabilities": ("probability", 0.0, np.float32)}
        padded = {name: np.full(shape, padding, dtype) for name, (_, padding, dtype) in columns.items()}
        for name, (key, _, _) in columns.items():
            for text, masks in enumerate(all_masks):
                for mask, fillings in enumerate(masks):
                    padded[name][text, mask] = [filling[key] for filling in fillings]
        return padded | {"num_masks": num_masks}


def find_top_tokens(probabilities: np.ndarray, top_k: int) -> list[list[tuple[int, float]]]:
    """Return the `top_k` most probable tokens as (id, probability), for each row of probabilities `(M, V)`."""
    return [_find_top(row, top_k) for row in probabilities]


def _find_top(probabilities: np.ndarray, top_k: int) -> list[tuple[int, float]]:
    lowest = np.partition(probabilities, -top_k)[-top_k]
    candidates = np.flatnonzero(probabilities >= lowest)  # a few more than `top_k` if some are equal
    best = candidates[np.argsort(-probabilities[candidates], kind="stable")][:top_k]
    return list(zip(best.tolist(), probabilities[best].tolist(), strict=True))
