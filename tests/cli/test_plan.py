"""`plan` prints what was counted."""

import json

from bert_keras.accounting.planning import HEADS
from bert_keras.cli import plan
from bert_keras.cli.main import main


def test_tables_of_parameters_operations_and_steps(capsys):
    assert main("plan base --steps".split()) == 0
    parameters, operations, steps = (table.split("\n") for table in capsys.readouterr().out.strip().split("\n\n"))
    assert parameters[-1].split() == ["all", "109,482,240"]
    assert parameters[1].split() == ["token", "embeddings", "23,440,896", "21.4%", "1"]
    assert operations[0].split() == ["floating-point", "operations", "first", "block", "forward"]
    assert operations[1].split() == ["QKV", "452,984,832", "5,435,817,984"]
    assert len(steps) == 1 + 6 + 20 + 2  # the twelve blocks are alike
    assert (
        steps[14].split()
        == "block_0-11/attention scores Q K^T (1, 12, 128, 64) (1, 12, 64, 128) (1, 12, 128, 128)".split()
    )


def test_blocks_that_differ_stand_by_themselves(capsys):
    assert main("plan mini --head masked_lm --length 20 --steps".split()) == 0
    *_, steps = capsys.readouterr().out.split("\n\n")
    assert {line.split("/")[0] for line in steps.split("\n") if line.startswith("block")} >= {"block_0-2", "block_3"}


def test_json_has_it_all(capsys):
    assert main("plan tiny --head tagging --num-classes 5 --length 16 --batch-size 2 --json".split()) == 0
    planned = json.loads(capsys.readouterr().out)
    assert (planned["model"], planned["batch_size"], planned["length"]) == ("BertTokenClassifier", 2, 16)
    assert planned["parameters"][-1] == {"name": "classifier", "parameters": 128 * 5 + 5, "num_layers": 1}
    assert {part["part"] for part in planned["training_flops"]} >= {"QKV", "classifier", "elementwise"}


def test_bad_input_is_one_sentence(capsys):
    assert main("plan nowhere".split()) == 2
    assert "nowhere is neither a folder nor a preset" in capsys.readouterr().err
    assert main("plan tiny --length 600".split()) == 2
    assert "rows of 600 pieces were asked for, the model reads at most 512" in capsys.readouterr().err


def test_the_heads_are_those_of_the_library():
    assert tuple(HEADS) == plan.HEADS
