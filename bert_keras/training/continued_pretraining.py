"""Continued pretraining: what a run with `model.start_from` uses of that checkpoint. No TensorFlow here."""

import dataclasses
import os
from collections.abc import Iterator, Sequence

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.reading import find_folder, read_tokenizer_settings
from bert_keras.checkpoints.vocabulary_file import check_same_tokenizer
from bert_keras.errors import InputError
from bert_keras.training.config.recipes import Pretraining
from bert_keras.training.config.tables import DEFAULT_GENERATOR_SIZE, MODEL_FIELDS

_ENCODER = ("encoder", "encoder.embeddings.")  # a name for people, and the prefix of the weights' names


@dataclasses.dataclass(frozen=True)
class Start:
    """A run that starts from a checkpoint.

    Attributes:
        run: the settings of the run, with the sizes of the checkpoint in `[model]`.
        loaded: the parts of the model that the checkpoint has weights for.
        new: the parts that start with new weights.
    """

    run: Pretraining
    loaded: tuple[str, ...]
    new: tuple[str, ...]

    def __str__(self) -> str:
        new = f"; new: {', '.join(self.new)}" if self.new else ""
        return f"{self.run.model.start_from}: its {', '.join(self.loaded)}{new}"


def resolve_start(run: Pretraining, checkpoint: Checkpoint) -> Start:
    """Compare the settings of a run with the checkpoint that it starts from, and copy the checkpoint's sizes.

    Args:
        run: a run with `model.start_from`.
        checkpoint: what `read_checkpoint` returned for that folder.

    Raises:
        InputError: a setting contradicts the checkpoint, the records are too long for it, or it cannot be trained with
            this objective; the message lists all problems.
    """
    if conflicts := list(_find_conflicts(run, checkpoint)):
        raise InputError("; ".join(conflicts))
    objective = run.model.head.objective
    parts = (_ENCODER, *objective.parts)
    loaded = [name for name, prefix in parts if any(weight.startswith(prefix) for weight in checkpoint.weights)]
    new = [name for name, _ in parts if name not in loaded]
    if objective.has_generator:
        (loaded if checkpoint.generator else new).append("generator")
    sizes = {name: getattr(checkpoint.config, name) for name in MODEL_FIELDS}
    if "generator" in new:
        sizes["generator_size"] = run.model.generator_size or DEFAULT_GENERATOR_SIZE
    run = dataclasses.replace(run, model=dataclasses.replace(run.model, preset=None, **sizes))
    return Start(run, tuple(loaded), tuple(new))


def check_start_tokenizer(start_from: str, folders: Sequence[str | os.PathLike]) -> None:
    """Check that a checkpoint folder has the tokenizer that the records were made with.

    Args:
        start_from: the checkpoint folder, in any format.
        folders: the records folders.

    Raises:
        InputError: the checkpoint has no vocabulary, or another tokenizer.
    """
    settings = read_tokenizer_settings(start_from) if find_folder(start_from, with_weights=False).is_dir() else None
    if settings is None:
        raise InputError(
            f"{start_from} has no vocabulary; expected a checkpoint folder with tokenizer.json or vocab.txt, to "
            "compare its token ids with those of the records: convert it to a folder, and copy its vocab.txt into it"
        )
    for folder in folders:
        check_same_tokenizer(start_from, settings, folder, read_tokenizer_settings(folder))


def _find_conflicts(run: Pretraining, checkpoint: Checkpoint) -> Iterator[str]:
    """Yield a message for each model setting that was given and differs from the checkpoint, and other conflicts."""
    model, folder = run.model, run.model.start_from
    if model.preset is not None:
        yield f"model.preset is {model.preset!r}, but {folder} determines the model: remove the preset"
    for name in MODEL_FIELDS:
        given, stored = getattr(model, name), getattr(checkpoint.config, name)
        if given is not None and given != stored:
            yield f"model.{name} is {given}, but {folder} has {stored}: remove the setting, or train a new model"
    if model.output_bias != "zeros":
        yield f"model.output_bias is {model.output_bias!r}, but {folder} has its own bias: remove the setting"
    head = model.head
    if model.generator_size is not None and (not head.objective.has_generator or checkpoint.generator is not None):
        reason = f"{folder} has a generator" if checkpoint.generator is not None else "no generator is trained"
        yield f"model.generator_size is {model.generator_size:g}, but {reason}: remove the setting"
    if head.objective.has_generator and checkpoint.model != head.model_name:
        yield (
            f"{folder} contains a {checkpoint.model}; expected an {head.model_name} for the objective "
            f"{head.objective.name}: choose the objective mlm, or start from ELECTRA's discriminator"
        )
    length, maximum = max(run.records.max_sequence_lengths), checkpoint.config.max_sequence_length
    if length > maximum:
        yield (
            f"the records have sequences of {length} tokens, and {folder} accepts up to {maximum}: make them again "
            f"with --max-sequence-length {maximum}"
        )
