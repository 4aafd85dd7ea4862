"""Export an ONNX folder: write the float32 and the 8-bit file and start their parity checks in onnxruntime."""

import functools
import pathlib

from bert_keras.export.client_bundle.bundle_files import write_onnx_description
from bert_keras.export.client_bundle.probes import make_probes
from bert_keras.export.deployment_bundle import write_deployment_files
from bert_keras.export.export_job import ExportJob
from bert_keras.export.onnx.onnx_calibrated import write_calibrated_onnx
from bert_keras.export.onnx.onnx_calibration import draw_batches, measure_ranges
from bert_keras.export.onnx.onnx_check import start_onnx_check
from bert_keras.export.onnx.onnx_folder import FLOAT32, INT8, write_onnx_folder
from bert_keras.export.onnx.onnx_search import score_onnx, search_onnx
from bert_keras.export.parity.reference import Reference
from bert_keras.export.settings import ExportSettings
from bert_keras.export.targets import WRITTEN_BY
from bert_keras.publishing import publish_folder
from bert_keras.tasks.base import Task
from bert_keras.tasks.mask_filling_task import MaskFilling


def count_stages(settings: ExportSettings) -> int:
    """Return the number of stages after writing the float32 file: two checks, and the quantization search."""
    return 2 + settings.is_automatic


def export_onnx(job: ExportJob) -> None:
    """Write `onnx/`, a Hugging Face folder with `onnx/model.onnx` and `onnx/model_quantized.onnx`, and check both.

    Next to it, `deploy/` contains files that serve it in other places. `model.json`, for programs on devices, is added
    when all artifacts have passed their checks.

    Raises:
        InputError: one of the folders exists and may not be replaced.
        ParityError: ONNX has no equivalent of an operation.
    """
    reference, probes = job.reference, job.settings.probes
    folder, deployment = (
        job.publishing.enter_context(publish_folder(job.out / name, WRITTEN_BY, overwrite=job.overwrite))
        for name in ("onnx", "deploy")
    )
    job.stages.begin("writing ONNX")
    task = reference.task.settings() if reference.task else None
    write_onnx_folder(reference.model, reference.tokenizer, folder, task=task)

    def write_deployment(report: dict) -> dict:
        """Write `deploy/` with the signature that onnxruntime reported."""
        write_deployment_files(
            deployment,
            job.settings.model_name,
            signature=report["signatures"][""],
            num_bytes=report["bytes"],
            task=get_served_task(reference),
        )
        return report

    start = functools.partial(start_onnx_check, reference, folder / FLOAT32, probes, is_quantized=False)
    job.checks.begin(f"onnx/{FLOAT32}", start, write_deployment)
    scores = _write_int8(job, folder)
    if (folder / INT8).exists():
        start = functools.partial(start_onnx_check, reference, folder / INT8, probes, is_quantized=True)
        job.checks.begin(f"onnx/{INT8}", start, lambda report: report | scores)
    else:
        job.checks.finish()
        job.checks.reports[f"onnx/{FLOAT32}"] |= scores
    files = {path: kind for path, kind in ((FLOAT32, "float32"), (INT8, "int8")) if (folder / path).exists()}
    probes = make_probes(reference, reference.task, reference.text_length)
    job.completions.append(lambda reports: write_onnx_description(job, folder, files, probes=probes, reports=reports))


def get_served_task(reference: Reference) -> Task | None:
    """Return the task with which `bert-keras serve` answers texts; None: it cannot serve such a model."""
    name, length = type(reference.model).__name__, reference.text_length
    return reference.task or MaskFilling.for_model(name, length, reference.tokenizer.vocabulary, None)


def _write_int8(job: ExportJob, folder: pathlib.Path) -> dict[str, dict]:
    """Write the 8-bit file while the float32 file is checked; return its scores, to add to its report.

    The quantization search writes none if no 8-bit file scores well enough.
    """
    reference, settings = job.reference, job.settings
    if settings.is_automatic:
        job.checks.finish()  # the candidates are timed, so nothing else may run
        job.stages.begin("comparing 8-bit ONNX files")
        return {"scores": search_onnx(job, folder)}
    write_smoothed_onnx(reference, folder / FLOAT32, folder / INT8)
    return {"scores": score_onnx(job, folder / INT8)} if settings.examples else {}


def write_smoothed_onnx(reference: Reference, float_path: pathlib.Path, path: pathlib.Path) -> None:
    """Write the 8-bit file that needs no texts: its activations are measured on sequences drawn from the vocabulary."""
    ranges = measure_ranges(float_path, draw_batches(reference.config, reference.tokenizer))
    write_calibrated_onnx(float_path, path, ranges)
