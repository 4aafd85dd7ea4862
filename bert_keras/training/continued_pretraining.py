"""What a pretraining that starts from a checkpoint takes from it. No TensorFlow here."""

import dataclasses
import pathlib
from collections.abc import Iterator, Sequence

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.reading import read_tokenizer_settings
from bert_keras.checkpoints.tokenizer_match import check_same_tokenizer
from bert_keras.errors import InputError
from bert_keras.training.config.recipes import Pretraining
from bert_keras.training.config.tables import DEFAULT_GENERATOR_SIZE, MODEL_FIELDS

# of each objective: what we call a part of its model, and how the names of its weights begin
_ENCODER = ("encoder", "encoder.embeddings.")
_MASKED_LM_HEAD = ("masked-LM head", "mlm_head.")
_PARTS = {
    "bert": (_ENCODER, _MASKED_LM_HEAD, ("pooler", "encoder.pooler."), ("next-sentence head", "next_sentence.")),
    "mlm": (_ENCODER, _MASKED_LM_HEAD),
    "electra": (_ENCODER, ("replaced-token head", "replaced.")),
}


@dataclasses.dataclass(frozen=True)
class Start:
    """A run that starts from a checkpoint.

    Attributes:
        run: its settings; `[model]` has the sizes of the checkpoint.
        kept: the parts of the model whose weights the checkpoint has.
        new: the parts that start with new weights.
    """

    run: Pretraining
    kept: tuple[str, ...]
    new: tuple[str, ...]

    def __str__(self) -> str:
        new = f"; new: {', '.join(self.new)}" if self.new else ""
        return f"{self.run.model.start_from}: its {', '.join(self.kept)}{new}"


def resolve_start(run: Pretraining, checkpoint: Checkpoint) -> Start:
    """Compare the settings of a run with the checkpoint that it starts from, and put its sizes into them.

    Args:
        run: with `model.start_from`.
        checkpoint: what `read_checkpoint` returned for that.

    Raises:
        InputError: a setting asks for another model than the checkpoint holds, the records are longer than it reads, or
            it cannot be trained for this objective. All settings are named.
    """
    faults = [*_setting_faults(run, checkpoint), *_objective_faults(run, checkpoint), *_length_faults(run, checkpoint)]
    if faults:
        raise InputError("; ".join(faults))
    parts = _PARTS[run.model.objective]
    kept = [name for name, prefix in parts if any(weight.startswith(prefix) for weight in checkpoint.weights)]
    new = [name for name, _ in parts if name not in kept]
    if run.model.objective == "electra":
        (kept if checkpoint.generator else new).append("generator")
    sizes = {name: getattr(checkpoint.config, name) for name in MODEL_FIELDS}
    if "generator" in new:
        sizes["generator_size"] = run.model.generator_size or DEFAULT_GENERATOR_SIZE
    run = dataclasses.replace(run, model=dataclasses.replace(run.model, preset=None, **sizes))
    return Start(run, tuple(kept), tuple(new))


def check_start_tokenizer(start_from: str, folders: Sequence) -> None:
    """Raise `InputError` unless a checkpoint folder has a vocabulary, and the tokenizer of the records.

    Args:
        start_from: the checkpoint folder, of any format.
        folders: the records folders.
    """
    settings = read_tokenizer_settings(start_from) if pathlib.Path(start_from).is_dir() else None
    if settings is None:
        raise InputError(
            f"{start_from} has no vocabulary; expected a checkpoint folder with tokenizer.json or vocab.txt, because "
            "nothing else says that its token ids are those of the records: convert it to a folder, and put its "
            "vocab.txt there"
        )
    for folder in folders:
        check_same_tokenizer(start_from, settings, folder, read_tokenizer_settings(folder))


def _setting_faults(run: Pretraining, checkpoint: Checkpoint) -> Iterator[str]:
    """Yield the settings of the model that are said and are not those of the checkpoint."""
    model, folder = run.model, run.model.start_from
    if model.preset is not None:
        yield f"model.preset is {model.preset!r}, and the model is that of {folder}: leave the preset out"
    for name in MODEL_FIELDS:
        said, stored = getattr(model, name), getattr(checkpoint.config, name)
        if said is not None and said != stored:
            yield f"model.{name} is {said}, and {folder} has {stored}: leave it out, or train a new model"
    if model.generator_size is not None and (model.objective != "electra" or checkpoint.generator is not None):
        reason = "which has a generator" if checkpoint.generator is not None else "and no generator is trained"
        size = f"model.generator_size is {model.generator_size:g}"
        yield f"{size}, but the model is that of {folder}, {reason}: leave it out"


def _objective_faults(run: Pretraining, checkpoint: Checkpoint) -> Iterator[str]:
    if run.model.objective == "electra" and checkpoint.model != "ElectraPretrainer":
        yield (
            f"{run.model.start_from} holds a {checkpoint.model}; expected an ElectraPretrainer for the objective "
            "electra: choose the objective mlm, or start from ELECTRA's discriminator"
        )


def _length_faults(run: Pretraining, checkpoint: Checkpoint) -> Iterator[str]:
    length, longest = max(run.records.max_sequence_lengths), checkpoint.config.max_sequence_length
    if length > longest:
        yield (
            f"the records have sequences of {length} tokens, and {run.model.start_from} reads {longest}: make them "
            f"again with --max-sequence-length {longest}"
        )
