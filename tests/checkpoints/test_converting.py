"""`convert` lists everything that it cannot carry over."""

import json
import shutil

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.cli.main import main


@pytest.fixture
def folder(saved_folder, tmp_path):
    """A folder with a masked-LM model."""
    return shutil.copytree(saved_folder("masked_lm", num_layers=1), tmp_path / "masked_lm")


def with_more_tensors(folder, edit_tensors):
    """Add the pooler and the next-sentence head, which the published BERT files contain besides the masked-LM head."""
    more = {
        "bert.pooler.dense.weight": np.ones((30, 30), "float32"),
        "bert.pooler.dense.bias": np.ones(30, "float32"),
        "cls.seq_relationship.weight": np.ones((2, 30), "float32"),
        "bert.embeddings.position_ids": np.zeros((1, 17), "int64"),  # stored by old versions of transformers
    }
    edit_tensors(folder, lambda tensors: {**tensors, **more})
    (folder / "SHA256SUMS").unlink()


def test_an_unsupported_tokenizer_is_listed_and_the_weights_are_converted(folder, tmp_path, capsys):
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}))
    assert type(bk.load(folder)).__name__ == "BertMaskedLM"
    assert main(["convert", str(folder), str(tmp_path / "out"), "--json"]) == 0
    (sentence,) = json.loads(capsys.readouterr().out)["not_carried_over"]
    assert sentence.startswith(
        f"the tokenizer: {folder / 'tokenizer.json'} has model 'BPE'; expected BERT's 'WordPiece'"
    )
    assert not (tmp_path / "out/tokenizer.json").exists()
    assert main(["fill-mask", str(folder), "[MASK]"]) == 2
    assert "has model 'BPE'; expected BERT's 'WordPiece'" in capsys.readouterr().err


def test_nothing_is_listed_if_everything_is_carried_over(folder, tmp_path):
    converted = bk.convert(folder, tmp_path / "out")
    assert type(converted.model).__name__ == "BertMaskedLM"
    assert converted.not_carried_over == []


def test_tensors_that_the_model_does_not_have_are_listed(folder, edit_tensors, tmp_path, capsys):
    with_more_tensors(folder, edit_tensors)
    assert main(["convert", str(folder), str(tmp_path / "out"), "--json"]) == 0
    sentences = json.loads(capsys.readouterr().out)["not_carried_over"]
    assert sentences == [
        "tensors that BertMaskedLM does not have: cls.seq_relationship.weight",
        "tensors that BertMaskedLM does not have: bert.pooler.dense.weight, bert.pooler.dense.bias",
    ]
    assert main(["convert", str(folder), str(tmp_path / "out"), "--overwrite"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[1:] == [f"not carried over: {sentence}" for sentence in sentences]
