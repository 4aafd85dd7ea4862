"""The parity check: reload an artifact in its own runtime, in a fresh process, and compare it with its checkpoint."""

import contextlib
import dataclasses
import os
import pathlib
import statistics
from collections.abc import Callable, Mapping, Sequence

from bert_keras.export.parity import probe_inputs
from bert_keras.export.parity.artifact_program import choose_compared_positions
from bert_keras.export.parity.comparison import Comparison
from bert_keras.export.parity.expected_answers import CompareAnswers, expect_text_answers
from bert_keras.export.parity.fresh_process import Answers, FreshProcess
from bert_keras.export.parity.probe_inputs import IdSequence, ProbeSet
from bert_keras.export.parity.reference import Outputs, Reference
from bert_keras.export.saved_model.to_saved_model import IDS, SERVING_DEFAULT, build_text_function

# Of a float output. MiniLM's artifacts differ by at most 1.9e-5, in a masked LM's logits (docs/guide/export.md).
TOLERANCE = 1e-4
_TIMED_LENGTH, _NUM_TIMED = 128, 7
_NUM_WARMUP = 2  # timed requests that are not counted: the first ones of a shape are slower


@dataclasses.dataclass(frozen=True)
class ParityCheck:
    """A parity check in progress: the artifact runs in the background until `report` is called.

    Attributes:
        process: the process that runs the artifact.
        compute_expected: computes the checkpoint's answers.
        compare: returns the report from the result of `compute_expected` and the artifact's answers.
    """

    process: FreshProcess
    compute_expected: Callable[[], object]
    compare: Callable[[object, Answers], dict]

    def report(self) -> dict:
        """Wait for the artifact and return its parity report.

        Raises:
            MissingExtraError: the runtime is not installed.
            ParityError: the artifact does not run.
        """
        with contextlib.closing(self.process):
            expected = self.compute_expected()
            return self.compare(expected, self.process.answers())

    def close(self) -> None:
        """End the process without a report."""
        self.process.close()


def start_saved_model_check(
    reference: Reference, folder: str | os.PathLike, probes: ProbeSet = probe_inputs.DEFAULT_PROBES
) -> ParityCheck:
    """Start the parity check of both signatures of a SavedModel; see `start_check`."""
    function = build_text_function(reference.model, None, reference.tokenizer, reference.task)
    return start_check(
        reference,
        "saved_model",
        folder,
        probes,
        lengths={IDS: None},
        text_inputs=function.inputs if function else (),
        select_outputs=reference.drop_hidden_states,
    )


def start_check(
    reference: Reference,
    kind: str,
    artifact: str | os.PathLike,
    probes: ProbeSet = probe_inputs.DEFAULT_PROBES,
    *,
    lengths: Mapping[str, int | None],
    text_inputs: Sequence[str] = (),
    tolerance: float = TOLERANCE,
    relative: bool = False,
    select_outputs: Callable[[Outputs], Outputs] = dict,
    convert_answers: Callable[[Outputs], Outputs] = dict,
    complete_report: Callable[[dict], dict] = dict,
) -> ParityCheck:
    """Start the parity check of an artifact.

    Sequences of ids and texts have many lengths and come in batches of different sizes, padded to the longest.

    Args:
        reference: the checkpoint.
        kind: "saved_model", "tflite" or "onnx".
        artifact: the folder or file.
        probes: the inputs to compare on.
        lengths: the signatures that accept sequences of ids, keyed by name: the fixed length of a signature that
            accepts one sequence; None: it accepts any batch of any length.
        text_inputs: the inputs of the signature that accepts texts; empty: there is none.
        tolerance: see `Comparison`.
        relative: see `Comparison`.
        select_outputs: from the checkpoint's outputs for a sequence to those that are compared, under the artifact's
            names.
        convert_answers: applied to the artifact's outputs before they are compared.
        complete_report: applied to the report, to add to it.

    Returns:
        The check. Its report contains `passed`, `tolerance`, `probes`, `num_inputs`, the differences of `outputs` and
        `labels`, the artifact's `signatures`, its size in `bytes`, `load_s`, and `latency_ms` of one sequence of ids.
    """
    config, tokenizer = reference.config, reference.tokenizer
    longest, requests, parts = config.max_sequence_length, [], []
    for signature, length in lengths.items():
        sequences = probes.sequences(config, tokenizer, min(length or longest, longest))
        count = len(sequences)
        batches = probe_inputs.split_into_batches(count) if length is None else [[number] for number in range(count)]
        padded = (
            probe_inputs.pad_sequences([sequences[i] for i in batch], tokenizer.pad_id, length) for batch in batches
        )
        requests += [(signature, inputs) for inputs in padded]
        parts.append((sequences, batches, length))
    signature, length = list(lengths.items())[-1]  # the one that is timed
    timed_length = length or min(_TIMED_LENGTH, longest)
    timed = probe_inputs.draw_sequences(config, tokenizer, timed_length, number=5, seed=3)[-1:]
    timed_request = signature, probe_inputs.pad_sequences(timed, tokenizer.pad_id, timed_length)
    texts = _choose_texts(reference, probes, text_inputs) if text_inputs else []
    text_batches = probe_inputs.split_into_batches(len(texts))
    for batch in text_batches:
        columns = zip(text_inputs, zip(*(texts[i] for i in batch), strict=True), strict=True)
        requests.append((SERVING_DEFAULT, {name: probe_inputs.to_bytes_array(column) for name, column in columns}))

    def compute_expected() -> CompareAnswers | None:
        for sequences, *_ in parts:
            for sequence in sequences:
                reference.compute_outputs(sequence)  # the comparison finds them in the cache
        return expect_text_answers(reference, texts) if texts else None

    def compare(compare_answers: CompareAnswers | None, answers: Answers) -> dict:
        comparison, outputs = Comparison(tolerance, relative=relative), map(convert_answers, answers.outputs)
        for sequences, batches, length in parts:
            served = [next(outputs) for _ in batches]
            _compare_ids(comparison, reference, sequences, batches, served, length, select_outputs)
        if texts:
            compare_answers(comparison, _split_answers(list(outputs), text_batches))
        num_inputs = sum(len(sequences) for sequences, *_ in parts) + len(texts)
        return complete_report(_build_report(comparison, probes, num_inputs, answers, artifact))

    process = FreshProcess(kind, artifact, requests, [timed_request] * _NUM_TIMED)
    return ParityCheck(process, compute_expected, compare)


def _compare_ids(
    comparison: Comparison,
    reference: Reference,
    sequences: Sequence[IdSequence],
    batches: Sequence[Sequence[int]],
    answers: Sequence[Outputs],
    length: int | None,
    select_outputs: Callable[[Outputs], Outputs],
) -> None:
    """Compare the artifact's outputs for batches of sequences, and check that it tells twins apart."""
    previous: dict[str, tuple] = {}  # (expected, got) of the previous sequence
    for batch, answer in zip(batches, answers, strict=True):
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
