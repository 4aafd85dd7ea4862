"""The state of one export that the writers of all formats share: the checkpoint, the settings, progress and checks."""

import contextlib
import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Mapping

import keras

from bert_keras.checkpoints.huggingface.sentence_transformers import write_modules
from bert_keras.checkpoints.saving import build_config
from bert_keras.engines.keras_engine import KerasEngine
from bert_keras.engines.sequence_runner import SequenceRunner
from bert_keras.export.parity.parity_check import ParityCheck
from bert_keras.export.parity.reference import Reference
from bert_keras.export.quantization_search import score_runner
from bert_keras.export.settings import ExportSettings
from bert_keras.files import write_json
from bert_keras.pipelines.text.tokenizer import BertTokenizer

Reports = dict[str, dict]  # the parity report of each artifact, keyed by its path in the output folder


class Stages:
    """Report the progress of an export.

    Args:
        progress: called as `progress(num_done, num_stages, name)` at the start of each stage.
        num_stages: the number of stages.
    """

    def __init__(self, progress: Callable[[int, int, str], None] | None, num_stages: int):
        self._progress = progress or (lambda *_: None)
        self._num_done, self._num_stages = 0, num_stages

    def begin(self, name: str) -> None:
        """Report that a stage begins and that all stages before it are done."""
        self._progress(self._num_done, self._num_stages, name)
        self._num_done += 1


class BackgroundChecks:
    """Run parity checks one after the other, each in the background while the next artifact is written.

    Only one runs at a time: each holds the weights in memory, and two would share the cores that they are timed on.

    Args:
        stages: reports which check is being waited for.
        on_report: called with the name and the parity report of each artifact; raises if the artifact failed.
    """

    def __init__(self, stages: Stages, on_report: Callable[[str, dict], None]):
        self.reports: Reports = {}
        self._stages, self._on_report = stages, on_report
        self._running: tuple[str, ParityCheck, Callable[[dict], dict]] | None = None

    def begin(
        self, name: str, start: Callable[[], ParityCheck], complete_report: Callable[[dict], dict] = dict
    ) -> None:
        """Finish the running check and start the next one.

        Args:
            name: the artifact's path in the output folder.
            start: starts its check.
            complete_report: applied to its parity report, to add to it.
        """
        self.finish()
        self._running = name, start(), complete_report

    def finish(self) -> None:
        """Wait for the report of the running check, if there is one."""
        if self._running is None:
            return
        name, check, complete_report = self._running
        self._running = None
        self._stages.begin(f"comparing {name}")
        self.reports[name] = complete_report(check.report())
        self._on_report(name, self.reports[name])

    def close(self) -> None:
        """End the process of a check that is still running, for example after an error."""
        if self._running is not None:
            self._running[1].close()


@dataclasses.dataclass(frozen=True)
class ExportJob:
    """One export of a checkpoint.

    Attributes:
        reference: the checkpoint.
        out: the folder to write to.
        settings: the settings.
        stages: reports progress.
        checks: compares the artifacts with the checkpoint.
        publishing: folders entered here are renamed to their final names if the export succeeds, and deleted if not.
        overwrite: whether existing artifacts may be replaced.
        whole: the checkpoint with its whole vocabulary, if that of `reference` is trimmed and there are examples to
            score both on; None: the reference.
        completions: called with all parity reports when all artifacts have passed, before the folders are published.
    """

    reference: Reference
    out: pathlib.Path
    settings: ExportSettings
    stages: Stages
    checks: BackgroundChecks
    publishing: contextlib.ExitStack
    overwrite: bool
    whole: Reference | None = None
    completions: list[Callable[[Reports], None]] = dataclasses.field(default_factory=list)

    @functools.cached_property
    def checkpoint_score(self) -> float:
        """The checkpoint's own score on the labelled examples, in points; all formats compare with it."""
        reference = self.whole or self.reference
        run = SequenceRunner(KerasEngine(reference.model), is_token_level=reference.task.is_token_level)
        return score_runner(reference.task, reference.tokenizer, run, self.settings.examples)


def write_description(
    model: keras.Model,
    tokenizer: BertTokenizer,
    folder: str | os.PathLike,
    *,
    task: Mapping[str, object] | None = None,
) -> None:
    """Write the files of a model folder without weights, which tell an engine what an artifact computes.

    They are `config.json` with labels and task, the tokenizer, and for an embedder the files of `modules.json`.

    Args:
        model: an encoder, with or without a head.
        tokenizer: its tokenizer.
        folder: the folder, which is created if necessary. Files with these names are replaced.
        task: the settings of the task that the model was fine-tuned for, as in `bert_keras.save`.
    """
    folder = pathlib.Path(folder)
    tokenizer.save(folder)
    write_json(folder / "config.json", build_config(model, task))
    length = (task or {}).get("max_sequence_length", tokenizer.max_sequence_length)
    write_modules(model, folder, max_sequence_length=length)
