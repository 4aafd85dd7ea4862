"""The settings that a search varies, and in which ranges."""

import dataclasses

import pytest

from bert_keras.errors import InputError
from bert_keras.training.config.finetuning_settings import FineTuning
from bert_keras.training.search.searched_finetuning import make_search_space

SEARCHED = ("learning_rate", "batch_size", "warmup_ratio", "weight_decay", "layer_decay")


class Ends:
    """A trial that suggests the first or the last value of each range, and records the ranges."""

    def __init__(self, index):
        self.index = index
        self.ranges = {}

    def suggest_float(self, name, low, high, *, log):
        assert log
        self.ranges[name] = (low, high)
        return (low, high)[self.index]

    def suggest_categorical(self, name, choices):
        self.ranges[name] = choices
        return choices[self.index]


def space_of(base=None, *, hidden_dim=768, num_sequences=10_000, fixed=(), **options):
    return make_search_space(
        base or FineTuning(), hidden_dim=hidden_dim, num_sequences=num_sequences, fixed=fixed, **options
    )


def test_a_trial_varies_the_searched_settings_and_keeps_the_others():
    base = FineTuning(num_epochs=7, seed=5, patience=2)
    low, high = (space_of(base).suggest(Ends(index)) for index in (0, -1))
    different = {name for name, value in dataclasses.asdict(low).items() if value != getattr(high, name)}
    assert different == set(SEARCHED)
    assert (low.num_epochs, low.seed, low.patience) == (7, 5, 2)
    assert (low.learning_rate, low.batch_size) == (5e-6, 16)
    assert (high.learning_rate, high.batch_size) == (1e-4, 64)


def test_narrow_models_get_higher_learning_rates():
    highest = [space_of(hidden_dim=dim).rates[1] for dim in (1024, 768, 384, 256, 128, 64)]
    assert highest == [6e-5, 1e-4, 3e-4, 6e-4, 2e-3, 2e-3]


@pytest.mark.parametrize("name", SEARCHED)
def test_a_given_setting_is_not_varied(name):
    trial = Ends(-1)
    settings = space_of(fixed=[name]).suggest(trial)
    assert set(trial.ranges) == set(SEARCHED) - {name}
    assert getattr(settings, name) == getattr(FineTuning(), name)


def test_a_search_without_anything_to_vary_is_refused():
    with pytest.raises(InputError, match=r"^the search has nothing to vary, because batch_size, .* 2 more are"):
        space_of(fixed=SEARCHED)


def test_batches_suit_the_number_of_examples_and_the_devices():
    assert space_of(num_sequences=256).choices["batch_size"] == (16, 32, 64)
    assert space_of(num_sequences=255).choices["batch_size"] == (16, 32)
    assert "batch_size" not in space_of(num_sequences=100).choices  # one size is no choice
    assert space_of(batch_multiple=32).choices["batch_size"] == (32, 64)


def test_the_first_trial_takes_the_given_settings_where_they_are_in_range():
    assert space_of(FineTuning(learning_rate=2e-5, batch_size=64)).start() == {
        "learning_rate": 2e-5,
        "batch_size": 64,
        "warmup_ratio": 0.1,
        "weight_decay": 0.01,
        "layer_decay": 1.0,
    }
    start = space_of(FineTuning(learning_rate=3e-5, batch_size=24), hidden_dim=128).start()
    assert "batch_size" not in start
    assert start["learning_rate"] == pytest.approx((1e-4 * 2e-3) ** 0.5)
