"""Run sequences through an engine: batches of similar length, outputs in the original order and without padding.

This module does not import TensorFlow.
"""

import concurrent.futures
from collections.abc import Callable, Iterator

import numpy as np

from bert_keras.engines.engine import Engine
from bert_keras.pipelines.batches.encoding import EncodedSequences


class SequenceRunner:
    """Run a model on any number of sequences of any length.

    Args:
        engine: runs the model on a batch.
        is_token_level: whether its outputs are `(B, S, ...)`, one per token, or `(B, ...)`, one per sequence.
    """

    def __init__(self, engine: Engine, *, is_token_level: bool):
        self._engine = engine
        self._is_token_level = is_token_level

    def __call__(
        self, sequences: EncodedSequences, progress: Callable[[int, int], None] | None = None, *, once: bool = False
    ) -> dict[str, np.ndarray]:
        """Return the outputs for N sequences of P tokens in total, `(N, ...)` or `(P, ...)` each, keyed by name.

        Args:
            sequences: the sequences.
            progress: called with the number of sequences done, and with their total number.
            once: whether no more sequences follow; see `Engine.run`.

        Raises:
            InputError: the model outputs NaN or infinity.
        """
        num_outputs = len(sequences.token_ids if self._is_token_level else sequences)
        outputs: dict[str, np.ndarray] = {}
        num_done = 0
        batches = make_batches(sequences.lengths, self._engine.tokens_per_batch, self._engine.shortest_share)
        for indices, batch_outputs in self._run_batches(sequences, batches, once=once and len(batches) == 1):
            for name, values in batch_outputs.items():
                self._engine.check_finite(values)
                if name not in outputs:
                    tail = values.shape[2 if self._is_token_level else 1 :]
                    outputs[name] = np.empty((num_outputs, *tail), values.dtype)
                if self._is_token_level:
                    _copy_real_tokens(outputs[name], values, sequences, indices)
                else:
                    outputs[name][indices] = values
            num_done += len(indices)
            if progress is not None:
                progress(num_done, len(sequences))
        return outputs

    def _run_batches(
        self, sequences: EncodedSequences, batches: list[np.ndarray], *, once: bool
    ) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
        """Yield the indices of the sequences of each batch and their outputs, in the order of the batches."""

        def run(indices: np.ndarray) -> dict[str, np.ndarray]:
            return self._engine.run(make_features(sequences, indices, self._get_length(sequences, indices)), once=once)

        if self._engine.num_instances == 1 or len(batches) == 1:
            yield from ((indices, run(indices)) for indices in batches)
            return
        with concurrent.futures.ThreadPoolExecutor(self._engine.num_instances) as pool:
            yield from zip(batches, pool.map(run, batches), strict=True)

    def _get_length(self, sequences: EncodedSequences, indices: np.ndarray) -> int:
        """Return the length to which a batch is padded."""
        longest, step = int(sequences.lengths[indices].max()), self._engine.length_step
        rounded = -(-longest // step) * step
        return max(longest, min(rounded, self._engine.max_length or rounded))


def make_features(sequences: EncodedSequences, indices: np.ndarray, length: int) -> dict[str, np.ndarray]:
    """Return a batch of sequences, padded.

    Args:
        sequences: all sequences.
        indices: `(B,)`, the sequences of the batch.
        length: S, the length to which they are padded.

    Returns:
        `token_ids`, `segment_ids`, `padding_mask` (1 = real token, 0 = padding), and `pooling_mask` if prompts are
        not pooled, `(B, S)` int32 each.
    """
    positions = np.arange(length)
    lengths = sequences.lengths[indices, np.newaxis]
    is_real = positions < lengths
    token_ids = np.full(is_real.shape, sequences.pad_id, np.int32)
    token_ids[is_real] = sequences.token_ids[(sequences.row_splits[indices, np.newaxis] + positions)[is_real]]
    is_second = is_real & (positions >= sequences.second_starts[indices, np.newaxis])
    features = {
        "token_ids": token_ids,
        "segment_ids": is_second.astype(np.int32),
        "padding_mask": is_real.astype(np.int32),
    }
    if sequences.prompt_lengths is not None:
        is_pooled = is_real & (positions >= sequences.prompt_lengths[indices, np.newaxis])
        features["pooling_mask"] = is_pooled.astype(np.int32)
    return features


def make_batches(lengths: np.ndarray, tokens_per_batch: int, shortest_share: float = 0.0) -> list[np.ndarray]:
    """Return the indices of the sequences of each batch, the longest first, so that lack of memory shows at once.

    Args:
        lengths: `(N,)`, the length of each sequence in tokens.
        tokens_per_batch: the largest number of tokens of a batch, including padding.
        shortest_share: see `Engine`.
    """
    order = np.argsort(-lengths, kind="stable")
    sorted_lengths = lengths[order]
    batches, begin = [], 0
    while begin < len(order):
        longest = int(sorted_lengths[begin])
        num_similar = int(np.searchsorted(-sorted_lengths, -shortest_share * longest, side="right"))
        end = min(begin + max(1, tokens_per_batch // longest), num_similar)
        batches.append(order[begin:end])
        begin = end
    return batches


def _copy_real_tokens(flat: np.ndarray, values: np.ndarray, sequences: EncodedSequences, indices: np.ndarray) -> None:
    """Copy the outputs `(B, S, ...)` of some sequences to their tokens in `flat`, `(P, ...)`."""
    positions = np.arange(values.shape[1])
    is_real = positions < sequences.lengths[indices][:, np.newaxis]
    places = sequences.row_splits[indices][:, np.newaxis] + positions
    flat[places[is_real]] = values[is_real]
