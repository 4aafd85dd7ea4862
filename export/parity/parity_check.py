"""The parity check: reload an artifact in its own runtime, in a fresh process, and compare it with its checkpoint."""

import os
import pathlib
import statistics
from collections.abc import Callable, Sequence

from bert_keras.export.parity import probe_inputs
from bert_keras.export.parity.artifact_program import choose_compared_positions
from bert_keras.export.parity.comparison import Comparison
from bert_keras.export.parity.expected_answers import CompareAnswers, expect_text_answers
from bert_keras.export.parity.fresh_process import Answers, FreshProcess, Request
from bert_keras.export.parity.probe_inputs import IdSequence, ProbeSet
from bert_keras.export.parity.reference import Outputs, Reference
from bert_keras.export.saved_model.to_saved_model import IDS, SERVING_DEFAULT, build_text_function

# Of a float output. MiniLM's artifacts differ by at most 1.9e-5, in a masked LM's logits (docs/guide/export.md).
TOLERANCE = 1e-4
_TIMED_LENGTH, _NUM_TIMED = 128, 7
_NUM_WARMUP = 2  # timed requests that are not counted: the first ones of a shape are slower


class ParityCheck:
    """A parity check in progress: the artifact runs in the background until `report` is called.

    Args:
        process: the process that runs the artifact.
        compute_expected: computes the checkpoint's answers.
        compare: returns the report from the result of `compute_expected` and the artifact's answers.
        complete_report: applied to the report, to add to it.
    """

    def __init__(
        self,
        process: FreshProcess,
        compute_expected: Callable[[], object],
        compare: Callable[[object, Answers], dict],
        complete_report: Callable[[dict], dict] = dict,
    ):
        self._process, self._compute_expected, self._compare = process, compute_expected, compare
        self._complete_report = complete_report

    def report(self) -> dict:
        """Wait for the artifact and return its parity report.

        Raises:
            MissingExtraError: the runtime is not installed.
            ParityError: the artifact does not run.
        """
        with self._process:
            expected = self._compute_expected()
            return self._complete_report(self._compare(expected, self._process.answers()))

    def close(self) -> None:
        """End the process without a report."""
        self._process.close()


def start_saved_model_check(
    reference: Reference, folder: str | os.PathLike, probes: ProbeSet = probe_inputs.DEFAULT_PROBES
) -> ParityCheck:
    """Start the parity check of both signatures of a SavedModel.

    Sequences of ids and texts have many lengths and come in batches of different sizes, padded to the longest.

    Args:
        reference: the checkpoint.
        folder: the SavedModel.
        probes: the inputs to compare on.

    Returns:
        The check. Its report contains `passed`, `tolerance`, `probes`, `num_inputs`, the differences of `outputs` and
        `labels`, the artifact's `signatures`, its size in `bytes`, `load_s`, and `latency_ms` of one sequence of ids.
    """
    sequences = probes.sequences(reference.config, reference.tokenizer, reference.config.max_sequence_length)
    id_requests, id_batches = _build_id_requests(reference, sequences)
    function = build_text_function(reference.model, None, reference.tokenizer, reference.task)
    texts = _choose_texts(reference, probes, function.inputs) if function else []
    text_batches = probe_inputs.split_into_batches(len(texts))
    text_requests = [
        (SERVING_DEFAULT, _build_text_inputs(function.inputs, [texts[i] for i in batch])) for batch in text_batches
    ]

    def compute_expected() -> CompareAnswers | None:
        _cache_outputs(reference, sequences)
        return expect_text_answers(reference, texts) if texts else None

    def compare(compare_answers: CompareAnswers | None, answers: Answers) -> dict:
        comparison = Comparison(TOLERANCE)
        select_outputs = reference.drop_hidden_states
        _compare_ids(comparison, reference, sequences, id_batches, answers.outputs, select_outputs=select_outputs)
        if texts:
            compare_answers(comparison, _split_answers(answers.outputs[len(id_batches) :], text_batches))
        return _build_report(comparison, probes, len(sequences) + len(texts), answers, folder)

    process = FreshProcess("saved_model", folder, [*id_requests, *text_requests], _build_timed_requests(reference, IDS))
    return ParityCheck(process, compute_expected, compare)


def start_ids_check(
    reference: Reference,
    kind: str,
    path: str | os.PathLike,
    probes: ProbeSet = probe_inputs.DEFAULT_PROBES,
    *,
    lengths: dict[str, int] | None = None,
    tolerance: float = TOLERANCE,
    relative: bool = False,
    select_outputs: Callable[[Outputs], Outputs] = dict,
    convert_answers: Callable[[Outputs], Outputs] = dict,
    complete_report: Callable[[dict], dict] = dict,
) -> ParityCheck:
    """Start the parity check of a file that accepts sequences of ids.

    Args:
        reference: the checkpoint.
        kind: "tflite" or "onnx".
        path: the file.
        probes: the inputs to compare on.
        lengths: the fixed length of each signature, keyed by its name; each accepts one sequence. None: the file has
            one signature, which accepts any batch of any length.
        tolerance: see `Comparison`.
        relative: see `Comparison`.
        select_outputs: from the checkpoint's outputs for a sequence to those that are compared, under the file's names.
        convert_answers: applied to the file's outputs before they are compared.
        complete_report: applied to the report, to add to it.

    Returns:
        The check. Its report is like that of `start_saved_model_check`.
    """
    requests, parts = [], []
    longest = reference.config.max_sequence_length
    for signature, length in (lengths or {"": None}).items():
        sequences = probes.sequences(reference.config, reference.tokenizer, min(length or longest, longest))
        signature_requests, batches = _build_id_requests(reference, sequences, signature, length)
        requests += signature_requests
        parts.append((sequences, batches, length))

    def compute_expected() -> None:
        for sequences, *_ in parts:
            _cache_outputs(reference, sequences)

    def compare(_: None, answers: Answers) -> dict:
        comparison, outputs = Comparison(tolerance, relative=relative), map(convert_answers, answers.outputs)
        for sequences, batches, length in parts:
            served = [next(outputs) for _ in batches]
            _compare_ids(comparison, reference, sequences, batches, served, length, select_outputs)
        return _build_report(comparison, probes, sum(len(sequences) for sequences, *_ in parts), answers, path)

    last_signature = list(lengths or {"": None})[-1]
    timed_requests = _build_timed_requests(reference, last_signature, (lengths or {}).get(last_signature))
    process = FreshProcess(kind, path, requests, timed_requests)
    return ParityCheck(process, compute_expected, compare, complete_report)


def _cache_outputs(reference: Reference, sequences: Sequence[IdSequence]) -> None:
    """Compute the checkpoint's outputs while the artifact runs, so that the comparison finds them in the cache."""
    for sequence in sequences:
        reference.compute_outputs(sequence)


def _build_id_requests(
    reference: Reference, sequences: Sequence[IdSequence], signature: str = IDS, length: int | None = None
) -> tuple[list[Request], list[list[int]]]:
    """Return requests and the indices of the sequences in each: one sequence per request if `length` is fixed."""
    batches = (
        probe_inputs.split_into_batches(len(sequences)) if length is None else [[i] for i in range(len(sequences))]
    )
    pad_id = reference.tokenizer.pad_id
    requests = [
        (signature, probe_inputs.pad_sequences([sequences[i] for i in batch], pad_id, length)) for batch in batches
    ]
    return requests, batches


def _build_timed_requests(reference: Reference, signature: str, length: int | None = None) -> list[Request]:
    """Return requests of one sequence without padding."""
    length = length or min(_TIMED_LENGTH, reference.config.max_sequence_length)
    sequences = probe_inputs.draw_sequences(reference.config, reference.tokenizer, length, number=5, seed=3)
    return [(signature, probe_inputs.pad_sequences(sequences[-1:], reference.tokenizer.pad_id, length))] * _NUM_TIMED


def _compare_ids(
    comparison: Comparison,
    reference: Reference,
    sequences: Sequence[IdSequence],
    batches: Sequence[Sequence[int]],
    answers: Sequence[Outputs],
    length: int | None = None,
    select_outputs: Callable[[Outputs], Outputs] = dict,
) -> None:
    """Compare the artifact's outputs for batches of sequences, and check that it tells twins apart."""
    previous: dict[str, tuple] = {}  # (expected, got) of the previous sequence
    for batch, answer in zip(batches, answers[: len(batches)], strict=True):
        padded_length = length or max(len(sequences[number].token_ids) for number in batch)
        for place, number in enumerate(batch):
            is_twin = number > 0 and probe_inputs.are_twins(sequences[number - 1], sequences[number])
            for output, values in select_outputs(reference.compute_outputs(sequences[number])).items():
                name = f"{IDS}/{output}"
                got = answer[output][place] if output in answer else None
                if output in reference.token_outputs:
                    values = values[choose_compared_positions((1, padded_length, *values.shape[1:]))]
                    got = got if got is None else got[: len(values)]
                comparison.compare_floats(name, values, got)
                if is_twin:
                    comparison.check_twins_differ(name, *zip(previous[name], (values, got), strict=True))
                previous[name] = values, got
                if output.endswith("logits"):
                    comparison.compare_argmax(name, values, got)


def _choose_texts(reference: Reference, probes: ProbeSet, inputs: Sequence[str]) -> list[tuple[str, ...]]:
    texts = probes.texts(reference.tokenizer, reference.text_length)
    if reference.head.fills_masks:
        texts = probe_inputs.insert_masks(texts)
    if len(inputs) == 1:
        return [(text,) for text in texts]
    return list(zip(texts[7:] + texts[:7], texts, strict=True))


def _build_text_inputs(names: Sequence[str], texts: Sequence[tuple[str, ...]]) -> Outputs:
    return {name: probe_inputs.to_bytes_array([text[place] for text in texts]) for place, name in enumerate(names)}


def _split_answers(answers: Sequence[Outputs], batches: Sequence[Sequence[int]]) -> list[Outputs]:
    """Return the outputs of each text, from those of batches of texts."""
    return [
        {name: values[place] for name, values in answer.items()}
        for batch, answer in zip(batches, answers, strict=True)
        for place in range(len(batch))
    ]


def _build_report(
    comparison: Comparison, probes: ProbeSet, num_inputs: int, answers: Answers, path: str | os.PathLike
) -> dict:
    path = pathlib.Path(path)
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return {
        **comparison.report(),
        "probes": probes.name,
        "num_inputs": num_inputs,
        "bytes": sum(file.stat().st_size for file in files),
        "load_s": round(answers.load_s, 3),
        "latency_ms": round(1000 * statistics.median(answers.seconds[_NUM_WARMUP:]), 3),
        "signatures": answers.signatures,
    }
