"""Mutated files, `--set` values and options give a run that can be planned and written, or raise `InputError`."""

import contextlib
import datetime
import math
import pathlib
import time

import pytest

from bert_keras.errors import InputError
from bert_keras.training.config.recipes import Pretraining
from bert_keras.training.config.sources import get_recipe_path, parse_assignments, parse_toml
from bert_keras.training.config.tables import RECIPES
from tests.fuzzing import fuzz, mutate_toml, mutate_words

QUICK, LONG, SEED = 200, 10_000, 21
FILE = "".join(
    f"{line}\n"
    for line in (
        'recipe = "bert"',
        "seed = 3",
        'source = "caf\u00e9"',
        "[model]",
        'preset = "mini"',
        "hidden_dim = 256",
        "num_layers = 2",
        "generator_size = 0.25",
        'start_from = "folder"',
        "[records]",
        'sentence_objective = "nsp"',
        "max_sequence_lengths = [128, 512]",
        "packed = true",
        "[batches]",
        "batch_size = 32",
        "accumulation_steps = 2",
        "replace_rates = [0.8, 0.1]",
        "[optimizer]",
        "learning_rate = 1e-4",
        'schedule = "linear"',
        "beta_2 = 0.98",
        "[budget]",
        "steps = 1000",
        "[[phases]]",
        "records = 0",
        "share = 0.9",
        "[[phases]]",
        "records = 1",
        "share = 0.1",
        "batch_size = 64",
        "[speed]",
        'jit_compile = "auto"',
    )
)
ASSIGNMENTS = [
    "optimizer.beta_2=0.98",
    "records.packed=true",
    "model.preset=mini",
    "model.num_layers=3",
    "budget.epochs=2.5",
    "records.max_sequence_lengths=[128, 512]",
    "optimizer={beta_1 = 0.5}",
    "seed=3",
    "phases=[{records = 0, share = 1.0}]",
    "source='a'",
]


def use(run: Pretraining) -> None:
    """Plan a run, write it to a file and read it back, as the commands do before they train."""
    num_records = [10_000] * len(run.records.max_sequence_lengths)
    try:
        for phase in run.plan(num_records):
            assert phase.num_steps is not None or math.isfinite(phase.seconds)
    except InputError:
        pass
    pathlib.Path("written.toml").write_text(run.to_toml(), encoding="utf-8")
    assert Pretraining.resolve("written.toml") == run


def mutate_file(random):
    text = random.choice([FILE, *(get_recipe_path(name).read_text(encoding="utf-8") for name in RECIPES)])
    return mutate_toml(random, text)


def read_file(content):
    pathlib.Path("run.toml").write_bytes(content)
    use(Pretraining.resolve("run.toml"))


def mutate_assignments(random):
    return mutate_words(random, random.sample(ASSIGNMENTS, 4))


def mutate_values(random):
    """Keep the keys and mutate their TOML values."""
    key = random.choice(ASSIGNMENTS).partition("=")[0]
    return [mutate_toml(random, f"{key} = 1").decode("utf-8", "replace"), *random.sample(ASSIGNMENTS, 2)]


def read_assignments(assignments):
    use(Pretraining.resolve(overrides=parse_assignments(assignments)))


READERS = {
    "toml": (read_file, mutate_file),
    "set": (read_assignments, mutate_assignments),
    "values of set": (read_assignments, mutate_values),
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in a temporary folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("reader", READERS)
def test_mutated_settings_are_accepted_or_rejected(reader):
    outcomes = fuzz(*READERS[reader], count=QUICK, seed=SEED)
    assert min(outcomes["read"], outcomes["refused"]) > 0, f"the mutations do not reach both outcomes: {outcomes}"


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_many_mutated_settings_are_accepted_or_rejected(reader):
    outcomes = fuzz(*READERS[reader], count=LONG, seed=SEED)
    print(reader, dict(outcomes))
    assert sum(outcomes.values()) == LONG


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x" * 70_000, r"run\.toml has more than 65,536 bytes; expected a file of settings"),
        ("a = " + "[" * 5000, r"run\.toml is not TOML \(.*nested too deeply"),
        ("seed = " + "9" * 5000, r"run\.toml is not TOML \(.*4300\b"),
        (".".join("a" * 15_000) + " = 1", r"run\.toml is not TOML \(a key has more than 32 parts"),
        ("[" + ".".join(['"a"'] * 9000) + "]", r"run\.toml is not TOML \(a key has more than 32 parts"),
        ("seed = 1979-05-27", r"seed is datetime\.date\(1979, 5, 27\): input should be a valid integer"),
        (
            "[optimizer]\nlearning_rate = 0x1" + "0" * 400,
            r"optimizer\.learning_rate is .*: input should be a valid number",
        ),
        ("[optimizer]\nlearning_rate = inf", r"optimizer\.learning_rate is inf: input should be a finite number"),
        ("[optimizer]\nweight_decay = nan", r"optimizer\.weight_decay is nan: input should be a finite number"),
        ("seed = 0x1" + "0" * 40_000, r"seed is a value with a number of more than 4,300 digits: input should"),
        ("".join(f"k{number} = 1\n" for number in range(5000)), r"k0 is not a setting.*; and 4,99\d more"),
        (
            "model = 1\nphases = [1, [[]]]\nrecords = []",
            r"model is 1: input should be a table.*phases\[0\] is 1: input should be a table",
        ),
        ('source = "a\\u0000"', r"source is 'a\\x00': input should be text"),
        ("[budget]\nhours = 1e300", r"budget\.hours is 1e\+300: input should be less than or equal to 1000000"),
        ("[budget]\nepochs = 1e300", r"budget\.epochs is 1e\+300: input should be less than or equal to 1000000"),
    ],
)
def test_hostile_files_are_rejected_quickly(content, message):
    pathlib.Path("run.toml").write_text(content)
    began = time.process_time()
    with pytest.raises(InputError, match=message) as raised:
        Pretraining.resolve("run.toml")
    assert len(str(raised.value)) < 1500
    assert time.process_time() - began < 5, "measured: a hundredth of this"


@pytest.mark.parametrize(
    "part",
    [
        '\\"',
        "\\'",
        ',"\\"',
        "['",
        '{"',
        '"',
        "a.",
        "a-",
        "[ ",
        ", ",
        ",a",
        "'a'.",
        ",'a\"",
        '"a"\n.',
        "\t",
        "[a.",
        '""".',
    ],
)
def test_the_search_for_long_keys_is_fast_on_any_text(part):
    r"""Regression: a search that started at every position took 14.8 s for 32,700 times \"."""
    for text in (part * (65_000 // len(part)), "a = " + part * (65_000 // len(part))):
        began = time.process_time()
        with contextlib.suppress(ValueError):
            parse_toml(text)
        assert time.process_time() - began < 1  # measured 0.06 s at most


@pytest.mark.parametrize(
    "text",
    ["{} = 1", "  {} = 1", "[{}]", "[[ {} ]]", "a = {{{} = 1}}", "a = {{b = 1, {} = 1}}", "a = 1\r\n\t{} = 1"],
)
def test_long_keys_are_rejected_wherever_toml_allows_a_key(text):
    for key in ("a" + ".a" * 32, "'a b'" + ' . "a\\""' * 32):
        with pytest.raises(ValueError, match="a key has more than 32 parts"):
            parse_toml(text.format(key))
    parse_toml(text.format("c" + ".c" * 31))


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["optimizer=1", "optimizer.beta_2=0.9"], r"the options set optimizer to 1 and also set optimizer\.beta_2"),
        (["optimizer.beta_2=0.9", "optimizer=1"], r"the options set optimizer to 1 and also set optimizer\.beta_2"),
        (["model.preset='mini'\nbatches.batch_size = 1"], r"--set .model\.preset.* has more than one value"),
        (["model.preset='mini'\n[x]"], "has more than one value"),
        (["seed"], r"--set 'seed' has no value"),
        (["a" * 70_000], r"--set 'aaa.*has no value"),
        (["model.start_from=a\udcff"], r"model\.start_from is 'a\\udcff': input should be"),
    ],
)
def test_contradictory_assignments_are_rejected(assignments, message):
    with pytest.raises(InputError, match=message) as raised:
        Pretraining.resolve(overrides=parse_assignments(assignments))
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    ("assignments", "settings"),
    [
        (["optimizer={beta_1 = 0.5}", "optimizer.beta_2=0.9"], {"beta_1": 0.5, "beta_2": 0.9}),
        (["optimizer.beta_2=0.9", "optimizer={beta_1 = 0.5}"], {"beta_1": 0.5, "beta_2": 0.9}),
        (["optimizer.beta_2=0.9", "optimizer={beta_2 = 0.5}"], {"beta_2": 0.5}),
        (["optimizer.beta_2=0.9\n"], {"beta_2": 0.9}),
    ],
)
def test_a_table_and_a_key_of_it_are_put_together(assignments, settings):
    run = Pretraining.resolve(overrides=parse_assignments(assignments))
    assert {name: getattr(run.optimizer, name) for name in settings} == settings


def test_dates_are_no_text():
    with pytest.raises(InputError, match=r"source is .*: input should be"):
        Pretraining.resolve(overrides={"source": datetime.date(2020, 1, 1)})
