"""Messages between the server and a worker process: jobs, results and cancellations.

Both ends belong to one server on one machine, so messages are pickled, as by Python's `multiprocessing`.
"""

import pickle
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

_LENGTH = struct.Struct("<I")

# kinds of jobs
ANSWERS, SIGNATURE, IDS, TOKENS = "answers", "signature", "ids", "tokens"
# statuses of results
OK, INVALID, TOO_LONG, EXPIRED, FAILED = "ok", "invalid", "too long", "expired", "failed"


class Job(NamedTuple):
    """A request for a model.

    Attributes:
        id: unique in the connection.
        kind: `ANSWERS` for the answers of the task as `Predictor` gives them, `SIGNATURE` for arrays with the names of
            the signature `serving_default`, `IDS` for the model's outputs for token ids, `TOKENS` for tokens.
        inputs: list of texts or of tuples of two texts; for `IDS` arrays `(B, S)`, keyed by Hugging Face name.
        options: keyword arguments of the kind; see `answering.py`.
        deadline: the time, of `time.monotonic`, after which nobody waits for the result.
    """

    id: int
    kind: str
    inputs: object
    options: Mapping[str, object]
    deadline: float


class Timings(NamedTuple):
    """Where the time of a job went, in seconds, and its size.

    Attributes:
        queue: waiting for tokenization and for a free instance.
        tokenization: tokenizing, together with other jobs.
        inference: from the beginning of its first batch to the end of its last.
        compute: its share of the time of its batches, by tokens.
        num_tokens: tokens of its sequences, without padding.
        batch_tokens: tokens of its last batch, including padding.
    """

    queue: float = 0.0
    tokenization: float = 0.0
    inference: float = 0.0
    compute: float = 0.0
    num_tokens: int = 0
    batch_tokens: int = 0


class Result(NamedTuple):
    """The result of a job.

    Attributes:
        id: that of the job.
        status: `OK`, `INVALID` (the request is wrong), `TOO_LONG` (a text is, and may not be cut), `EXPIRED` (its
            deadline passed) or `FAILED`.
        value: the answers, or a message unless the status is `OK`.
        timings: where the time went.
    """

    id: int
    status: str
    value: object
    timings: Timings


class Cancellation(NamedTuple):
    """The client of a job has left."""

    id: int


class Ready(NamedTuple):
    """The model is loaded and warm.

    Attributes:
        description: see `describe_model`.
    """

    description: Mapping[str, object]


class LoadError(NamedTuple):
    """The model cannot be loaded; the worker ends."""

    message: str


def pack(messages: Sequence[object]) -> bytes:
    """Return messages as bytes that `MessageReader` reads."""
    content = pickle.dumps(messages, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(content)) + content


class MessageReader:
    """Split a stream of bytes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[object]:
        """Yield the messages that are complete after these bytes."""
        self._buffer += data
        begin = 0
        try:
            while len(self._buffer) - begin >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._buffer, begin)
                end = begin + _LENGTH.size + length
                if len(self._buffer) < end:
                    break
                messages = pickle.loads(memoryview(self._buffer)[begin + _LENGTH.size : end])
                begin = end
                yield from messages
        finally:
            del self._buffer[:begin]
