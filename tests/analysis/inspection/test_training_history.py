"""Training curves from what a checkpoint says of itself."""

import base64
import json

import pytest

from bert_keras.analysis.inspection.page.training_page import save_training, training_figure, training_page
from bert_keras.analysis.inspection.training_history import read_training_records
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
    """A function that writes records into a folder."""

    def write_records(lines=None, metrics=None, confusion=None):
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

    return write_records


def test_a_log_gives_a_chart_for_each_quantity_with_both_sides(write):
    records = read_training_records(write(LINES))
    assert [chart.name for chart in records.charts] == ["loss", "mlm accuracy", "learning rate"]
    training, held_out = records.charts[0].curves
    assert (training.name, training.x, training.y) == ("training", (50, 100), (3.5, 2.5))
    assert (held_out.name, held_out.x, held_out.y) == ("held out", (100,), (2.75,))
    assert records.scores == {"loss": 2.75, "mlm_accuracy": 0.15}


def test_scores_without_a_curve_are_refused(write):
    with pytest.raises(InputError, match=r"has scores but no curve; expected training_log\.jsonl, or epochs in"):
        read_training_records(write(metrics={"accuracy": 0.75, "epochs": []}))


def test_metrics_alone_give_charts_over_epochs(write):
    records = read_training_records(write(metrics=METRICS))
    assert [(chart.name, chart.over) for chart in records.charts] == [("loss", "epoch"), ("accuracy", "epoch")]
    [curve] = records.charts[1].curves
    assert (curve.name, curve.x, curve.y) == ("held out", (1, 2), (0.5, 0.75))
    assert records.scores == {"accuracy": 0.75}


def test_a_training_that_went_on_says_a_step_once(write):
    again = {"step": 50, "seconds": 1.4, "learning_rate": 1e-3, "loss": 3.25}
    [training, _] = read_training_records(write([*LINES, again])).charts[0].curves
    assert (training.x, training.y) == ((50, 100), (3.25, 2.5))


def test_values_that_are_not_finite_are_left_out(write):
    lines = [{"step": 1, "loss": float("nan")}, {"step": 2, "loss": 1.0}, {"step": 3, "loss": None}]
    records = read_training_records(write(lines))
    assert records.charts[0].curves[0].y == (None, 1.0, None)
    assert '"y":[null,1.0,null]' in training_page(records)
    assert records.scores == {}


def test_the_confusion_matrix_stands_in_the_page_and_in_the_folder(write, tmp_path):
    records = read_training_records(write(LINES, METRICS, PNG))
    names = save_training(records, tmp_path / "out")
    assert names == ["index.html", "confusion_matrix.png", "training.png", "training.svg"]
    assert (tmp_path / "out/confusion_matrix.png").read_bytes() == PNG
    assert base64.b64encode(PNG).decode() in (tmp_path / "out/index.html").read_text(encoding="utf-8")


def test_a_folder_without_one_has_no_confusion_matrix(write, tmp_path):
    names = save_training(read_training_records(write(LINES)), tmp_path / "out", pictures=False)
    assert names == ["index.html"]
    assert "Confusion matrix" not in (tmp_path / "out/index.html").read_text(encoding="utf-8")


def test_each_chart_has_its_axes_in_the_picture(write):
    figure = training_figure(read_training_records(write(LINES)))
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in shown] == ["loss", "mlm accuracy", "learning rate"]
    assert shown[0].lines[0].get_ydata().tolist() == [3.5, 2.5]


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ({}, "has no records of a training; expected training_log.jsonl or metrics.json"),
        ({"lines": ""}, "training_log.jsonl is empty"),
        ({"lines": '{"step": 1}\n{"step":'}, "line 2 is no record of a training"),
        ({"lines": '{"loss": 1.5}\n'}, "line 1 is no record"),
        ({"lines": '{"step": 1, "loss": "<b>"}\n'}, "line 1 is no record"),
        ({"lines": '{"step": 1, "loss": 1' + "0" * 400 + "}\n"}, "line 1 is no record"),
        ({"lines": '{"step": 1, "loss": ' + "[" * 100_000 + "\n"}, "line 1 is no record"),
        ({"lines": '{"step": true}\n'}, "line 1 is no record"),
        ({"metrics": {"accuracy": "high"}}, "metrics.json holds no scores"),
        ({"metrics": {"epochs": [1, 2]}}, "metrics.json holds no scores"),
        ({"lines": LINES, "confusion": b"GIF89a"}, "confusion_matrix.png is no PNG"),
    ],
)
def test_records_that_cannot_be_used_are_told(write, records, message):
    with pytest.raises(InputError, match=message):
        read_training_records(write(**records))
