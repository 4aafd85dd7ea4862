"""`Engine`: runs a model on batches of sequences. Without TensorFlow and Keras."""

import abc
import os
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from bert_keras.engines.cores import count_cores
from bert_keras.errors import InputError
from bert_keras.features import ENCODER_INPUTS, FEATURES

# Environment variables that make a SavedModel fast if they are 1 before TensorFlow is imported. The first turns oneDNN
# on, also on processors without AVX-512 VNNI; the second keeps weights in the order of its kernels, which is only for
# processes that change no weights (see `export/saved_model/short_texts.py`).
FAST_SAVED_MODEL = ("TF_ENABLE_ONEDNN_OPTS", "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS")

Features = Mapping[str, np.ndarray]

_INPUTS = {FEATURES[name].huggingface_name: name for name in (*ENCODER_INPUTS, "segment_ids")}  # their name: ours
_OUTPUTS = {"sentence_embedding": "embedding"}  # Hugging Face names of outputs that tasks know under ours


class Engine(abc.ABC):
    """Base class of engines.

    Attributes:
        tokens_per_batch: number of tokens per batch, including padding, that gives the most throughput.
        shortest_share: a batch has no sequence shorter than this share of its longest one, so that little padding
            is computed; 0: any.
        length_step: sequences are padded to a multiple of this length, but not beyond `max_length`, for runtimes that
            prepare each new shape.
        max_length: the longest sequence that the model accepts, in tokens; None: any.
        num_instances: number of batches that run at the same time.
    """

    tokens_per_batch = 4096
    shortest_share = 0.0
    length_step = 1
    max_length: int | None = None
    num_instances = 1

    @abc.abstractmethod
    def run(self, features: Features, *, once: bool = False) -> dict[str, np.ndarray]:
        """Run the model on one batch. Several threads may call this at the same time.

        Args:
            features: `token_ids`, `segment_ids`, `padding_mask` (1 = real token, 0 = padding) and optionally
                `pooling_mask`, `(B, S)` int32 each.
            once: whether no more batches follow.

        Returns:
            The outputs under the names that tasks use: `(B, ...)`, or `(B, S, ...)` with one value per token.

        Raises:
            InputError: the engine cannot use one of the features.
        """

    def check_finite(self, values: np.ndarray) -> None:
        """Raise `InputError` if an output contains NaN or infinity."""
        if not np.isfinite(values).all():
            raise InputError(
                "the model outputs NaN or infinity for this text; expected finite numbers: use a checkpoint from "
                "before training diverged"
            )


class ArtifactEngine(Engine):
    """Base class of engines that run an artifact on the CPU.

    Args:
        path: the artifact.
        inputs: the names of its inputs.
        outputs: the names of its outputs.
        wanted: the names of the outputs to compute.

    Raises:
        InputError: the artifact lacks an output, or has an input that no BERT has.
    """

    def __init__(
        self, path: str | os.PathLike, inputs: Collection[str], outputs: Collection[str], wanted: Sequence[str]
    ):
        if unknown := sorted(set(inputs) - set(_INPUTS)):
            raise InputError(
                f"{path} has the input {', '.join(unknown)}; expected {', '.join(_INPUTS)}: use an artifact that "
                "bert-keras export or optimum wrote"
            )
        if missing := sorted(set(wanted) - set(outputs)):
            raise InputError(
                f"{path} has the outputs {', '.join(sorted(outputs))}, and its config.json describes a model with "
                f"{', '.join(missing)}: the two belong to different models"
            )
        self._inputs, self._wanted = tuple(inputs), tuple(wanted)

    def _select_inputs(self, features: Features) -> dict[str, np.ndarray]:
        """Return the inputs of the artifact, keyed by Hugging Face name."""
        if "pooling_mask" in features:
            raise InputError(
                "the model leaves the prompt out of its sentence vectors (include_prompt is false), which an artifact "
                "cannot do: use the checkpoint folder, or no prompt"
            )
        return {name: features[_INPUTS[name]] for name in self._inputs}

    def _name_outputs(self, values: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Return the wanted outputs under the names that tasks use."""
        return {_OUTPUTS.get(name, name): value for name, value in zip(self._wanted, values, strict=True)}


def count_threads(instances: int) -> int:
    """Return the number of threads per instance that uses every core once."""
    return max(1, count_cores() // instances)
