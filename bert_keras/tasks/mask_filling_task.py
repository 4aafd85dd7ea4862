"""`MaskFilling`: the most probable tokens at each [MASK] of a text, as a task that engines of artifacts can run.

`bk.fill_mask` does the same with a Keras model, and computes the logits of the masked positions only.
"""

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bert_keras.errors import InputError
from bert_keras.pipelines.batches.encoding import EncodedSequences
from bert_keras.pipelines.text.token_arrays import TokenArrays
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS
from bert_keras.tasks.base import LabelledSequences, Task, softmax
from bert_keras.tasks.mask_checks import MASK, check_have_masks, describe_text
from bert_keras.tasks.signatures import Arrays, TensorSpec, make_specs

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
    model_class: ClassVar[str] = "BertMaskedLM"
    example_class: ClassVar[type] = str
    warm_up_word: ClassVar[str] = MASK
    is_token_level: ClassVar[bool] = True

    @classmethod
    def for_model(
        cls, model: str, max_sequence_length: int, vocabulary: Sequence[str], text_length: int | None
    ) -> "MaskFilling | None":
        """Return the task of a model; None if it is not a masked LM.

        Args:
            model: the name of its class.
            max_sequence_length: the longest sequence that it accepts, in tokens.
            vocabulary: the tokens in the order of their ids.
            text_length: the length at which its tokenizer cuts texts, in tokens; None: unlimited.
        """
        if model != cls.model_class:
            return None
        return cls(min(max_sequence_length, text_length or max_sequence_length), vocabulary=tuple(vocabulary))

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
        sequences = [self._encode_text(tokenizer, text) for text in examples]
        for number, (text, sequence) in enumerate(zip(examples, sequences, strict=True), 1):
            if (length := len(sequence.token_ids)) > self.max_sequence_length:
                raise InputError(
                    f"{describe_text(number, text)} has {length} tokens with [CLS] and [SEP]; the model accepts up to "
                    f"{self.max_sequence_length}: cut the text around its {MASK}"
                )
        return EncodedSequences.concatenate(sequences)

    def encode_truncated(self, tokenizer: "BertTokenizer", examples: Sequence[str]) -> EncodedSequences:
        """Tokenize texts with or without a [MASK], as SavedModels do: long texts are cut, and so are their masks."""
        limit = self.max_sequence_length
        return EncodedSequences.concatenate([self._encode_text(tokenizer, text, limit) for text in examples])

    @functools.cached_property
    def _special_ids(self) -> dict[str, int]:
        return {token: self.vocabulary.index(token) for token in SPECIAL_TOKENS}

    def _encode_text(self, tokenizer: "BertTokenizer", text: str, limit: int | None = None) -> EncodedSequences:
        ids = self._special_ids
        specials = list(_SPECIAL.finditer(text))
        begins, ends = [0, *(found.end() for found in specials)], [*(found.start() for found in specials), len(text)]
        parts = [text[begin:end] for begin, end in zip(begins, ends, strict=True)]
        arrays: TokenArrays = tokenizer.tokenize_to_arrays(parts, with_offsets=True)
        token_ids, starts, stops = [ids["[CLS]"]], [-1], [-1]
        for index, begin in enumerate(begins):
            own = slice(arrays.row_splits[index], arrays.row_splits[index + 1])
            token_ids += arrays.token_ids[own].tolist()
            starts += (arrays.starts[own] + begin).tolist()
            stops += (arrays.ends[own] + begin).tolist()
            if index < len(specials):
                token_ids.append(ids[specials[index][0]])
                starts.append(specials[index].start())
                stops.append(specials[index].end())
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
            pad_id=tokenizer.pad_id,
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
        masks = np.flatnonzero(sequences.token_ids == self._special_ids[MASK])
        logits = outputs["logits"] if "logits" in outputs else outputs["mlm_logits"]  # of an artifact, of a Keras model
        # an embedding table can have more rows than tokens; they count in the softmax, as in transformers
        probabilities = softmax(logits[masks])[:, : len(self.vocabulary)]
        answers: list[dict] = [{"masks": []} for _ in examples]
        for mask, values in zip(masks, probabilities, strict=True):
            number = int(sequences.examples[sequences.sequence_indices[mask]])
            place = examples[number], int(sequences.starts[mask]), int(sequences.ends[mask])
            best = np.argsort(-values, kind="stable")[: self.num_best].tolist()
            answers[number]["masks"].append([self._make_filling(*place, one, float(values[one])) for one in best])
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
