"""The argument parser accepts renamed options under their old spelling for one release."""

import pytest

from bert_keras.cli.main import COMMANDS, parser
from bert_keras.cli.running import HIDDEN_ALIASES, replace_hidden_aliases

FINETUNE = ["finetune", "checkpoint", "out", "--train", "train.csv"]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--labelled-pieces", "all"], ["--labelled-tokens", "all"]),
        (["--labelled-pieces=all"], ["--labelled-tokens=all"]),
        (["--task", "tag", "--", "--labelled-pieces"], ["--task", "tag", "--", "--labelled-pieces"]),
        (["labelled-pieces", "--labelled-piece"], ["labelled-pieces", "--labelled-piece"]),
    ],
    ids=["value in the next argument", "value after =", "after --", "other arguments"],
)
def test_old_spellings_are_replaced(args, expected):
    assert replace_hidden_aliases(args) == expected


def test_option_is_accepted_under_its_old_spelling():
    arguments = parser().parse_args([*FINETUNE, "--labelled-pieces", "all"])
    assert arguments.labelled_tokens == "all"
    assert parser().parse_args([*FINETUNE, "--warmup-rate", "0.2"]).warmup_ratio == 0.2


def test_old_mask_unit_is_accepted_and_hidden(capsys):
    assert (
        vars(parser().parse_args(["pretrain", "records", "out", "--mask-unit", "piece"]))["batches.mask_unit"]
        == "token"
    )
    with pytest.raises(SystemExit):
        parser().parse_args(["pretrain", "--help"])
    assert "piece" not in capsys.readouterr().out


def test_every_alias_maps_to_an_option_and_is_hidden(capsys):
    options = ""
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            parser().parse_args([command, "--help"])
        options += capsys.readouterr().out
    for old, new in HIDDEN_ALIASES.items():
        assert f"{new} " in options
        assert old not in options
