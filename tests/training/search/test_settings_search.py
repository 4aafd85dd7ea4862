"""A search for settings: what is stopped early, what is recorded, and which model it ends with."""

import dataclasses
import itertools
import json

import keras
import pytest

from bert_keras.errors import DivergedTrainingError, InputError
from bert_keras.training.backups import BackupOptions
from bert_keras.training.config.finetuning_settings import FineTuning
from bert_keras.training.finetuned_folder import FineTuned
from bert_keras.training.search.searched_finetuning import (
    Search,
    format_trials,
    has_trials,
    make_search_space,
    write_csv,
)
from bert_keras.training.search.settings_search import search_settings

NUM_EPOCHS = 4
SPACE = make_search_space(FineTuning(num_epochs=NUM_EPOCHS, seed=3), hidden_dim=128, num_sequences=900, fixed=[])


class Curves:
    """Train trials whose scores after each epoch are given; a real model is not needed to test the order of things."""

    def __init__(self, *curves):
        self.curves = curves
        self.trained: list[FineTuning] = []

    def __call__(self, settings, number, callback):
        self.trained.append(settings)
        curve = self.curves[(len(self.trained) - 1) % len(self.curves)]
        if isinstance(curve, Exception):
            raise curve
        model = keras.Model()
        model.stop_training = False
        callback.set_model(model)
        done = []
        for epoch, score in enumerate(curve):
            done.append(score)
            callback.on_epoch_end(epoch, {"val_accuracy": score})
            if model.stop_training:
                break
        best = done.index(max(done))
        return FineTuned(
            model,
            None,
            None,
            {"accuracy": done[best]},
            (),
            [{"accuracy": one} for one in done],
            best,
            "",
            None,
            settings,
        )


def search(train, num_trials, *, space=SPACE, identity=None, folder=None, allow_changes=False, on_trial=id):
    return search_settings(
        train,
        Search(num_trials, on_trial=on_trial),
        space,
        folder=folder,
        backup=BackupOptions(allow_changes=allow_changes),
        main_score="accuracy",
        identity=identity or {"the training examples": "a", "the ranges": space.describe()},
    )


def rising(*scores):
    return list(scores)


def test_the_best_model_is_returned_with_all_trials():
    train = Curves(rising(0.1, 0.2, 0.3, 0.4), rising(0.5, 0.6, 0.7, 0.8), rising(0.2, 0.3, 0.4, 0.5))
    tuned = search(train, 3)
    assert tuned.scores == {"accuracy": 0.8}
    assert tuned.settings == train.trained[1]
    assert [trial.number for trial in tuned.trials] == [1, 2, 3]
    assert [trial.score for trial in tuned.trials[:2]] == [0.4, 0.8]


def test_the_lower_half_is_stopped_after_the_first_epoch():
    curves = [[start, start + 0.01, start + 0.02, start + 0.03] for start in (0.5, 0.1, 0.6, 0.2)]
    tuned = search(Curves(*curves), 4)
    assert [(trial.outcome, trial.num_epochs) for trial in tuned.trials] == [
        ("complete", 4),
        ("stopped early", 1),
        ("complete", 4),
        ("stopped early", 1),
    ]


def test_a_trial_that_was_stopped_can_win_if_its_score_is_the_highest():
    """It was in the lower half after epoch 2, and nothing that continued became as good as it was then."""
    tuned = search(Curves(rising(0.5, 0.6, 0.1, 0.1), rising(0.6, 0.7, 0.1, 0.1), rising(0.65, 0.65, 0.1, 0.1)), 3)
    assert [trial.score for trial in tuned.trials] == [0.6, 0.7, 0.65]
    assert tuned.scores == {"accuracy": 0.7}


def test_a_trial_that_diverges_is_recorded_and_the_search_continues():
    tuned = search(Curves(DivergedTrainingError("the loss became nan"), [float("nan")] * 4, [0.1, 0.2, 0.3, 0.4]), 3)
    assert [trial.outcome for trial in tuned.trials] == ["diverged", "diverged", "complete"]
    assert tuned.scores == {"accuracy": 0.4}


def test_a_search_whose_trials_all_diverge_is_an_error():
    with pytest.raises(
        InputError, match=r"^the loss or the score of all 2 trials was not finite; .* lower learning rate"
    ):
        search(Curves(DivergedTrainingError("the loss became nan")), 2)


def test_other_errors_end_the_search():
    with pytest.raises(InputError, match="the file is gone"):
        search(Curves(InputError("the file is gone")), 2)


def test_trials_differ_and_the_same_seed_repeats_them():
    first, second = Curves([0.1] * 4), Curves([0.1] * 4)
    search(first, 6)
    search(second, 6)
    assert first.trained == second.trained
    assert len(set(first.trained)) == 6
    other = Curves([0.1] * 4)
    space = dataclasses.replace(SPACE, base=dataclasses.replace(SPACE.base, seed=4))
    search(other, 6, space=space)
    assert [one.learning_rate for one in other.trained[1:]] != [one.learning_rate for one in first.trained[1:]]


@pytest.mark.parametrize("stop_at", [2, 5])
def test_an_interrupted_search_resumes_to_the_same_trials(stop_at, tmp_path):
    """Also when it was interrupted within a trial, which is then repeated with the same settings."""
    curves = [[0.1 * (number % 7)] * 4 for number in range(1, 8)]
    whole = Curves(*curves)
    expected = search(whole, 7)

    class Interrupted(Curves):
        def __call__(self, settings, number, callback):
            if len(self.trained) == stop_at:
                self.trained.append(settings)
                raise KeyboardInterrupt
            return super().__call__(settings, number, callback)

    first = Interrupted(*curves)
    with pytest.raises(KeyboardInterrupt):
        search(first, 7, folder=tmp_path)
    assert has_trials(tmp_path)
    rest = Curves(*curves[stop_at:])
    tuned = search(rest, 7, folder=tmp_path)
    assert rest.trained[0] == first.trained[stop_at]
    assert [dataclasses.replace(trial, seconds=0) for trial in tuned.trials] == [
        dataclasses.replace(trial, seconds=0) for trial in expected.trials
    ]
    assert tuned.settings == expected.settings


def test_a_winner_from_before_the_interruption_is_trained_again_for_as_many_epochs(tmp_path):
    search(Curves([0.5, 0.9, 0.8, 0.7]), 1, folder=tmp_path)
    train = Curves([0.1] * 4, [0.5, 0.9, 0.8, 0.7])
    tuned = search(train, 2, folder=tmp_path)
    assert tuned.scores == {"accuracy": 0.9}
    assert len(train.trained) == 2
    assert len(tuned.epochs) == 4


def test_a_resumed_search_can_be_longer_but_not_of_other_data(tmp_path):
    search(Curves([0.5] * 4), 2, folder=tmp_path)
    train = Curves([0.6] * 4)
    assert len(search(train, 4, folder=tmp_path).trials) == 4
    assert len(train.trained) == 2
    identity = {"the training examples": "b", "the ranges": SPACE.describe()}
    with pytest.raises(InputError, match=r"another search \(the training examples changed\).* allow_changes=True"):
        search(train, 5, folder=tmp_path, identity=identity)
    assert len(search(train, 5, folder=tmp_path, identity=identity, allow_changes=True).trials) == 5


def test_other_ranges_cannot_be_continued_even_with_allow_changes(tmp_path):
    """Optuna refuses other choices, and a table cannot have trials with different settings."""
    search(Curves([0.5] * 4), 2, folder=tmp_path)
    space = make_search_space(FineTuning(num_epochs=NUM_EPOCHS), hidden_dim=128, num_sequences=90, fixed=[])
    with pytest.raises(InputError, match=r"the ranges changed.*expected the same ranges: .*overwrite=True"):
        search(Curves([0.5] * 4), 3, space=space, folder=tmp_path, allow_changes=True)


def test_a_trial_whose_result_was_recorded_is_not_repeated(tmp_path, monkeypatch):
    """The process was killed after it recorded the result, before Optuna noted the end of the trial."""

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("optuna.Study.tell", stop)
        with pytest.raises(KeyboardInterrupt):
            search(Curves([0.5] * 4), 2, folder=tmp_path)
    train = Curves([0.6] * 4)
    tuned = search(train, 2, folder=tmp_path)
    assert [trial.score for trial in tuned.trials] == [0.5, 0.6]
    assert tuned.trials[0].settings != tuned.trials[1].settings


def test_each_trial_is_reported_when_it_ends():
    seen = []
    search(Curves([0.1] * 4, [0.2] * 4), 2, on_trial=seen.append)
    assert [(trial.number, trial.score) for trial in seen] == [(1, 0.1), (2, 0.2)]
    assert set(seen[0].settings) == {"learning_rate", "batch_size", "warmup_ratio", "weight_decay", "layer_decay"}


def test_the_table_has_the_best_trial_first_and_those_that_diverged_last():
    tuned = search(Curves(DivergedTrainingError("nan"), [0.1] * 4, [0.9] * 4, [0.2] * 4), 4)
    header, rows = format_trials(tuned.trials, "accuracy")
    assert header[:5] == ["trial", "accuracy", "outcome", "epochs", "seconds"]
    assert [row[0] for row in rows] == [3, 4, 2, 1]
    assert rows[-1][1:4] == [None, "diverged", 0]
    lines = write_csv(tuned.trials, "accuracy").splitlines()
    assert lines[0].split(",") == header
    settings = tuned.trials[2].settings
    assert lines[1].split(",")[5:] == [str(settings[name]) for name in header[5:]]
    assert json.loads(json.dumps([dataclasses.asdict(trial) for trial in tuned.trials]))


def test_optuna_prints_nothing(capfd):
    search(Curves(*itertools.repeat([0.1] * 4, 2)), 2)
    assert capfd.readouterr() == ("", "")
