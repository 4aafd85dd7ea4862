"""`convert`: a folder of any BERT format in another one, and a list of what could not be carried over."""

import os
from typing import NamedTuple

from bert_keras.checkpoints.building import get_variables
from bert_keras.checkpoints.checkpoint import Checkpoint, describe_unused_tensors
from bert_keras.checkpoints.keras_files.keras_hub_preset import write_preset
from bert_keras.checkpoints.loading import is_keras_file, load, load_tokenizer
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.checkpoints.saving import save
from bert_keras.errors import InputError, UnsupportedTokenizerError
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.tokenizer_folder import TokenizerFolder
from bert_keras.publishing import check_writable_folder

FORMATS = ("huggingface", "keras_hub")


class Conversion(NamedTuple):
    """What `convert` did.

    Attributes:
        model: the model that was read and written.
        not_carried_over: what the source holds and the new folder does not, a sentence for each; empty: nothing.
    """

    model: object
    not_carried_over: list[str]


def convert(
    source: str | os.PathLike | Checkpoint, out: str | os.PathLike, to: str = "huggingface", *, overwrite: bool = False
) -> Conversion:
    """Reads a folder of any format and writes it, tokenizer and head included, in another one.

    Nothing is dropped silently: readers add what they leave behind to `Checkpoint.not_carried_over`, writers return
    what their format cannot hold, and `convert` returns both.

    Args:
        source: any folder that `load` reads.
        out: the folder to write.
        to: "huggingface" (also our own checkpoint folder) or "keras_hub".
        overwrite: replace a folder that `convert` wrote.

    Returns:
        The model, and a sentence for each thing that could not be carried over.

    Raises:
        InputError: the source cannot be read, or the format cannot hold its function.
    """
    if to not in FORMATS:
        raise InputError(f"there is no format {to!r}; expected one of {', '.join(FORMATS)}")
    check_writable_folder(out, "convert", overwrite=overwrite, inputs=[str(source)])
    source = source if is_keras_file(source) else read_checkpoint(source)
    model = load(source)
    lost = _left_in_the_source(source, model) if isinstance(source, Checkpoint) else []
    tokenizer = _tokenizer_of(source, lost)
    task = source.task if isinstance(source, Checkpoint) else None
    if to == "huggingface":
        length = _length_of(source) if tokenizer is None else None
        save(model, tokenizer, out, overwrite=overwrite, task=task, max_sequence_length=length, written_by="convert")
    else:
        lost += write_preset(model, tokenizer, out, overwrite=overwrite, task=task)
    return Conversion(model, lost)


def _left_in_the_source(source: Checkpoint, model) -> list[str]:
    """Lists what the reader left behind, and the weights that it read but the model has no place for."""
    places = get_variables(model)
    unused = [weight.name for name, weight in source.weights.items() if name not in places]
    left = [*source.not_carried_over, *describe_unused_tensors(unused, type(model).__name__)]
    return left if source.generator is None else [*left, *source.generator.not_carried_over]


def _tokenizer_of(source: str | os.PathLike | Checkpoint, lost: list[str]) -> BertTokenizer | None:
    """Returns the source's tokenizer; one of another kind is added to `lost`."""
    try:
        return load_tokenizer(source)
    except UnsupportedTokenizerError as error:
        lost.append(f"the tokenizer: {error}")
        return None


def _length_of(source: str | os.PathLike | Checkpoint) -> int | None:
    """Returns where an embedder's folder says that texts are cut, whatever its tokenizer."""
    if not isinstance(source, Checkpoint) or source.model != "BertEmbedder":
        return None
    return TokenizerFolder(source.source).max_sequence_length()
