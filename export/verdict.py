"""The verdict on an artifact: reloaded in its own runtime, in a fresh process, and compared with its checkpoint."""

import os
import pathlib
import statistics
from collections.abc import Callable, Sequence

import numpy as np

from bert_keras.export import cases
from bert_keras.export.comparison import Comparison
from bert_keras.export.expected_texts import compare_texts
from bert_keras.export.reference import Reference
from bert_keras.export.runtimes import exchange
from bert_keras.export.runtimes.fresh_process import Answers, Request, ask
from bert_keras.export.saved_model import DEFAULT, IDS, text_function
from bert_keras.modeling.masked_lm import MaskedLMModel

# Of a float output; the largest of MiniLM's artifacts: 1.9e-5, in a masked LM's logits (docs/export.md)
TOLERANCE = 1e-4
_TIMED_LENGTH, _NUM_TIMED = 128, 7
_TIMED_WARM = 2  # the first ones of a shape are slower


def check_saved_model(reference: Reference, folder: str | os.PathLike) -> dict:
    """Runs both signatures of a SavedModel and compares every answer with the checkpoint's, by its name.

    Rows of ids and texts are of all lengths, in batches of different sizes, padded by their mates.

    Returns:
        The verdict: `passed`, `tolerance`, `num_inputs`, the differences of `outputs`, how many `labels` differ, what
        the artifact says of its `signatures`, `bytes`, `load_s`, and `latency_ms` of one row of ids.
    """
    config, comparison = reference.config, Comparison(TOLERANCE)
    rows = cases.with_twin(cases.id_rows(config, reference.tokenizer, config.max_sequence_length))
    id_requests, cut = _id_requests(reference, rows)
    function = text_function(reference.model, None, reference.tokenizer, reference.task)
    texts = _texts(reference, function.inputs) if function else []
    text_cut = cases.batches(len(texts))
    text_requests = [(DEFAULT, _text_inputs(function.inputs, [texts[i] for i in batch])) for batch in text_cut]
    answers = ask("saved_model", folder, [*id_requests, *text_requests, *_timed(reference, IDS)])
    _compare_ids(comparison, reference, rows, cut, answers.outputs)
    if function:
        served = _by_text(answers.outputs[len(cut) : len(cut) + len(text_cut)], text_cut)
        compare_texts(comparison, reference, texts, served)
    return _verdict(comparison, len(rows) + len(texts), answers, folder)


def check_ids_artifact(
    reference: Reference,
    kind: str,
    path: str | os.PathLike,
    *,
    lengths: dict[str, int] | None = None,
    tolerance: float = TOLERANCE,
    relative: bool = False,
    as_outputs: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] = dict,
    as_answers: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] = dict,
) -> dict:
    """Compares an artifact that takes rows of ids with its checkpoint.

    Args:
        reference: the checkpoint.
        kind: "tflite" or "onnx".
        path: the file.
        lengths: of signatures that take single rows of a fixed length; None: one that takes any batch of any length.
        tolerance, relative: see `Comparison`.
        as_outputs: what to compare of the checkpoint's outputs of a row, by the names that the artifact has.
        as_answers: the same of the artifact's.

    Returns:
        The verdict, as that of `check_saved_model`.
    """
    comparison, requests, asked = Comparison(tolerance, relative=relative), [], []
    longest = reference.config.max_sequence_length
    for signature, length in (lengths or {"": None}).items():
        rows = cases.with_twin(cases.id_rows(reference.config, reference.tokenizer, min(length or longest, longest)))
        of_signature, cut = _id_requests(reference, rows, signature, length)
        requests += of_signature
        asked += [(rows, cut, length)]
    timed = list(lengths or {"": None})[-1]
    answers = ask(kind, path, [*requests, *_timed(reference, timed, (lengths or {}).get(timed))])
    done = 0
    for rows, cut, length in asked:
        served = map(as_answers, answers.outputs[done : done + len(cut)])
        _compare_ids(comparison, reference, rows, cut, list(served), length, as_outputs)
        done += len(cut)
    return _verdict(comparison, sum(len(rows) for rows, *_ in asked), answers, path)


def _id_requests(
    reference: Reference, rows: Sequence[cases.IdRow], signature: str = IDS, length: int | None = None
) -> tuple[list[Request], list[list[int]]]:
    """Returns requests for rows, and which of them each holds: single ones where the length is fixed."""
    cut = cases.batches(len(rows)) if length is None else [[number] for number in range(len(rows))]
    pad_id = reference.tokenizer.pad_id
    return [(signature, cases.id_inputs([rows[i] for i in batch], pad_id, length)) for batch in cut], cut


def _timed(reference: Reference, signature: str, length: int | None = None) -> list[Request]:
    """Returns requests of one full row that come last and are timed."""
    full = length or min(_TIMED_LENGTH, reference.config.max_sequence_length)
    [row] = cases.id_rows(reference.config, reference.tokenizer, full, number=5, seed=3)[4:]
    return [(signature, cases.id_inputs([row], reference.tokenizer.pad_id, full))] * _NUM_TIMED


def _compare_ids(comparison, reference, rows, cut, answers, length=None, as_outputs=dict) -> None:
    before: dict[str, tuple] = {}  # what was expected and given for the last row
    for batch, answer in zip(cut, answers[: len(cut)], strict=True):
        padded = length or max(len(rows[number].token_ids) for number in batch)
        for place, number in enumerate(batch):
            for name, values in as_outputs(reference.outputs(rows[number])).items():
                served = answer.get(name)
                served = served if served is None else served[place]
                if name in reference.of_pieces:
                    values = values[exchange.kept_places((1, padded, *values.shape[1:]))]
                    served = served if served is None else served[: len(values)]
                comparison.floats(f"{IDS}/{name}", values, served)
                if number and cases.are_twins(rows[number - 1], rows[number]):
                    comparison.responds(f"{IDS}/{name}", *zip(before[name], (values, served), strict=True))
                before[name] = values, served
                if name.endswith("logits"):
                    comparison.best(f"{IDS}/{name}", values, served)


def _texts(reference: Reference, inputs: Sequence[str]) -> list[tuple[str, ...]]:
    texts = cases.texts(reference.tokenizer, reference.text_length)
    if isinstance(reference.model, MaskedLMModel):
        texts = cases.with_masks(texts)
    if len(inputs) == 1:
        return [(text,) for text in texts]
    return list(zip(texts[7:] + texts[:7], texts, strict=True))


def _text_inputs(names: Sequence[str], texts: Sequence[tuple[str, ...]]) -> dict[str, np.ndarray]:
    return {name: cases.as_strings([text[place] for text in texts]) for place, name in enumerate(names)}


def _by_text(answers, cut) -> list[dict[str, np.ndarray]]:
    return [
        {name: values[place] for name, values in answer.items()}
        for batch, answer in zip(cut, answers, strict=True)
        for place in range(len(batch))
    ]


def _verdict(comparison: Comparison, num_inputs: int, answers: Answers, path: str | os.PathLike) -> dict:
    path = pathlib.Path(path)
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return {
        **comparison.verdict(),
        "num_inputs": num_inputs,
        "bytes": sum(file.stat().st_size for file in files),
        "load_s": round(answers.load_s, 3),
        "latency_ms": round(1000 * statistics.median(answers.seconds[-_NUM_TIMED + _TIMED_WARM :]), 3),
        "signatures": answers.signatures,
    }
