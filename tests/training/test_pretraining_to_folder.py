"""`bk.pretrain` writes a folder that loads, resumes from its backups, and reports wrong arguments."""

import pytest

import bert_keras as bk
from bert_keras.errors import InputError
from bert_keras.training.backups import NO_BACKUP, get_backup_folder
from bert_keras.training.callbacks import StopAfter, TrainingLog
from tests.training.conftest import TINY


@pytest.mark.slow  # the test of an interrupted training looks at the folder too
def test_the_folder_has_the_model_its_settings_and_its_log(records, tmp_path):
    lines = []
    trained = bk.pretrain(records[0], tmp_path / "out", settings=TINY, listeners=[lines.append])
    assert_complete(tmp_path / "out", trained, lines)


def assert_complete(folder, trained, lines) -> None:
    """Assert that a folder has the model, its settings and its log, and that nothing else is next to it."""
    assert {"pretraining.toml", "training_log.jsonl", "README.md"} < {path.name for path in folder.iterdir()}
    assert trained.metrics["loss"] > 0
    assert lines
    assert "Pretrained on" in (folder / "README.md").read_text()
    loaded = bk.load(folder)
    assert loaded.count_params() == trained.model.count_params()
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]  # no backups, no lock


@pytest.mark.slow
def test_without_a_folder_nothing_is_written(records, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert bk.pretrain([records[0]], settings=TINY).run.budget.steps == 6
    assert not list(tmp_path.iterdir())


def test_without_a_folder_a_training_has_no_backups(records, tmp_path, monkeypatch):
    backups = []

    def fit(model, phases, *, backup, **_):
        backups.append(backup)
        return TrainingLog(None)

    monkeypatch.setattr("bert_keras.training.pretraining.fit_phases", fit)
    monkeypatch.chdir(tmp_path)
    assert bk.pretrain([records[0]], settings=TINY).run.budget.steps == 6
    assert backups == [NO_BACKUP]
    assert not list(tmp_path.iterdir())


def test_an_interrupted_training_is_resumed_or_overwritten_but_not_forgotten(records, tmp_path, untraced):
    class Crash(StopAfter):
        def on_train_batch_end(self, batch, logs=None):
            if self.count(batch) >= 5:
                raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        bk.pretrain(records[0], tmp_path / "out", settings=TINY, backup_every=2, callbacks=[Crash(5)])
    assert get_backup_folder(tmp_path / "out").steps() == [2, 4]
    with pytest.raises(
        InputError, match=r"step 4 is in .*: continue with resume=True, or start over with overwrite=True"
    ):
        bk.pretrain(records[0], tmp_path / "out", settings=TINY)
    lines = []
    resumed = bk.pretrain(records[0], tmp_path / "out", settings=TINY, resume=True, listeners=[lines.append])
    assert int(resumed.model.optimizer.iterations) == 6
    assert not get_backup_folder(tmp_path / "out").path.exists()
    assert_complete(tmp_path / "out", resumed, lines)


def test_a_complete_run_excludes_a_recipe(records, tiny_run):
    with pytest.raises(InputError, match="settings is a complete Pretraining; expected no recipe"):
        bk.pretrain(records[0], settings=tiny_run(records[1]), recipe="bert")
