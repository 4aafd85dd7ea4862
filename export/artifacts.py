"""A checkpoint folder to a folder of artifacts, each proven equal before it is published."""

import logging
import os
from collections.abc import Callable, Sequence

from bert_keras.checkpoints.load import load, load_tokenizer
from bert_keras.errors import InputError, VerdictError
from bert_keras.export.saved_model import write_saved_model
from bert_keras.export.verdict import check_saved_model
from bert_keras.files import check_writable_target, publish_folder, write_json

logger = logging.getLogger(__name__)

FORMATS = ("saved_model",)
_NUM_STAGES = 3


def export_checkpoint(
    checkpoint: str | os.PathLike,
    out: str | os.PathLike,
    formats: Sequence[str] = FORMATS,
    *,
    overwrite: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> dict:
    """Writes artifacts of a checkpoint, with `parity.json`, the proof that they compute the same.

    Args:
        checkpoint: any folder that `bert_keras.load` reads, with a vocabulary.
        out: the folder to write: `saved_model/1/` and `parity.json`.
        formats: which artifacts.
        overwrite: replace a folder that is not empty.
        progress: called with (stages done, stages in all, the stage that begins).

    Returns:
        What `parity.json` holds: for each artifact the largest difference by output name.

    Raises:
        InputError: an unknown format, or the checkpoint cannot be read.
        VerdictError: an artifact, reloaded in a fresh process, differs from the checkpoint; nothing is published.
    """
    if unknown := sorted(set(formats) - set(FORMATS)):
        raise InputError(f"there is no format {', '.join(unknown)} in this version; expected {', '.join(FORMATS)}")
    check_writable_target(out, overwrite=overwrite)
    report = progress or (lambda *_: None)
    report(0, _NUM_STAGES, "loading the checkpoint")
    model, tokenizer = load(checkpoint), load_tokenizer(checkpoint)
    if tokenizer is None:
        raise InputError(f"{checkpoint} has no vocabulary; an artifact carries its tokenizer: put vocab.txt there")
    with publish_folder(out, overwrite=overwrite) as staging:
        folder = staging / "saved_model" / "1"
        report(1, _NUM_STAGES, "writing the SavedModel")
        write_saved_model(model, tokenizer, folder)
        report(2, _NUM_STAGES, "checking it in a fresh process")
        verdict = check_saved_model(model, tokenizer, folder)
        if not verdict["passed"]:
            raise VerdictError(f"the SavedModel differs from {checkpoint} and was not published: {verdict['outputs']}")
        parity = {"checkpoint": str(checkpoint), "artifacts": {"saved_model": verdict}}
        write_json(staging / "parity.json", parity)
    report(_NUM_STAGES, _NUM_STAGES, "published")
    logger.info("wrote %s", out)
    return parity
