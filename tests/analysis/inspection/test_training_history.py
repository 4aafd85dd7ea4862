"""Training curves and scores of a checkpoint folder."""

import base64
import json

import pytest

from bert_keras.analysis.inspection.training_history import (
    draw_training,
    read_training_history,
    render_training_page,
    save_training_history,
)
from bert_keras.errors import InputError

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
LINES = [
    {"step": 50, "seconds": 1.5, "tokens": 900, "learning_rate": 1e-3, "loss": 3.5, "mlm_accuracy": 0.1},
    {"step": 100, "seconds": 2.5, "tokens": 1800, "learning_rate": 5e-4, "loss": 2.5, "mlm_accuracy": 0.2},
    {"step": 100, "seconds": 2.6, "held_out_loss": 2.75, "held_out_mlm_accuracy": 0.15},
]
METRICS = {
    "accuracy": 0.75,
    "epoch": 2,
    "epochs": [{"accuracy": 0.5, "loss": 1.25}, {"accuracy": 0.75, "loss": 0.5}],
}


@pytest.fixture
def write(tmp_path):
    """A function that writes a training history into a folder."""

    def write_history(lines=None, metrics=None, confusion=None):
        folder = tmp_path / "classifier"
        folder.mkdir(exist_ok=True)
        if lines is not None:
            text = lines if isinstance(lines, str) else "".join(json.dumps(line) + "\n" for line in lines)
            (folder / "training_log.jsonl").write_text(text)
        if metrics is not None:
            (folder / "metrics.json").write_text(json.dumps(metrics))
        if confusion is not None:
            (folder / "confusion_matrix.png").write_bytes(confusion)
        return folder

    return write_history


def test_each_quantity_of_a_log_has_a_chart(write):
    history = read_training_history(write(LINES))
    assert [chart.name for chart in history.charts] == ["loss", "mlm accuracy", "learning rate"]
    training, held_out = history.charts[0].curves
    assert (training.name, training.x, training.y) == ("training", (50, 100), (3.5, 2.5))
    assert (held_out.name, held_out.x, held_out.y) == ("held out", (100,), (2.75,))
    assert history.scores == {"loss": 2.75, "mlm_accuracy": 0.15}


def test_scores_without_curves_are_rejected(write):
    with pytest.raises(InputError, match=r"has scores but no curves; expected training_log\.jsonl, or epochs in"):
        read_training_history(write(metrics={"accuracy": 0.75, "epochs": []}))


def test_metrics_without_a_log_have_charts_by_epoch(write):
    history = read_training_history(write(metrics=METRICS))
    assert [(chart.name, chart.over) for chart in history.charts] == [("loss", "epoch"), ("accuracy", "epoch")]
    [curve] = history.charts[1].curves
    assert (curve.name, curve.x, curve.y) == ("held out", (1, 2), (0.5, 0.75))
    assert history.scores == {"accuracy": 0.75}


def test_a_resumed_run_has_each_step_once(write):
    repeated = {"step": 50, "seconds": 1.4, "learning_rate": 1e-3, "loss": 3.25}
    [training, _] = read_training_history(write([*LINES, repeated])).charts[0].curves
    assert (training.x, training.y) == ((50, 100), (3.25, 2.5))


def test_values_that_are_not_finite_are_gaps(write):
    lines = [{"step": 1, "loss": float("nan")}, {"step": 2, "loss": 1.0}, {"step": 3, "loss": None}]
    history = read_training_history(write(lines))
    assert history.charts[0].curves[0].y == (None, 1.0, None)
    assert '"y":[null,1.0,null]' in render_training_page(history)
    assert history.scores == {}


def test_the_confusion_matrix_is_in_the_page_and_in_the_folder(write, tmp_path):
    history = read_training_history(write(LINES, METRICS, PNG))
    names = save_training_history(history, tmp_path / "out")
    assert names == ["index.html", "confusion_matrix.png", "training.png", "training.svg"]
    assert (tmp_path / "out/confusion_matrix.png").read_bytes() == PNG
    assert base64.b64encode(PNG).decode() in (tmp_path / "out/index.html").read_text(encoding="utf-8")


def test_a_history_without_confusion_matrix(write, tmp_path):
    names = save_training_history(read_training_history(write(LINES)), tmp_path / "out", pictures=False)
    assert names == ["index.html"]
    assert "Confusion matrix" not in (tmp_path / "out/index.html").read_text(encoding="utf-8")


def test_each_chart_has_axes_in_the_figure(write):
    figure = draw_training(read_training_history(write(LINES)))
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in shown] == ["loss", "mlm accuracy", "learning rate"]
    assert shown[0].lines[0].get_ydata().tolist() == [3.5, 2.5]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "has no training history; expected training_log.jsonl or metrics.json"),
        ({"lines": ""}, "training_log.jsonl is empty"),
        ({"lines": '{"step": 1}\n{"step":'}, "line 2 is not a line of a training log"),
        ({"lines": '{"loss": 1.5}\n'}, "line 1 is not a line"),
        ({"lines": '{"step": 1, "loss": "<b>"}\n'}, "line 1 is not a line"),
        ({"lines": '{"step": 1, "loss": 1' + "0" * 400 + "}\n"}, "line 1 is not a line"),
        ({"lines": '{"step": 1, "loss": ' + "[" * 100_000 + "\n"}, "line 1 is not a line"),
        ({"lines": '{"step": true}\n'}, "line 1 is not a line"),
        ({"metrics": {"accuracy": "high"}}, "metrics.json has no scores"),
        ({"metrics": {"epochs": [1, 2]}}, "metrics.json has no scores"),
        ({"lines": LINES, "confusion": b"GIF89a"}, "confusion_matrix.png is not a PNG"),
    ],
)
def test_damaged_files_are_rejected(write, files, message):
    with pytest.raises(InputError, match=message):
        read_training_history(write(**files))
