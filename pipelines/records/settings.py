"""What decides the content of records, checked once; all of it stands in the manifest."""

import dataclasses

from bert_keras.checks import describe_integer, is_integer, quote
from bert_keras.errors import InputError

OBJECTIVES = ("nsp", "sop", "none")
NUM_SPECIAL = 3  # [CLS] A [SEP] B [SEP]
BLOCK_BYTES = 8_000_000  # of text: 15,000 rows of 128, enough to pack them to 99.9 %, and 0.2 GB of memory a worker
MAX_EXAMPLES_PER_SEQUENCE = 8

_MAX_SEED = 2**31 - 1
_MIN_BLOCK_BYTES = 1_000


@dataclasses.dataclass(frozen=True)
class RecordSettings:
    """How text becomes rows.

    Attributes:
        max_sequence_length: the longest row in tokens, special tokens counted.
        sentence_objective: "nsp", half of the second sentences are of another document (Devlin et al. 2018); "sop",
            half of the pairs are swapped (ALBERT, Lan et al. 2019); "none", full sentences without labels (RoBERTa,
            Liu et al. 2019).
        short_sequence_rate: the share of pairs made shorter, since models meet short texts too; "none" has no pairs.
        keep_documents_apart: for "none": a row ends where its document ends.
        packed: whether several examples share a row where they fit.
        max_examples_per_sequence: how many may.
        duplicates: how often the examples of each document are drawn, each time anew.
        held_out_rate: the share of documents kept from training, in shards of their own.
        seed: decides everything that is random, 0 to 2**31 - 1.
        block_bytes: UTF-8 bytes of text that are worked on at a time, and that make one shard.

    Raises:
        InputError: a setting is out of range, or two do not go together.
    """

    max_sequence_length: int
    sentence_objective: str = "nsp"
    short_sequence_rate: float = 0.1
    keep_documents_apart: bool = False
    packed: bool = False
    max_examples_per_sequence: int = MAX_EXAMPLES_PER_SEQUENCE
    duplicates: int = 1
    held_out_rate: float = 0.01
    seed: int = 0
    block_bytes: int = BLOCK_BYTES

    def __post_init__(self):
        if problems := list(self._problems()):
            raise InputError("; ".join(problems))

    def _problems(self):
        """Yields everything that is wrong, in sentences."""
        if self.sentence_objective not in OBJECTIVES:
            yield f"sentence_objective is {quote(self.sentence_objective)}; expected one of {', '.join(OBJECTIVES)}"
        least = NUM_SPECIAL + 2
        if not is_integer(self.max_sequence_length, least):
            yield (
                f"max_sequence_length is {self.max_sequence_length}; expected {least} tokens or more, since "
                f"{NUM_SPECIAL} are [CLS] and [SEP]"
            )
        if not 0 <= self.short_sequence_rate <= 1:
            yield f"short_sequence_rate is {self.short_sequence_rate}; expected a share from 0 to 1"
        if not 0 <= self.held_out_rate < 1:
            yield f"held_out_rate is {self.held_out_rate}; expected a share from 0 to below 1"
        for name in ("duplicates", "max_examples_per_sequence"):
            if not is_integer(getattr(self, name), 1):
                yield f"{name} is {getattr(self, name)}; expected {describe_integer(1)}"
        if not is_integer(self.seed, 0, _MAX_SEED):
            yield f"seed is {self.seed!r}; expected {describe_integer(0, _MAX_SEED)}"
        if not is_integer(self.block_bytes, _MIN_BLOCK_BYTES):
            yield f"block_bytes is {self.block_bytes}; expected {_MIN_BLOCK_BYTES:,} bytes of text or more"
        if self.keep_documents_apart and self.sentence_objective != "none":
            yield (
                f"keep_documents_apart is for sentence_objective 'none'; {self.sentence_objective!r} never joins "
                "documents in an example: leave it out"
            )
