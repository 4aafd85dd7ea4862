"""The SavedModel as an artifact: the next version, audited, compared, with warm-up requests and what a server needs."""

import functools

from bert_keras.export.exporting import Export
from bert_keras.export.parity.parity_check import start_saved_model_check
from bert_keras.export.saved_model.op_audit import audit_saved_model
from bert_keras.export.saved_model.serving_bundle import example_requests, write_serving_files
from bert_keras.export.saved_model.text_model import write_saved_model
from bert_keras.export.saved_model.warmup import replay_warmup, write_warmup
from bert_keras.export.targets import PARITY, WRITTEN_BY, next_version
from bert_keras.files import write_json
from bert_keras.modeling.masked_lm import MaskedLMModel
from bert_keras.publishing import publish_folder

NUM_CHECKS = 1
_MASKED_TEXTS = {"text": ["The [MASK] is fine today.", "[MASK] and [MASK]"]}


def export_saved_model(export: Export) -> None:
    """Writes `saved_model/VERSION` and `serving/` and starts the check.

    Raises:
        ParityError: an operator is newer than the server, or a warm-up request fails.
    """
    reference, settings = export.reference, export.settings
    version = next_version(export.out / "saved_model")
    folder = export.published.enter_context(publish_folder(export.out / "saved_model" / str(version), WRITTEN_BY))
    export.stages.begin("writing the SavedModel")
    write_saved_model(reference.model, reference.tokenizer, reference.task, folder)
    audit = audit_saved_model(folder, settings.min_serving)
    requests = example_requests(folder, _MASKED_TEXTS if isinstance(reference.model, MaskedLMModel) else None)
    write_warmup(folder, settings.model_name, requests)
    serving = export.published.enter_context(publish_folder(export.out / "serving", WRITTEN_BY, overwrite=True))
    write_serving_files(serving, settings.model_name, requests=requests, min_serving=settings.min_serving)

    def complete(verdict: dict) -> dict:
        verdict = {**verdict, "warmup_requests": num_requests, "audit": audit}
        write_json(folder / "assets.extra" / PARITY, verdict)
        return verdict

    start = functools.partial(start_saved_model_check, reference, folder, settings.probes)
    export.checks.begin(f"saved_model/{version}", start, complete)
    num_requests = replay_warmup(folder)  # while the check runs
