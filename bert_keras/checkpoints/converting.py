"""`convert`: convert a model folder of any format, and list what the new format cannot hold.

It combines `loading.py` with `saving.py` or `keras_files/keras_hub_preset.py`.
"""

import os
from typing import NamedTuple

from bert_keras.checkpoints.adapters.merged_checkpoint import merge_adapter
from bert_keras.checkpoints.building import get_variables
from bert_keras.checkpoints.checkpoint import Checkpoint, describe_unused_tensors
from bert_keras.checkpoints.keras_files.keras_hub_preset import write_preset
from bert_keras.checkpoints.loading import check_takes_adapter, is_keras_file, load, load_tokenizer
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.checkpoints.saving import save
from bert_keras.errors import InputError, UnsupportedTokenizerError
from bert_keras.heads.known_heads import get_head
from bert_keras.modeling.base import BertModel
from bert_keras.pipelines.text.tokenizer_folder import TokenizerFolder
from bert_keras.publishing import check_writable_folder

FORMATS = ("huggingface", "keras_hub")


class Conversion(NamedTuple):
    """The result of `convert`.

    Attributes:
        model: the model that was converted.
        not_carried_over: the content of the source that the new folder lacks, one phrase each.
    """

    model: BertModel
    not_carried_over: list[str]


def convert(
    source: str | os.PathLike | Checkpoint,
    out: str | os.PathLike,
    to: str = "huggingface",
    *,
    adapter: str | os.PathLike | None = None,
    overwrite: bool = False,
) -> Conversion:
    """Convert a model folder of any format, with its tokenizer and head.

    Args:
        source: any folder that `load` accepts, a `.keras` file, or the result of `read_checkpoint`.
        out: the folder to write.
        to: "huggingface", which is also the format of our own checkpoint folders, or "keras_hub".
        adapter: folder of a LoRA adapter in PEFT's format to merge into the weights, see `load`.
        overwrite: replace a folder that `convert` wrote.

    Returns:
        A `Conversion`: the model, and the list of everything that could not be carried over.

    Raises:
        InputError: the source cannot be read, the new format has no such model, or `out` cannot be written.

    Example:
        >>> conversion = bk.convert("demo/pretrained", "my/converted")
        >>> conversion.not_carried_over
        []
    """
    if to not in FORMATS:
        raise InputError(f"there is no format {to!r}; expected one of {', '.join(FORMATS)}")
    inputs = [str(source), *([] if adapter is None else [adapter])]
    check_writable_folder(out, "convert", overwrite=overwrite, inputs=inputs)
    if is_keras_file(source):
        check_takes_adapter(source, adapter)
    else:
        source = read_checkpoint(source)
        source = source if adapter is None else merge_adapter(source, adapter)
    model, lost, task, length = load(source), [], None, None
    if isinstance(source, Checkpoint):
        lost, task = _list_skipped(source, model), source.task
    try:
        tokenizer = load_tokenizer(source)
    except UnsupportedTokenizerError as error:
        tokenizer = None
        lost.append(f"the tokenizer: {error}")
    if to == "huggingface":
        if tokenizer is None and isinstance(source, Checkpoint) and get_head(source.model).has_modules:
            length = TokenizerFolder(source.source).max_sequence_length()
        save(model, tokenizer, out, overwrite=overwrite, task=task, max_sequence_length=length, written_by="convert")
    else:
        lost += write_preset(model, tokenizer, out, overwrite=overwrite, task=task)
    return Conversion(model, lost)


def _list_skipped(source: Checkpoint, model: BertModel) -> list[str]:
    """List what the reader skipped, and the stored weights that the model does not have."""
    variables = get_variables(model)
    unused = [weight.name for name, weight in source.weights.items() if name not in variables]
    skipped = [*source.not_carried_over, *describe_unused_tensors(unused, type(model).__name__)]
    return skipped if source.generator is None else [*skipped, *source.generator.not_carried_over]
