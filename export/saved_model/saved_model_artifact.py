"""Export a SavedModel: write the next version with warm-up requests and server files, and start its parity check."""

import functools

from bert_keras.export.description import write_description
from bert_keras.export.export_job import ExportJob
from bert_keras.export.parity.parity_check import start_saved_model_check
from bert_keras.export.saved_model.op_audit import audit_saved_model
from bert_keras.export.saved_model.serving_bundle import (
    EXAMPLE_MASKED_TEXTS,
    build_example_requests,
    write_serving_files,
)
from bert_keras.export.saved_model.to_saved_model import write_saved_model
from bert_keras.export.saved_model.warmup import replay_warmup, write_warmup
from bert_keras.export.targets import PARITY, WRITTEN_BY, get_next_version
from bert_keras.files import write_json
from bert_keras.modeling.masked_lm import MaskedLMModel
from bert_keras.publishing import publish_folder
from bert_keras.tasks.engines.artifact_files import DESCRIPTION

NUM_CHECKS = 1


def export_saved_model(job: ExportJob) -> None:
    """Write `saved_model/VERSION` and `serving/`, and start the parity check.

    Raises:
        ParityError: an operator is newer than the server, or a warm-up request fails.
    """
    reference, settings = job.reference, job.settings
    version = get_next_version(job.out / "saved_model")
    folder = job.publishing.enter_context(publish_folder(job.out / "saved_model" / str(version), WRITTEN_BY))
    job.stages.begin("writing the SavedModel")
    write_saved_model(reference.model, reference.tokenizer, reference.task, folder)
    task = None if reference.task is None else reference.task.settings()
    write_description(reference.model, reference.tokenizer, folder / DESCRIPTION, task=task)
    audit = audit_saved_model(folder, settings.min_serving)
    is_masked_lm = isinstance(reference.model, MaskedLMModel)
    requests = build_example_requests(folder, EXAMPLE_MASKED_TEXTS if is_masked_lm else None)
    write_warmup(folder, settings.model_name, requests)
    serving = job.publishing.enter_context(publish_folder(job.out / "serving", WRITTEN_BY, overwrite=True))
    write_serving_files(serving, settings.model_name, requests=requests, min_serving=settings.min_serving)

    name = f"saved_model/{version}"

    def complete_report(report: dict) -> dict:
        return {**report, "warmup_requests": num_requests, "audit": audit}

    start = functools.partial(start_saved_model_check, reference, folder, settings.probes)
    job.checks.begin(name, start, complete_report)
    job.completions.append(lambda reports: write_json(folder / "assets.extra" / PARITY, reports[name]))
    num_requests = replay_warmup(folder)  # while the check runs
