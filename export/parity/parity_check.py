"""The verdict on an artifact: reloaded in its own runtime, in a fresh process, and compared with its checkpoint."""

import os
import pathlib
import statistics
from collections.abc import Callable, Sequence

import numpy as np

from bert_keras.export.parity import probe_inputs
from bert_keras.export.parity.comparison import Comparison
from bert_keras.export.parity.expected_answers import expect_texts
from bert_keras.export.parity.probe_inputs import ProbeSet
from bert_keras.export.parity.reference import Reference
from bert_keras.export.runtimes import exchange
from bert_keras.export.runtimes.fresh_process import Answers, FreshProcess, Request
from bert_keras.export.saved_model.text_model import DEFAULT, IDS, text_function
from bert_keras.modeling import BertEmbedder
from bert_keras.modeling.masked_lm import MaskedLMModel

# Of a float output; the largest of MiniLM's artifacts: 1.9e-5, in a masked LM's logits (docs/guide/export.md)
TOLERANCE = 1e-4
_TIMED_LENGTH, _NUM_TIMED = 128, 7
_TIMED_WARM = 2  # the first ones of a shape are slower

Outputs = dict[str, np.ndarray]  # by name


class Check:
    """A parity check under way: the artifact answers in the background until the verdict is asked for.

    Args:
        process: runs the artifact.
        expect: computes what the checkpoint says.
        judge: returns the verdict, given what `expect` returned and what the artifact answered.
    """

    def __init__(self, process: FreshProcess, expect: Callable[[], object], judge: Callable[[object, Answers], dict]):
        self._process, self._expect, self._judge = process, expect, judge

    def verdict(self) -> dict:
        """Returns the verdict.

        Raises:
            MissingExtraError: the runtime is not installed.
            ParityError: the artifact does not run.
        """
        with self._process:
            expected = self._expect()
            return self._judge(expected, self._process.answers())

    def close(self) -> None:
        """Ends the process without a verdict."""
        self._process.close()


def start_saved_model_check(
    reference: Reference, folder: str | os.PathLike, probes: ProbeSet = probe_inputs.DEFAULT
) -> Check:
    """Starts both signatures of a SavedModel, to compare every answer with the checkpoint's, by its name.

    Sequences of ids and texts are of all lengths, in batches of different sizes, padded by their mates.

    Returns:
        The check. Its verdict: `passed`, `tolerance`, `probes` and `num_inputs`, the differences of `outputs`, how many
        `labels` differ, what the artifact says of its `signatures`, `bytes`, `load_s`, and `latency_ms` of one
        sequence of ids.
    """
    rows = probes.sequences(reference.config, reference.tokenizer, reference.config.max_sequence_length)
    id_requests, cut = _id_requests(reference, rows)
    function = text_function(reference.model, None, reference.tokenizer, reference.task)
    texts = _texts(reference, probes, function.inputs) if function else []
    text_cut = probe_inputs.batches(len(texts))
    text_requests = [(DEFAULT, _text_inputs(function.inputs, [texts[i] for i in batch])) for batch in text_cut]

    def expect():
        _compute(reference, rows)
        return expect_texts(reference, texts) if texts else None

    def judge(compare_texts, answers: Answers) -> dict:
        comparison = Comparison(TOLERANCE)
        _compare_ids(comparison, reference, rows, cut, answers.outputs, as_outputs=without_hidden(reference.model))
        if texts:
            compare_texts(comparison, _by_text(answers.outputs[len(cut) :], text_cut))
        return _verdict(comparison, probes, len(rows), len(texts), answers, folder)

    requests = [*id_requests, *text_requests]
    return Check(FreshProcess("saved_model", folder, requests, _timed(reference, IDS)), expect, judge)


def start_ids_check(
    reference: Reference,
    kind: str,
    path: str | os.PathLike,
    probes: ProbeSet = probe_inputs.DEFAULT,
    *,
    lengths: dict[str, int] | None = None,
    tolerance: float = TOLERANCE,
    relative: bool = False,
    as_outputs: Callable[[Outputs], Outputs] = dict,
    as_answers: Callable[[Outputs], Outputs] = dict,
) -> Check:
    """Starts an artifact that takes sequences of ids, to compare it with its checkpoint.

    Args:
        reference: the checkpoint.
        kind: "tflite" or "onnx".
        path: the file.
        probes: what to ask.
        lengths: of signatures that take single sequences of a fixed length; None: one that takes any batch of any
            length.
        tolerance, relative: see `Comparison`.
        as_outputs: what to compare of the checkpoint's outputs of a sequence, by the names that the artifact has.
        as_answers: the same of the artifact's.

    Returns:
        The check; its verdict is as that of `start_saved_model_check`.
    """
    requests, asked = [], []
    longest = reference.config.max_sequence_length
    for signature, length in (lengths or {"": None}).items():
        rows = probes.sequences(reference.config, reference.tokenizer, min(length or longest, longest))
        of_signature, cut = _id_requests(reference, rows, signature, length)
        requests += of_signature
        asked += [(rows, cut, length)]

    def expect() -> None:
        for rows, *_ in asked:
            _compute(reference, rows)

    def judge(_, answers: Answers) -> dict:
        comparison, served = Comparison(tolerance, relative=relative), map(as_answers, answers.outputs)
        for rows, cut, length in asked:
            of_signature = [next(served) for _ in cut]
            _compare_ids(comparison, reference, rows, cut, of_signature, length, as_outputs)
        return _verdict(comparison, probes, sum(len(rows) for rows, *_ in asked), 0, answers, path)

    timed = list(lengths or {"": None})[-1]
    timed_requests = _timed(reference, timed, (lengths or {}).get(timed))
    return Check(FreshProcess(kind, path, requests, timed_requests), expect, judge)


def _compute(reference: Reference, rows: Sequence[probe_inputs.IdRow]) -> None:
    """Computes outputs while the artifact answers, as far as they are kept."""
    for row in rows:
        reference.outputs(row)


def without_hidden(model) -> Callable[[Outputs], Outputs]:
    """Returns what a SavedModel or a TFLite file has of a checkpoint's outputs: an embedder's vectors alone."""
    if not isinstance(model, BertEmbedder):
        return dict
    return lambda outputs: {"sentence_embedding": outputs["sentence_embedding"]}


def _id_requests(
    reference: Reference, rows: Sequence[probe_inputs.IdRow], signature: str = IDS, length: int | None = None
) -> tuple[list[Request], list[list[int]]]:
    """Returns requests for rows, and which of them each holds: single ones where the length is fixed."""
    cut = probe_inputs.batches(len(rows)) if length is None else [[number] for number in range(len(rows))]
    pad_id = reference.tokenizer.pad_id
    return [(signature, probe_inputs.id_inputs([rows[i] for i in batch], pad_id, length)) for batch in cut], cut


def _timed(reference: Reference, signature: str, length: int | None = None) -> list[Request]:
    """Returns requests of one full sequence."""
    full = length or min(_TIMED_LENGTH, reference.config.max_sequence_length)
    [row] = probe_inputs.id_rows(reference.config, reference.tokenizer, full, number=5, seed=3)[4:]
    return [(signature, probe_inputs.id_inputs([row], reference.tokenizer.pad_id, full))] * _NUM_TIMED


def _compare_ids(comparison, reference, rows, cut, answers, length=None, as_outputs=dict) -> None:
    before: dict[str, tuple] = {}  # what was expected and given for the last row
    for batch, answer in zip(cut, answers[: len(cut)], strict=True):
        padded = length or max(len(rows[number].token_ids) for number in batch)
        for place, number in enumerate(batch):
            for name, values in as_outputs(reference.outputs(rows[number])).items():
                served = answer.get(name)
                served = served if served is None else served[place]
                if name in reference.of_tokens:
                    values = values[exchange.kept_places((1, padded, *values.shape[1:]))]
                    served = served if served is None else served[: len(values)]
                comparison.floats(f"{IDS}/{name}", values, served)
                if number and probe_inputs.are_twins(rows[number - 1], rows[number]):
                    comparison.responds(f"{IDS}/{name}", *zip(before[name], (values, served), strict=True))
                before[name] = values, served
                if name.endswith("logits"):
                    comparison.best(f"{IDS}/{name}", values, served)


def _texts(reference: Reference, probes: ProbeSet, inputs: Sequence[str]) -> list[tuple[str, ...]]:
    texts = probes.texts(reference.tokenizer, reference.text_length)
    if isinstance(reference.model, MaskedLMModel):
        texts = probe_inputs.with_masks(texts)
    if len(inputs) == 1:
        return [(text,) for text in texts]
    return list(zip(texts[7:] + texts[:7], texts, strict=True))


def _text_inputs(names: Sequence[str], texts: Sequence[tuple[str, ...]]) -> dict[str, np.ndarray]:
    return {name: probe_inputs.as_strings([text[place] for text in texts]) for place, name in enumerate(names)}


def _by_text(answers, cut) -> list[Outputs]:
    return [
        {name: values[place] for name, values in answer.items()}
        for batch, answer in zip(cut, answers, strict=True)
        for place in range(len(batch))
    ]


def _verdict(comparison: Comparison, probes: ProbeSet, num_rows: int, num_texts: int, answers: Answers, path) -> dict:
    path = pathlib.Path(path)
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return {
        **comparison.verdict(),
        "probes": probes.name,
        "num_inputs": num_rows + num_texts,
        "bytes": sum(file.stat().st_size for file in files),
        "load_s": round(answers.load_s, 3),
        "latency_ms": round(1000 * statistics.median(answers.seconds[_TIMED_WARM:]), 3),
        "signatures": answers.signatures,
    }
