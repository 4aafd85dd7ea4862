"""TensorBoard reads curves, settings and examples; a resumed training continues its curves."""

import itertools

import pytest

from bert_keras.training.tracking import tracked_training
from bert_keras.training.tracking.tracked_training import TensorBoardLog, list_hparams


def read_scalars(folder, tag):
    """Return (step, value) of a curve, as TensorBoard shows it."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return [(event.step, event.value) for event in EventAccumulator(str(folder)).Reload().Scalars(tag)]


def write_losses(folder, steps, value, *, start=None):
    """Write the same loss at every step, and at every step a held-out loss one higher."""
    log = TensorBoardLog(folder)
    if start is not None:
        log.start_at(start)
    for step in steps:
        log({"step": step, "seconds": 1.0, "num_steps": 10, "loss": value})
        log({"step": step, "seconds": 1.0, "held_out_loss": value + 1})
    log.close()


def test_training_and_held_out_losses_are_curves_of_one_plot(tmp_path):
    write_losses(tmp_path, [10, 20], 0.5)
    assert read_scalars(tmp_path / "train", "loss") == [(10, 0.5), (20, 0.5)]
    assert read_scalars(tmp_path / "validation", "loss") == [(10, 1.5), (20, 1.5)]


def test_a_resumed_training_replaces_the_steps_after_its_backup(tmp_path):
    write_losses(tmp_path, [10, 20, 30, 40], 0.5)
    write_losses(tmp_path, [30, 40, 50], 0.25, start=20)
    assert read_scalars(tmp_path / "train", "loss") == [(10, 0.5), (20, 0.5), (30, 0.25), (40, 0.25), (50, 0.25)]
    assert [step for step, _ in read_scalars(tmp_path / "validation", "loss")] == [10, 20, 30, 40, 50]


def test_a_training_that_starts_again_replaces_all_steps(tmp_path):
    write_losses(tmp_path, [10, 20, 30], 0.5)
    write_losses(tmp_path, [20], 0.25)
    assert read_scalars(tmp_path / "train", "loss") == [(20, 0.25)]


@pytest.mark.parametrize("number", [9, 99])
def test_the_tenth_file_of_a_process_comes_after_the_ninth(number, tmp_path, monkeypatch):
    """TensorBoard sorts files of the same second by the rest of their names."""
    monkeypatch.setattr(tracked_training, "_COUNTER", itertools.count(number - 2))
    for value in (0.5, 0.25, 0.125):
        write_losses(tmp_path, [20], value)
    assert read_scalars(tmp_path / "train", "loss") == [(20, 0.125)]


def test_a_folder_that_cannot_be_written_is_reported_once_and_stops_nothing(tmp_path, caplog):
    (tmp_path / "file").touch()
    write_losses(tmp_path / "file/events", [10, 20, 30], 0.5)
    assert [record.message.split(":")[0] for record in caplog.records] == [
        f"no more values for TensorBoard in {tmp_path}/file/events/{run}" for run in ("train", "validation")
    ]


def test_nothing_is_written_without_a_value(tmp_path):
    TensorBoardLog(tmp_path / "unused").close()
    assert not (tmp_path / "unused").exists()


def read_session(folder):
    """Return the only row of the HPARAMS tab: its settings, and its metrics by (group, tag).

    Args:
        folder: folder above that of the training, as for `tensorboard --logdir`.
    """
    from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
    from tensorboard.context import RequestContext
    from tensorboard.plugins.base_plugin import TBContext
    from tensorboard.plugins.hparams import api_pb2, backend_context, get_experiment, list_session_groups

    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(folder))
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, str(folder))
    context = backend_context.Context(TBContext(logdir=str(folder), data_provider=provider))
    experiment = get_experiment.Handler(RequestContext(), context, "", api_pb2.GetExperimentRequest()).run()
    columns = [api_pb2.ColParams(metric=metric.name) for metric in experiment.metric_infos]
    columns += [api_pb2.ColParams(hparam=hparam.name) for hparam in experiment.hparam_infos]
    request = api_pb2.ListSessionGroupsRequest(
        col_params=columns, start_index=0, slice_size=9, allowed_statuses=list(api_pb2.Status.values())
    )
    [group] = list_session_groups.Handler(RequestContext(), context, "", request).run().session_groups
    settings = {name: getattr(value, value.WhichOneof("kind")) for name, value in group.hparams.items()}
    return settings, {(one.name.group, one.name.tag): one.value for one in group.metric_values}


def test_settings_and_final_scores_are_a_row_of_the_hparams_tab(tmp_path):
    write_losses(tmp_path / "first", [10], 0.5)
    log = TensorBoardLog(tmp_path / "first")
    log.write_settings({"seed": 3, "optimizer": {"name": "adamw", "clip": None, "betas": [0.9, 0.98]}, "keep": True})
    log.write_scores({"accuracy": 0.75, "broken": float("nan")})
    log.close()
    settings, metrics = read_session(tmp_path)
    assert settings == {"seed": 3.0, "optimizer.name": "adamw", "optimizer.betas": "[0.9, 0.98]", "keep": True}
    losses = {("train", "loss"): 0.5, ("validation", "loss"): 1.5}
    assert {key: value for key, value in metrics.items() if key[1] != "seconds"} == {
        ("", "final/accuracy"): 0.75,
        **losses,
    }


def test_nested_settings_become_values_of_the_hparams_tab():
    nested = {"a": 1, "b": {"c": 0.5, "d": None, "e": {"f": "x"}}, "g": ["y", "z"], "h": False}
    assert list_hparams(nested) == {"a": 1, "b.c": 0.5, "b.e.f": "x", "g": "['y', 'z']", "h": False}


def test_without_tensorboard_curves_are_written_and_the_missing_package_is_reported(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(tracked_training, "is_installed", lambda package: False)
    log = TensorBoardLog(tmp_path)
    log.write_settings({"seed": 3})
    log({"step": 10, "loss": 0.5})
    log.close()
    assert "pip install 'bert-keras[tensorboard]'" in caplog.text
    assert [path.name for path in tmp_path.iterdir()] == ["train"]


@pytest.mark.parametrize("tag", ["held-out examples"])
def test_text_is_readable_for_the_text_plugin(tag, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = TensorBoardLog(tmp_path)
    log.write_text(tag, "| correct | text |\n| --- | --- |\n| no | caf\u00e9 |")
    log.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    [event] = events.Tensors(tag)
    assert events.SummaryMetadata(tag).plugin_data.plugin_name == "text"
    assert event.tensor_proto.string_val[0].decode().endswith("| no | caf\u00e9 |")
