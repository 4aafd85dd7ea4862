"""`finetune --search N`: what it prints and writes, how it resumes, and what it refuses."""

import csv
import os
import re
import signal

import pytest

import bert_keras as bk
from bert_keras.cli.commands.finetune import leave_out_searched
from bert_keras.cli.main import main
from bert_keras.errors import InputError
from bert_keras.files import read_json
from bert_keras.training.config.finetuning_settings import FineTuning
from bert_keras.training.search.searched_finetuning import SearchSpace, has_trials

SEARCHED = ["batch_size", "layer_decay", "learning_rate", "warmup_ratio", "weight_decay"]


@pytest.fixture
def workplace(shallow_checkpoint, tmp_path, monkeypatch):
    """A folder with a checkpoint, and with texts whose label is the pet in them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shallow").symlink_to(shallow_checkpoint)
    pets = ["cat", "dog"] * 80
    rows = [f"the {pet} sat on a {'red' if index % 3 else 'every'} mat,{pet}" for index, pet in enumerate(pets)]
    (tmp_path / "train.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    (tmp_path / "dev.csv").write_text("\n".join(["text,label", *rows[:9]]) + "\n")
    return tmp_path


def command(*more):
    files = ["--train", "train.csv", "--dev", "dev.csv"]
    return ["finetune", "shallow", "out", *files, "--epochs", "2", *map(str, more)]


def read_trials(folder):
    with open(folder / "search.csv", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_a_search_ends_with_the_best_model_and_a_table(workplace, untraced, capsys):
    assert main(command("--search", 2, "--weight-decay", 0.05, "--epochs", 1, "--json")) == 0
    printed = capsys.readouterr()
    header = re.search(r"\n  search +2 trials; (.*)\n", printed.err)[1]
    assert (
        header
        == "learning_rate 0.0001 to 0.002, batch_size 16 32, warmup_ratio 0.0 0.06 0.1 0.2, layer_decay 0.8 0.9 1.0"
    )
    assert "\n  learning rate" not in printed.err
    assert len(re.findall(r"\n  trial \d of 2: \S+, complete, ", printed.err)) == 2

    trials = read_trials(workplace / "out")
    assert sorted(trial["trial"] for trial in trials) == ["1", "2"]
    scores = [float(trial["accuracy"]) for trial in trials]
    assert scores == sorted(scores, reverse=True)
    assert read_json(workplace / "out/metrics.json")["accuracy"] == scores[0]
    settings = (workplace / "out/finetuning.toml").read_text()
    assert f"learning_rate = {trials[0]['learning_rate']}\n" in settings
    assert "weight_decay = 0.05\n" in settings
    card = (workplace / "out/README.md").read_text()
    assert "- search: the best of 2 trials by accuracy on the held-out examples" in card
    assert sorted(path.name for path in workplace.iterdir() if "out" in path.name) == ["out"]


@pytest.mark.slow
def test_the_winner_is_what_its_settings_alone_would_train(workplace, capsys):
    """Trials do not disturb each other, and `finetuning.toml` repeats the winner."""
    assert main(command("--search", 3)) == 0
    repeated = command("--config", "out/finetuning.toml")
    repeated[2] = "again"
    assert main(repeated) == 0
    ours, theirs = (bk.load(name).get_weights() for name in ("out", "again"))
    assert all((one == other).all() for one, other in zip(ours, theirs, strict=True))


@pytest.mark.slow
def test_a_search_that_was_stopped_continues_with_resume(workplace, untraced, capsys, monkeypatch):
    """SIGTERM arrives in the second trial."""
    from bert_keras.training.search import settings_search

    on_epoch_end = settings_search._Report.on_epoch_end
    ended = []

    def end_epoch(report, epoch, logs=None):
        ended.append(epoch)
        if len(ended) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return on_epoch_end(report, epoch, logs)

    with monkeypatch.context() as patched:
        patched.setattr(settings_search._Report, "on_epoch_end", end_epoch)
        assert main(command("--search", 2)) == 75
    assert "repeat the training with --resume to continue" in capsys.readouterr().err
    assert has_trials(workplace / ".out.search")
    assert not (workplace / "out").exists()

    assert main(command("--search", 2)) == 2
    assert "a search for out was interrupted" in capsys.readouterr().err
    assert main(command("--search", 2, "--resume", "--seed", 5)) == 2
    assert "of another search (the settings changed): search with" in capsys.readouterr().err
    assert main(command("--search", 2, "--resume")) == 0
    assert len(read_trials(workplace / "out")) == 2
    assert sorted(path.name for path in workplace.iterdir() if "out" in path.name) == ["out"]


REFUSED = {
    "zero trials": (["--search", 0], "'0' is not an integer >= 1"),
    "workers": (["--search", 2, "--workers", 2], "--search runs on one machine"),
    "nothing to vary": (
        [
            "--search",
            2,
            *"--learning-rate 1e-3 --batch-size 8 --warmup-ratio 0 --weight-decay 0 --layer-decay 1".split(),
        ],
        "the search has nothing to vary",
    ),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_a_search_that_cannot_work_is_refused_before_it_starts(fault, workplace, capsys):
    options, message = REFUSED[fault]
    try:
        status = main(command(*options))
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    assert message in capsys.readouterr().err
    assert not [path for path in workplace.iterdir() if "out" in path.name]


INTERRUPTED = {
    "a search, not resumed": (".out.search/trials.journal", ["--search", 2], "continue with --search and --resume"),
    "a search, forgotten": (".out.search/trials.journal", [], "continue with --search and --resume"),
    "a search, resumed without one": (
        ".out.search/trials.journal",
        ["--resume"],
        "what was interrupted for out is a s",
    ),
    "a training, resumed as a search": (
        ".out.training/step-5/state",
        ["--search", 2, "--resume"],
        "what was interrupted for out is a training without a search",
    ),
}


@pytest.mark.parametrize("fault", INTERRUPTED)
def test_an_interrupted_run_is_not_forgotten_by_one_of_another_kind(fault, workplace, capsys):
    place, options, message = INTERRUPTED[fault]
    (workplace / place).parent.mkdir(parents=True)
    (workplace / place).touch()
    assert main(command(*options)) == 2
    assert message in capsys.readouterr().err
    assert (workplace / place).is_file()
    python = {"resume": "--resume" in options, "search": 2 if "--search" in options else None}
    with pytest.raises(InputError, match="interrupted"):
        bk.finetune("shallow", "out", train="train.csv", **python)
    assert (workplace / place).is_file()


def test_trials_are_not_removed_by_a_search_that_cannot_start(workplace):
    (workplace / ".out.search").mkdir()
    (workplace / ".out.search/trials.journal").touch()
    fixed = {"learning_rate": 1e-3, "batch_size": 8, "warmup_ratio": 0.0, "weight_decay": 0.0, "layer_decay": 1.0}
    with pytest.raises(InputError, match="nothing to vary"):
        bk.finetune("shallow", "out", train="train.csv", search=2, overwrite=True, **fixed)
    assert has_trials(workplace / ".out.search")


@pytest.mark.parametrize(
    ("varied", "expected"),
    [
        (["learning_rate", "warmup_ratio"], {"batches": "32"}),
        (["learning_rate"], {"batches": "32", "warm-up": "10%"}),
        (["warmup_ratio", "batch_size"], {"learning rate": "0.001"}),
        (["weight_decay"], {"batches": "32", "learning rate": "0.001, 10% warm-up"}),
    ],
)
def test_the_printed_settings_are_those_that_all_trials_have(varied, expected):
    settings = FineTuning(learning_rate=1e-3)
    rates = (1e-4, 1e-3) if "learning_rate" in varied else None
    space = SearchSpace(settings, rates, {name: (0, 1) for name in varied if name != "learning_rate"})
    described = {"batches": "32", "learning rate": "0.001, 10% warm-up", "weight decay": 0.05}
    shown = leave_out_searched(described, settings, space)
    shown.pop("weight decay", None)
    assert shown == expected


def test_a_missing_package_is_reported_before_the_work(workplace, capsys, monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "optuna" else find(name, *rest)
    )
    assert main(command("--search", 2)) == 2
    assert "run  pip install 'bert-keras[search]'" in capsys.readouterr().err


@pytest.mark.parametrize("search", [0, 1.5, "3", True])
def test_in_python_the_number_of_trials_is_checked(search, workplace):
    with pytest.raises(InputError, match=r"^search is .*expected an integer >= 1"):
        bk.finetune("shallow", train=[("a cat", "x"), ("a dog", "y")] * 9, search=search)


@pytest.mark.slow
def test_in_python_given_settings_are_not_varied_and_nothing_is_written(workplace):
    examples = [(f"the {pet} sat", pet) for pet in ("cat", "dog")] * 20
    tuned = bk.finetune("shallow", train=examples, dev=examples[:6], search=2, num_epochs=1, learning_rate=1e-3)
    assert [sorted(trial.settings) for trial in tuned.trials] == [["layer_decay", "warmup_ratio", "weight_decay"]] * 2
    assert tuned.settings.learning_rate == 1e-3
    assert not [path for path in workplace.iterdir() if "out" in path.name]
