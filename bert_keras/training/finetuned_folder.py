"""`FineTuned`: the result of a fine-tuning, and the folder that it is written to, with settings, scores and log."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import ClassVar

import keras

from bert_keras.checkpoints import save
from bert_keras.checkpoints.adapters.adapter_files import ADAPTER_FOLDER, Adapter, build_adapter_files
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.huggingface.model_card import MeasuredScores, build_model_card
from bert_keras.errors import MissingExtraError
from bert_keras.files import format_json
from bert_keras.heads.task import Task
from bert_keras.metrics.confusion_figure import render_confusion_matrix
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.training.config.finetuning_settings import FineTuning
from bert_keras.training.config.settings_files import FINETUNING_FILE, FINETUNING_KEYS, resolve_settings, to_toml
from bert_keras.training.search.searched_finetuning import TrialResult, describe_winner, write_csv
from bert_keras.training.training_data import TrainingData


@dataclasses.dataclass(frozen=True, eq=False)
class FineTuned:
    """The result of a fine-tuning run.

    Attributes:
        model: the model, with the weights of the best epoch if `FineTuning.keep_best`, or else of the last.
        tokenizer: the tokenizer of the checkpoint.
        task: the task, with a threshold that is calibrated on the held-out examples, if it has one.
        scores: the scores of this model on the held-out examples, keyed by name.
        answers: the answers to the held-out examples.
        epochs: the scores of each epoch.
        best: the index of the model's epoch, from 0.
        log: the training log as JSON Lines, see `TrainingLog`.
        data: the examples and how they were read, if `bk.finetune` read them.
        settings: the training settings.
        trials: the results of all trials, if `bk.finetune` searched for the settings.
        adapter: the LoRA adapter, if one was trained; `model` has it merged.
    """

    command: ClassVar[str] = "finetune"
    title: ClassVar[str] = "How it was fine-tuned"  # in the model card
    settings_file: ClassVar[str] = FINETUNING_FILE
    settings_keys: ClassVar[Sequence[str]] = FINETUNING_KEYS

    model: keras.Model
    tokenizer: BertTokenizer
    task: Task
    scores: Mapping[str, float]
    answers: Sequence[Mapping]
    epochs: Sequence[Mapping[str, float]]
    best: int
    log: str
    data: TrainingData | None = None
    settings: FineTuning = dataclasses.field(default_factory=FineTuning)
    trials: Sequence[TrialResult] = ()
    adapter: Adapter | None = None

    def describe_epoch(self) -> str:
        """Return which epoch the weights are from: "epoch 2 of 3"."""
        return f"epoch {self.best + 1} of {len(self.epochs)}"

    def collect_metrics(self) -> dict[str, object]:
        """Return the contents of `metrics.json`: the scores of all epochs, what was held out, how many were skipped."""
        data, held_out = self.data, {}
        if data.held_out is not None:
            held_out = {"held_out": {**data.held_out.settings(), "examples": len(data.dev)}}
        epochs = {"epoch": self.best + 1, "epochs": list(self.epochs)}
        return {**self.scores, **epochs, **held_out, "skipped": data.bad.num_bad}

    def list_facts(self, start: Checkpoint, given: Mapping[str, object] | None) -> dict[str, object]:
        """Return what the model card says about the training.

        Args:
            start: the checkpoint that the model was made from.
            given: what the caller says; `dev` describes the held-out examples. None: the data and the main settings.
        """
        facts = self._list_settings() if given is None else dict(given)
        return facts | (describe_winner(self.trials, self.settings, self.task.main_score) if self.trials else {})

    def _list_settings(self) -> dict[str, object]:
        settings, data = self.settings, self.data
        held_out = "" if data.held_out is None else f", {data.held_out.describe()}"
        facts = {
            "task": data.task.name,
            "train": f"{len(data.train):,} examples",
            "dev": f"{len(data.dev):,} examples{held_out}",
            "epochs": settings.num_epochs,
            "batch size": settings.batch_size,
            "learning rate": f"{settings.learning_rate:g}",
        }
        if settings.head_rate_factor != 1:
            facts["head rate factor"] = f"{settings.head_rate_factor:g}"
        if settings.lora_rank is not None:
            facts["LoRA"] = f"rank {settings.lora_rank}, alpha {settings.lora_alpha}"
        return facts | {"seed": settings.seed}

    def list_remarks(self) -> list[str]:
        """Return the paragraphs of the model card after the scores."""
        return []

    def save(
        self, folder: str | os.PathLike, *, start: Checkpoint, card_facts: Mapping[str, object] | None, overwrite: bool
    ) -> None:
        """Write the model as a checkpoint folder with a model card, see `bk.finetune`.

        Args:
            folder: the folder.
            start: the checkpoint that the model was made from.
            card_facts: see `list_facts`.
            overwrite: replace the folder if the same command wrote it.
        """
        facts = self.list_facts(start, card_facts)
        lines = [f"## {self.title}", "", *(f"- {name}: {value}" for name, value in facts.items() if name != "labels")]
        lines += ["", f"## Scores on the held-out examples ({self.describe_epoch()})", ""]
        lines += [f"- {name}: {value:.4g}" for name, value in self.scores.items()]
        for remark in self.list_remarks():
            lines += ["", remark]
        measured = None
        if getattr(self.data, "is_dev_labelled", True):  # or else they compare with the answers of a teacher
            measured = MeasuredScores(self.scores, f"held-out examples: {facts.get('dev', len(self.data.dev))}")
        card = build_model_card(
            self.model,
            self.tokenizer,
            history="\n".join(lines),
            measured=measured,
            start=start,
            has_pairs=getattr(self.task, "has_pairs", False),
        )
        save(
            self.model,
            self.tokenizer,
            folder,
            notes=self._list_files(start),
            card=card,
            task=self.task.settings(),
            overwrite=overwrite,
            written_by=self.command,
        )

    def _list_files(self, start: Checkpoint) -> dict[str, str | bytes]:
        """Return the contents of the files next to the weights, keyed by name."""
        settings = resolve_settings(self.data.reading, self.data.task, self.settings, self.settings_keys)
        files: dict[str, str | bytes] = {
            self.settings_file: to_toml(settings),
            "metrics.json": format_json(self.collect_metrics(), indent=2) + "\n",
            "training_log.jsonl": self.log,
        }
        if self.task.has_confusion_matrix:
            try:
                matrix = self.task.compute_confusion_matrix(self.answers, self.data.dev)
                files["confusion_matrix.png"] = render_confusion_matrix(matrix, self.task.labels)
            except MissingExtraError:
                pass
        if self.trials:
            files["search.csv"] = write_csv(self.trials, self.task.main_score)
        if self.adapter is not None:
            adapter = build_adapter_files(self.adapter, str(start))
            files |= {f"{ADAPTER_FOLDER}/{name}": content for name, content in adapter.items()}
        return files
