"""What `bk.distill` writes next to the weights in its output folder: settings, scores of both models, log, card."""

import dataclasses
import os
from collections.abc import Mapping, Sequence

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.files import format_json
from bert_keras.training.config.distillation_file import FILE_NAME, KEYS
from bert_keras.training.config.finetuning_file import resolve_settings, to_toml
from bert_keras.training.finetuned_folder import (
    collect_metrics,
    draw_confusion_matrix,
    list_card_facts,
    list_facts,
    list_scores,
    write_trained,
)
from bert_keras.training.finetuning import FineTuned


@dataclasses.dataclass(frozen=True, eq=False)
class Distilled(FineTuned):
    """The result of a distillation run: a fine-tuned student, and its teacher.

    Attributes:
        teacher_scores: the scores of the teacher on the held-out examples, keyed by name.
        teacher_size: the number of parameters of the teacher.
        student: where the student's first weights are from.
    """

    teacher_scores: Mapping[str, float] = dataclasses.field(default_factory=dict)
    teacher_size: int = 0
    student: str = ""

    @property
    def ratio(self) -> float | None:
        """The main score of the student, divided by that of the teacher; None if that is not positive."""
        name = self.task.main_score
        theirs = self.teacher_scores[name]
        return self.scores[name] / theirs if theirs > 0 else None

    def compare(self) -> Sequence[tuple[str, int, float]]:
        """Return the name, the number of parameters and the main score of both models."""
        name = self.task.main_score
        return [
            ("teacher", self.teacher_size, self.teacher_scores[name]),
            ("student", self.model.count_params(), self.scores[name]),
        ]


def save_distilled(
    distilled: Distilled,
    folder: str | os.PathLike,
    *,
    teacher: Checkpoint,
    card_facts: Mapping[str, object] | None,
    overwrite: bool,
) -> None:
    """Write a student as a checkpoint folder.

    Args:
        distilled: the student and how it was trained.
        folder: the folder.
        teacher: the checkpoint of the teacher.
        card_facts: see `distill`.
        overwrite: replace `folder` if `distill` wrote it.
    """
    if card_facts is None:
        card_facts = {"teacher": str(teacher), **list_card_facts(distilled.settings, distilled.data)}
    facts = {**card_facts, "student": distilled.student}
    settings = resolve_settings(distilled.data.reading, distilled.data.task, distilled.settings, KEYS)
    notes = {
        FILE_NAME: to_toml(settings),
        "metrics.json": format_json(collect_distillation_metrics(distilled), indent=2) + "\n",
        "training_log.jsonl": distilled.log,
        **draw_confusion_matrix(distilled),
    }
    history = _write_history(distilled, facts)
    how = {"written_by": "distill", "is_measured": distilled.data.is_dev_labelled}
    write_trained(distilled, folder, teacher, facts, notes, history, overwrite, **how)


def collect_distillation_metrics(distilled: Distilled) -> dict[str, object]:
    """Return the contents of `metrics.json`: those of a fine-tuning, the parameters, and the same of the teacher."""
    teacher = {"scores": dict(distilled.teacher_scores), "parameters": distilled.teacher_size}
    sizes = {"parameters": distilled.model.count_params(), "teacher": teacher, "ratio": distilled.ratio}
    return {**collect_metrics(distilled), **sizes}


def _write_history(distilled: Distilled, facts: Mapping[str, object]) -> str:
    """Write the sections of the model card about the training."""
    name, [(_, theirs, their_score), (_, ours, score)] = distilled.task.main_score, distilled.compare()
    lines = ["## How it was distilled", "", *list_facts(facts), "", *list_scores(distilled), ""]
    lines += [
        f"The teacher has {theirs:,} parameters and {name} {their_score:.4g}; this model {ours:,} and {score:.4g}."
    ]
    if not distilled.data.is_dev_labelled:
        lines += ["", "The held-out examples have no labels: these scores compare with the answers of the teacher."]
    return "\n".join(lines)
