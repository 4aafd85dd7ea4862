"""Modules in `BERT_KERAS_PLUGINS` are checked; `tests/contracts/` uses heads and architectures of such modules."""

import dataclasses

import pytest

from bert_keras.architectures import bert
from bert_keras.architectures.known_architectures import register_architecture
from bert_keras.errors import InputError
from bert_keras.heads import tag
from bert_keras.heads.known_heads import register_head
from tests.commands import run_cli


@pytest.mark.parametrize("arguments", [["plan", "tiny"], ["finetune", "--help"]])
def test_a_module_that_cannot_be_imported_ends_every_command_with_one_sentence(arguments, monkeypatch, tmp_path):
    monkeypatch.setenv("BERT_KERAS_PLUGINS", "no_such_module")
    done = run_cli(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "bert-keras: BERT_KERAS_PLUGINS names the module no_such_module, which cannot be imported (No module named "
        "'no_such_module'); expected modules, separated by commas: correct the variable, or unset it\n"
    )


def test_records_with_names_that_are_taken_are_refused():
    with pytest.raises(InputError, match="there is a head 'tag' for BertTokenClassifier already: choose other names"):
        register_head(tag.HEAD)
    with pytest.raises(InputError, match="there is a head 'tag' for Other already"):
        register_head(dataclasses.replace(tag.HEAD, model="package:Other"))
    with pytest.raises(InputError, match="there is an architecture 'bert' already: choose another model_type"):
        register_architecture(bert.ARCHITECTURE)
