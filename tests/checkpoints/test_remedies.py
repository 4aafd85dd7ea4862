"""The fixes suggested in error messages about model folders work: each test applies one."""

import ast
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.cli.main import main
from tests.test_project import REPOSITORY

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{i}" for i in range(92))]


def refusal(action) -> str:
    """Return the message of the `InputError` that an action raises."""
    with pytest.raises(bk.InputError) as error:
        action()
    return str(error.value)


def command_in(message: str) -> list[str]:
    """Return the words of the command at the end of a message, after two spaces."""
    return shlex.split(message.partition(":")[2].rpartition("  ")[2])


def run_python(words: list[str]) -> None:
    assert words[0] == "python"
    done = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def pickled(twin, folder: pathlib.Path) -> pathlib.Path:
    """Write a folder with pickled weights and a vocabulary, as old versions of transformers did."""
    import torch

    twin.save_pretrained(folder)
    (folder / "model.safetensors").unlink()
    torch.save(twin.state_dict(), folder / "pytorch_model.bin")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("architecture", "ours"),
    [
        ("BertForSequenceClassification", "BertClassifier"),
        ("BertForPreTraining", "BertPretrainer"),
        ("BertForQuestionAnswering", "BertQuestionAnswerer"),
        ("ElectraForPreTraining", "ElectraPretrainer"),
    ],
)
def test_the_command_that_converts_pickles_keeps_head_and_vocabulary(
    architecture, ours, make_twin, run_twin, run, make_batch, tmp_path
):
    twin = make_twin(architecture)
    folder = pickled(twin, tmp_path / "it's old")
    run_python(command_in(refusal(lambda: bk.load(folder))))
    out = tmp_path / "it's old-safetensors"
    model = bk.load(out)
    assert type(model).__name__ == ours
    assert bk.load_tokenizer(out).vocabulary == tuple(WORDS)
    if ours == "BertClassifier":
        expected = run_twin(twin, make_batch())["logits"]
        np.testing.assert_allclose(run(model, make_batch())["logits"], expected, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["new", "0_Transformer"])
def test_the_command_that_converts_pickles_keeps_the_pooling(layout, make_twin, tmp_path):
    from sentence_transformers import SentenceTransformer

    folder = pickled(make_twin("BertModel"), tmp_path / "bert")
    run_python(command_in(refusal(lambda: bk.load(folder))))
    SentenceTransformer(str(tmp_path / "bert-safetensors")).save(str(tmp_path / "st"))
    home = tmp_path / "st"
    if layout != "new":
        home = tmp_path / "st" / layout
        home.mkdir()
        for path in [path for path in (tmp_path / "st").iterdir() if path.is_file() and path.name != "modules.json"]:
            path.rename(home / path.name)
        modules = tmp_path / "st/modules.json"
        modules.write_text(modules.read_text().replace('"path": ""', f'"path": "{layout}"'))
    (home / "model.safetensors").unlink()
    shutil.copy(folder / "pytorch_model.bin", home)
    run_python(command_in(refusal(lambda: bk.load(tmp_path / "st"))))
    assert type(bk.load(tmp_path / "st-safetensors")).__name__ == "BertEmbedder"
    assert bk.load_tokenizer(tmp_path / "st-safetensors").vocabulary == tuple(WORDS)


@pytest.fixture
def ours(shared_model, tmp_path):
    """A folder of a classifier, with a tokenizer."""
    bk.save(shared_model("classifier", num_layers=1), bk.BertTokenizer(WORDS), tmp_path / "ours")
    return tmp_path / "ours"


def test_copy_vocab_txt_into_the_folder(ours, tmp_path):
    (ours / "vocab.txt").rename(tmp_path / "vocab.txt")
    (ours / "tokenizer.json").unlink()
    (ours / "SHA256SUMS").unlink()
    message = refusal(lambda: bk.Predictor.from_checkpoint(ours))
    assert message.endswith("copy its vocab.txt into the folder")
    (tmp_path / "vocab.txt").rename(ours / "vocab.txt")
    bk.Predictor.from_checkpoint(ours)


def test_delete_the_checksums(ours):
    vocabulary = ours / "vocab.txt"
    vocabulary.write_text(vocabulary.read_text().replace("word90", "wort90"))
    (ours / "tokenizer.json").unlink()
    assert "if you changed it on purpose" in refusal(lambda: bk.load(ours))
    for line in (ours / "SHA256SUMS").read_text().splitlines():
        assert len(line.partition("  ")[0]) == 64
    (ours / "SHA256SUMS").unlink()
    assert "wort90" in bk.load_tokenizer(ours).vocabulary
    bk.load(ours)


def test_delete_the_wrong_vocabulary_of_two(ours, caplog):
    (ours / "vocab.txt").write_text("\n".join([*WORDS[:-1], "another"]) + "\n")
    (ours / "SHA256SUMS").unlink()
    bk.load_tokenizer(ours)
    assert "have different tokens: tokenizer.json is used, as in transformers; delete the wrong file" in caplog.text
    (ours / "tokenizer.json").unlink()
    caplog.clear()
    assert bk.load_tokenizer(ours).vocabulary[-1] == "another"
    assert not caplog.text


@pytest.mark.slow
def test_resize_token_embeddings_of_a_vocabulary_that_is_too_long(make_twin, tmp_path):
    from transformers import BertForMaskedLM

    make_twin("BertForMaskedLM").save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs/vocab.txt").write_text("\n".join([*WORDS, "one", "two"]) + "\n")
    message = refusal(lambda: bk.load(tmp_path / "theirs"))
    (size,) = re.findall(r"call resize_token_embeddings\((\d+)\) of the model in transformers", message)
    model = BertForMaskedLM.from_pretrained(tmp_path / "theirs")
    model.resize_token_embeddings(int(size))
    model.save_pretrained(tmp_path / "theirs")
    assert bk.load(tmp_path / "theirs").encoder.config.vocabulary_size == len(WORDS) + 2
    assert len(bk.load_tokenizer(tmp_path / "theirs").vocabulary) == len(WORDS) + 2


def test_load_the_weights_if_the_tokenizer_is_unsupported(ours):
    (ours / "tokenizer.json").write_text('{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}')
    (ours / "SHA256SUMS").unlink()
    assert "load only the weights (bert_keras.load)" in refusal(lambda: bk.Predictor.from_checkpoint(ours))
    assert type(bk.load(ours)).__name__ == "BertClassifier"


def test_convert_a_keras_file_and_add_its_vocabulary(make_model, tmp_path, capsys):
    make_model("masked_lm", num_layers=1).save(tmp_path / "model.keras")
    assert main(["fill-mask", str(tmp_path / "model.keras"), "[MASK]"]) == 2
    assert "convert it with `bert-keras convert`, and add its vocab.txt" in capsys.readouterr().err
    assert main(["convert", str(tmp_path / "model.keras"), str(tmp_path / "folder")]) == 0
    (tmp_path / "folder/vocab.txt").write_text("\n".join(WORDS) + "\n")
    assert main(["fill-mask", str(tmp_path / "folder"), "[MASK]"]) == 0


def test_overwrite_a_folder_that_is_not_empty(shared_model, ours):
    with pytest.raises(bk.InputError, match="overwrite"):
        bk.save(shared_model("encoder", num_layers=1), None, ours)
    bk.save(shared_model("encoder", num_layers=1), None, ours, overwrite=True)


def extras() -> set[str]:
    """Return the extras of bert-keras."""
    config = ConfigParser()
    config.read(REPOSITORY / "setup.cfg")
    return set(config["options.extras_require"])


def test_every_extra_in_a_message_exists():
    named = set()
    for path in [
        *REPOSITORY.glob("bert_keras/**/*.py"),
        *REPOSITORY.glob("pipelines/**/*.py"),
        *REPOSITORY.glob("export/**/*.py"),
    ]:
        text = path.read_text(encoding="utf-8")
        named |= set(re.findall(r"bert-keras\[([a-z]+)\]", text))
        if "MissingExtraError" not in text and "check_installed" not in text:
            continue
        named |= {
            call.args[2].value
            for call in ast.walk(ast.parse(text))
            if isinstance(call, ast.Call)
            and getattr(call.func, "id", None) in ("MissingExtraError", "check_installed")
            and len(call.args) > 2
            and isinstance(call.args[2], ast.Constant)
        }
    assert {"onnx", "plots"} <= named
    assert named <= extras()
