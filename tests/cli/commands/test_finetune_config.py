"""`finetune --config FILE`, and the `finetuning.toml` that repeats a run."""

import pathlib

import pytest

import bert_keras as bk
from bert_keras.cli.commands.finetune import apply_config
from bert_keras.cli.main import main, parser
from bert_keras.cli.options.finetuning_options import make_settings
from bert_keras.errors import InputError
from bert_keras.training.config.finetuning_settings import FineTuning
from bert_keras.training.config.sources import parse_toml

FILE = """
task = "classify"
train = "train.csv"
dev_share = 0.25
columns = ["text", "label"]
num_epochs = 7
learning_rate = 1e-4
keep_best = false
gradient_checkpointing = true
"""


def resolve(folder: pathlib.Path, *options: str, text: str = FILE):
    """Return the arguments of a command line with a file."""
    (folder / "file.toml").write_text(text, encoding="utf-8")
    arguments = parser().parse_args(["finetune", "in", "out", "--config", str(folder / "file.toml"), *options])
    apply_config(arguments)
    return arguments


def test_the_file_replaces_defaults(tmp_path):
    arguments = resolve(tmp_path)
    settings = make_settings(arguments)
    assert (settings.num_epochs, settings.learning_rate, settings.keep_best) == (7, 1e-4, False)
    assert settings.gradient_checkpointing
    assert settings.batch_size == FineTuning().batch_size
    assert (arguments.train, arguments.dev_share) == (pathlib.Path("train.csv"), 0.25)
    assert list(arguments.columns) == ["text", "label"]
    assert (arguments.on_error, arguments.problem) == ("stop", None)


def test_options_override_the_file(tmp_path):
    options = ["--epochs", "2", "--keep-best", "--no-gradient-checkpointing", "--train", "a.csv", "--dev", "b.csv"]
    arguments = resolve(tmp_path, *options)
    settings = make_settings(arguments)
    assert (settings.num_epochs, settings.learning_rate, settings.keep_best) == (2, 1e-4, True)
    assert not settings.gradient_checkpointing
    assert (arguments.train, arguments.dev) == (pathlib.Path("a.csv"), pathlib.Path("b.csv"))
    assert arguments.dev_share is None, "--dev replaces the share that the file holds out"


def test_an_option_with_the_value_of_its_default_overrides_the_file_too(tmp_path):
    assert make_settings(resolve(tmp_path, "--epochs", str(FineTuning().num_epochs))).num_epochs == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nom_epochs = 3", r"file\.toml: nom_epochs is not a setting; did you mean num_epochs"),
        ("epochs = 3", "epochs is the name of an option; in the file it is num_epochs"),
        ("keep_last = true", "in the file it is keep_best"),
        ("num_epochs = '3'", "num_epochs is '3': input should be a valid integer"),
        ("task = 'translate'", "task is 'translate': input should be 'classify', 'tag', 'answer' or 'embed'"),
        ("dev_share = 1.5\nnum_epochs = 0", r"num_epochs is 0: .*dev_share is 1\.5: "),
        ("[optimizer]\nname = 'adamw'", r"optimizer\S* is not a setting"),
        ("num_epochs 3", r"file\.toml is not TOML \(.*line 1.*\); expected one setting per line"),
        ("task = 'tag'", 'no training examples were named; expected a file: add --train FILE, or train = "FILE"'),
    ],
)
def test_wrong_files_are_refused_with_their_key(text, message, tmp_path):
    with pytest.raises(InputError, match=message):
        resolve(tmp_path, text=text)


def test_a_missing_file_is_reported(tmp_path, capsys):
    assert main(["finetune", "in", "out", "--config", str(tmp_path / "none.toml")]) == 2
    assert "none.toml cannot be read" in capsys.readouterr().err


def test_old_names_of_settings_are_accepted(tmp_path):
    assert make_settings(resolve(tmp_path, text=FILE + "warmup_rate = 0.2")).warmup_ratio == 0.2


def test_out_contains_the_resolved_settings(tuned):
    done = tuned("classify")
    stored = parse_toml((done.out / "finetuning.toml").read_text())
    assert stored.pop("train").endswith("classify_train.csv")
    assert stored.pop("dev").endswith("classify_dev.csv")
    assert stored == {
        "task": "classify",
        "on_error": "stop",
        "problem": "single_label",
        "class_weights": "equal",
        "max_sequence_length": 19,
        "num_epochs": 2,
        "batch_size": 8,
        "learning_rate": 5e-3,
        "warmup_ratio": 0.1,
        "weight_decay": 0.01,
        "layer_decay": 1.0,
        "head_rate_factor": 1.0,
        "patience": 0,
        "keep_best": True,
        "seed": 0,
        "accumulation_steps": 1,
        "gradient_checkpointing": False,
        "dtype_policy": "float32",
    }


def test_the_stored_settings_are_arguments_of_finetune_in_python(tuned, shallow_checkpoint, monkeypatch):
    class PlannedError(Exception):
        pass

    def stop(task, checkpoint, train, dev, settings, **_):
        raise PlannedError(task.name, len(train), len(dev), settings.learning_rate)

    monkeypatch.setattr("bert_keras.training.finetuning_to_folder.run_finetuning", stop)
    done = tuned("classify")
    values = parse_toml((done.out / "finetuning.toml").read_text())
    values |= {"train": str(done.train), "dev": str(done.dev)}
    with pytest.raises(PlannedError) as planned:
        bk.finetune(shallow_checkpoint, **values)
    assert planned.value.args == ("classify", 17, 9, 5e-3)


def test_the_tensorboard_folder_has_curves_settings_and_examples(tuned):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    done = tuned("classify")
    folder = done.out.parents[1] / "tensorboard"
    whole, train, validation = (EventAccumulator(str(folder / run)).Reload() for run in ("", "train", "validation"))
    assert {"loss", "learning_rate"} <= set(train.Tags()["scalars"])
    assert {"loss", "accuracy"} <= set(validation.Tags()["scalars"])
    assert len(validation.Scalars("accuracy")) == 2
    assert whole.Scalars("final/accuracy")[0].step == validation.Scalars("accuracy")[-1].step
    assert "_hparams_/session_start_info" in whole.Tags()["tensors"]
    [event] = whole.Tensors("held-out examples")
    table = event.tensor_proto.string_val[0].decode().splitlines()
    assert table[0] == "| correct | text | label | prediction | probability |"
    assert len(table) == 2 + 9
    marks = [line.split(" | ")[0].strip("| ") for line in table[2:]]
    assert marks == sorted(marks), "wrong ones come first"


@pytest.mark.slow
def test_the_stored_settings_repeat_the_run(tuned, tmp_path):
    done = tuned("classify")
    stored = parse_toml((done.out / "finetuning.toml").read_text())
    files = ["--train", str(done.train), "--dev", str(done.dev)]
    checkpoint = done.out.parents[1] / "perturbed"
    config = ["--config", str(done.out / "finetuning.toml")]
    assert main(["finetune", str(checkpoint), str(tmp_path / "again"), *config, *files]) == 0
    for name in ("model.safetensors", "metrics.json"):
        assert (tmp_path / "again" / name).read_bytes() == (done.out / name).read_bytes()
    again = parse_toml((tmp_path / "again/finetuning.toml").read_text())
    assert again == stored | {"train": str(done.train), "dev": str(done.dev)}
