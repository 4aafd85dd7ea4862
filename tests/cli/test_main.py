"""The command line: output, error messages, and no leftover files after an error."""

import csv
import gc
import json
import re
import shutil
import subprocess
import sys

import pytest

import bert_keras as bk
from bert_keras.cli.interrupts import _without_garbage_collection
from bert_keras.cli.main import COMMANDS, main
from bert_keras.export.settings import DEFAULT_TOLERANCE, ExportSettings
from bert_keras.publishing import publish_folder
from bert_keras.staging import LISTING
from tests.marks import slow

FAULTS = {
    "several problems at once": (
        ["finetune", "nothing", "out", "--train", "no.csv", "--dev", "dev.csv"],
        r"nothing does not exist.*; no\.csv does not exist",
    ),
    "one file in two options": (
        ["finetune", "checkpoint", "out", "--train", "no.csv", "--dev", "no.csv"],
        r"finetune: no\.csv does not exist; [^;]*$",
    ),
    "folder of an unknown format": (["export", "full", "out"], r"full is not a checkpoint of a supported format"),
}


@pytest.fixture
def workplace(tmp_path, checkpoint):
    """Folder with the files that the commands of `FAULTS` use."""
    (tmp_path / "checkpoint").symlink_to(checkpoint)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/old").write_text("old")
    rows = [("the cat sat", "cat"), ("a dog ran", "dog"), ("the red cat", "cat"), ("every dog", "dog")]
    write_csv(tmp_path / "train.csv", rows * 4)
    write_csv(tmp_path / "dev.csv", rows)
    return tmp_path


def write_csv(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *rows])


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_input_prints_one_sentence_with_status_2(fault, workplace, monkeypatch, capsys):
    command, message = FAULTS[fault]
    monkeypatch.chdir(workplace)
    before = sorted(workplace.rglob("*"))
    assert main(command) == 2
    last_line = capsys.readouterr().err.strip().split("\n")[-1]
    assert last_line.startswith(f"bert-keras {command[0]}: ")
    assert re.search(message, last_line)
    assert sorted(workplace.rglob("*")) == before


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ([], "bert-keras: the following arguments are required: COMMAND; see bert-keras --help"),
        (
            ["export", "a"],
            "bert-keras export: the following arguments are required: OUT; see bert-keras",
        ),
        (["export", "a", "b", "--to", "gif"], "bert-keras export: argument --to: invalid choice: 'gif'"),
    ],
    ids=["no command", "missing arguments", "unknown choice"],
)
def test_invalid_command_line_prints_one_line_with_status_2(command, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(command)
    assert stopped.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(message)
    assert line.endswith("--help")


def test_error_prints_no_traceback(cli, workplace):
    done = cli("convert", "full", "out", cwd=workplace)
    assert done.returncode == 2
    assert done.stderr.strip().split("\n")[-1].startswith("bert-keras convert: full is not a checkpoint")
    assert "Traceback" not in done.stderr
    assert not (workplace / "out").exists()


def edit_config(folder, **changes):
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**values, **changes}))


def cut(folder):
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])


def flip_bit(folder):
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-5] ^= 4
    (folder / "model.safetensors").write_bytes(content)


def add_token(folder):
    (folder / "SHA256SUMS").unlink()
    (folder / "tokenizer.json").unlink()  # otherwise it takes precedence over vocab.txt
    with open(folder / "vocab.txt", "a", encoding="utf-8") as file:
        file.write("another\n")


BROKEN_FOLDERS = {
    "unknown key under bert_keras": (
        lambda folder: edit_config(folder, bert_keras={"format": 1, "modle": "BertEncoder"}),
        r"config\.json has modle under 'bert_keras'",
    ),
    "relative positions": (
        lambda folder: edit_config(folder, position_embedding_type="relative_key"),
        r"sets position_embedding_type to 'relative_key', which changes what the model computes",
    ),
    "decoder": (lambda folder: edit_config(folder, is_decoder=True), r"sets is_decoder to True"),
    "different model type": (lambda folder: edit_config(folder, model_type="roberta"), r"has model_type 'roberta'"),
    "indivisible heads": (
        lambda folder: edit_config(folder, num_attention_heads=5),
        r"hidden_dim 24 is not divisible by num_heads 5",
    ),
    "vocabulary of a different size": (add_token, r"vocab\.txt has 25 tokens, the model's token table 24 rows"),
    "truncated weights": (cut, r"model\.safetensors has [\d,]+ bytes; expected [\d,]+, as in its header"),
    "flipped bit": (flip_bit, r"model\.safetensors does not match its recorded SHA-256"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), r"has no model\.safetensors"),
    "no config": (lambda folder: (folder / "config.json").unlink(), r"is not a checkpoint of a supported format"),
    "weights of a different size": (
        lambda folder: edit_config(folder, intermediate_size=48),
        r"\(24, 40\).*\(24, 48\)",
    ),
}


@pytest.mark.parametrize("fault", BROKEN_FOLDERS)
def test_broken_folder_exits_with_status_2_and_raises_value_error_in_python(
    fault, tmp_path, checkpoint, monkeypatch, capsys
):
    broken, message = BROKEN_FOLDERS[fault]
    shutil.copytree(checkpoint, tmp_path / "broken")
    broken(tmp_path / "broken")
    with publish_folder(tmp_path / "out", "convert") as folder:
        (folder / "old").write_text("old")
    monkeypatch.chdir(tmp_path)
    assert main(["convert", "broken", "out", "--overwrite"]) == 2
    last_line = capsys.readouterr().err.strip().split("\n")[-1]
    assert last_line.startswith("bert-keras convert: ")
    assert re.search(message, last_line)
    with pytest.raises(ValueError, match=message):
        bk.load("broken")
    assert [path.name for path in tmp_path.rglob("*") if "broken" not in path.parts] == ["out", "old", LISTING]


def test_harmless_keys_of_a_third_party_config_are_accepted(tmp_path, checkpoint):
    shutil.copytree(checkpoint, tmp_path / "third_party")
    edit_config(tmp_path / "third_party", use_cache=False, gradient_checkpointing=True, _name_or_path="somebody/bert")
    assert main(["convert", str(tmp_path / "third_party"), str(tmp_path / "out")]) == 0


def test_command_prints_its_settings_and_its_output(workplace, monkeypatch, capsys):
    monkeypatch.chdir(workplace)
    assert main(["convert", "checkpoint", "out"]) == 0
    printed = capsys.readouterr()
    assert re.search(r"bert-keras convert\n  in +checkpoint\n  out +out\n  to +huggingface\n", printed.err)
    assert re.fullmatch(r"wrote out: BertEncoder, [\d,]+ parameters\n", printed.out)


def test_abbreviated_options_are_rejected(capsys):
    # `--workers` is removed from the arguments of workers by its full name
    with pytest.raises(SystemExit) as ended:
        main(["pretrain", "records", "out", "--worker", "2"])
    assert ended.value.code == 2
    assert "unrecognized arguments: --worker 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("form", "file"),
    [("huggingface", "README.md"), *slow(("keras_hub", "metadata.json"))],
)
def test_standard_output_contains_only_json(form, file, workplace, monkeypatch, capsys):
    monkeypatch.chdir(workplace)
    assert main(["convert", "checkpoint", "out", "--to", form, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["model"] == "BertEncoder"
    assert (workplace / "out" / file).exists()


def test_overwrite_replaces_an_output_folder(workplace, monkeypatch):
    monkeypatch.chdir(workplace)
    assert main(["convert", "checkpoint", "out"]) == 0
    before = (workplace / "out/model.safetensors").stat().st_ino
    assert main(["convert", "checkpoint", "out", "--overwrite"]) == 0
    assert (workplace / "out/model.safetensors").stat().st_ino != before


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    help_text = capsys.readouterr().out
    assert "--json" in help_text
    assert not re.search(r"[A-Z]\.[A-Z]", help_text), "metavar is a setting's key instead of the name of a value"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("learn-vocab out --size 0", "--size: '0' is not an integer >= 1"),
        ("learn-vocab out --size many", "--size: 'many' is not an integer >= 1"),
        ("finetune in out --patience -1", "--patience: '-1' is not an integer >= 0"),
        ("finetune in out --learning-rate nan", "--learning-rate: 'nan' is not a number above 0"),
        ("finetune in out --learning-rate 2e", "--learning-rate: '2e' is not a number above 0"),
    ],
)
def test_invalid_numbers_are_reported_with_their_option(words, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(words.split())
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_garbage_collection_is_paused_during_the_tensorflow_import():
    with _without_garbage_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with _without_garbage_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.slow
def test_objects_of_the_tensorflow_import_are_frozen():
    code = (
        "import gc\nfrom bert_keras.cli.interrupts import load_tensorflow\nruns = []\n"
        "gc.callbacks.append(lambda *_: runs.append(1))\nload_tensorflow()\n"
        "assert not runs, len(runs)\nassert gc.isenabled()\nassert gc.get_freeze_count() > 100_000\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_full_disk_is_reported_and_leaves_no_output(workplace, monkeypatch, capsys):
    import bert_keras.checkpoints.saving as folder

    def fail(*_):
        raise OSError(28, "No space left on device", "out")

    monkeypatch.chdir(workplace)
    monkeypatch.setattr(folder, "write_json", fail)
    before = sorted(workplace.iterdir())
    assert main(["convert", "checkpoint", "out"]) == 2
    assert capsys.readouterr().err.endswith("bert-keras convert: out: No space left on device\n")
    assert sorted(workplace.iterdir()) == before


@pytest.mark.slow
@pytest.mark.parametrize("command", ["predict {tuned} {texts}", "plan tiny --quick"])
def test_closed_output_pipe_is_not_an_error(command, tuned, tmp_path):
    (tmp_path / "texts.txt").write_text("the cat sat\n" * 2000, encoding="utf-8")
    words = command.format(tuned=tuned("classify").out, texts=tmp_path / "texts.txt").split()
    command = [sys.executable, "-m", "bert_keras.cli.main", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        stderr = process.stderr.read()
    assert process.returncode == 0, stderr
    assert "roken" not in stderr


def test_help_of_export_lists_the_defaults_of_its_settings(capsys):
    with pytest.raises(SystemExit):
        main(["export", "--help"])
    help_text = " ".join(capsys.readouterr().out.split())
    settings = ExportSettings()
    assert f"load the SavedModel (default {settings.min_serving})" in help_text
    assert f"score that auto may lose (default {DEFAULT_TOLERANCE})" in help_text
