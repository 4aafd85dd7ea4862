"""`plan` prints the tables of the cost model."""

import json
import sys

import pytest

from bert_keras.analysis.cost_model.subjects import HEADS
from bert_keras.cli.commands import plan
from bert_keras.cli.main import main


def test_tables_list_parameters_flops_and_steps(capsys):
    assert main("plan tiny --quick --steps".split()) == 0
    tables = (table.split("\n") for table in capsys.readouterr().out.strip().split("\n\n"))
    parameters, (batch, *flops), files, steps = tables
    assert parameters[-1].split() == ["total", "4,385,920"]
    assert parameters[1].split() == ["token", "embeddings", "3,906,816", "89.1%", "1"]
    assert batch == "batch size 1, 128 tokens per sequence"
    assert flops[0].split() == ["FLOPs", "first", "block", "forward"]
    assert flops[1].split() == ["QKV", "12,582,912", "25,165,824"]
    assert files[1].split() == ["checkpoint", "(safetensors)", "17.5"]
    assert len(steps) == 1 + 6 + 20 + 2  # the two blocks are identical, so one is listed
    assert (
        steps[14].split() == "block_0-1/attention scores Q K^T (1, 2, 128, 64) (1, 2, 64, 128) (1, 2, 128, 128)".split()
    )


@pytest.mark.slow
def test_tables_of_base(capsys):
    assert main("plan base --quick --steps".split()) == 0
    tables = (table.split("\n") for table in capsys.readouterr().out.strip().split("\n\n"))
    parameters, (batch, *flops), files, steps = tables
    assert parameters[-1].split() == ["total", "109,482,240"]
    assert parameters[1].split() == ["token", "embeddings", "23,440,896", "21.4%", "1"]
    assert batch == "batch size 1, 128 tokens per sequence"
    assert flops[0].split() == ["FLOPs", "first", "block", "forward"]
    assert flops[1].split() == ["QKV", "452,984,832", "5,435,817,984"]
    assert files[1].split() == ["checkpoint", "(safetensors)", "437.9"]
    assert len(steps) == 1 + 6 + 20 + 2  # the twelve blocks are identical, so one is listed
    assert (
        steps[14].split()
        == "block_0-11/attention scores Q K^T (1, 12, 128, 64) (1, 12, 64, 128) (1, 12, 128, 128)".split()
    )


@pytest.mark.slow
def test_blocks_that_differ_are_listed_separately(capsys):
    assert main("plan mini --head masked_lm --length 20 --quick --steps".split()) == 0
    *_, steps = capsys.readouterr().out.split("\n\n")
    assert {line.split("/")[0] for line in steps.split("\n") if line.startswith("block")} >= {"block_0-2", "block_3"}


def test_json_contains_the_whole_plan(capsys):
    assert main("plan tiny --head tagging --num-classes 5 --length 16 --batch-size 2 --quick --json".split()) == 0
    planned = json.loads(capsys.readouterr().out)
    assert (planned["model"], planned["batch_size"], planned["length"]) == ("BertTokenClassifier", 2, 16)
    assert planned["parameters"][-1] == {"name": "classifier", "parameters": 128 * 5 + 5, "num_layers": 1}
    assert {part["part"] for part in planned["training_flops"]} >= {"QKV", "classifier", "elementwise"}


@pytest.mark.slow
def test_memory_time_and_charts_of_training_are_written(tmp_path, capsys):
    assert main(f"plan tiny --head classification --length 16 --memory 4 --pictures {tmp_path / 'out'}".split()) == 0
    *_, memory, by_shape, seconds = (table.split("\n") for table in capsys.readouterr().out.strip().split("\n\n"))
    assert memory[0].endswith("largest batch in 4.0 GB")
    names = [line.split("  ")[0] for line in memory[1:]]
    assert names == ["float32", "float32, checkpointing", "mixed_bfloat16", "mixed_bfloat16, checkpointing"]
    assert [line.split()[0] for line in by_shape] == ["process,", "32", "64", "128", "256", "512"]
    assert seconds[1].startswith("step of 16 tokens")
    names = {f"{name}.{ending}" for name in ("parameters", "operations", "memory") for ending in ("png", "svg")}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {*names, ".bert_keras.json"}
    assert main(f"plan tiny --quick --pictures {tmp_path / 'out'}".split()) == 2
    assert "exists and is not empty" in capsys.readouterr().err


@pytest.mark.slow
def test_phases_of_a_recipe_are_listed_with_their_time(tmp_path, capsys):
    file = tmp_path / "run.toml"
    file.write_text(
        '[model]\npreset = "tiny"\n[records]\nmax_sequence_lengths = [16, 32]\n[batches]\nbatch_size = 4\n'
        "[budget]\nsteps = 1000\n[[phases]]\nshare = 0.9\n[[phases]]\nrecords = 1\nshare = 0.1\n"
    )
    assert main(["plan", str(file)]) == 0
    header, *phases, together = capsys.readouterr().out.strip().split("\n\n")[-1].split("\n")
    assert header.startswith("time on this machine")
    assert [line.split()[2:6] for line in phases] == [["4", "16", "900", "57,600"], ["4", "32", "100", "12,800"]]
    assert together.split()[1:3] == ["1,000", "70,400"]


def test_missing_matplotlib_is_reported_before_any_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(f"plan tiny --pictures {tmp_path / 'out'}".split()) == 2
    assert "pip install 'bert-keras[plots]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_bad_input_prints_one_sentence(capsys):
    assert main("plan nowhere".split()) == 2
    assert "nowhere is neither a folder nor a preset or recipe" in capsys.readouterr().err
    assert main("plan tiny --length 600".split()) == 2
    assert "length is 600; the model accepts at most 512 tokens" in capsys.readouterr().err


def test_head_choices_equal_those_of_the_library():
    assert tuple(HEADS) == plan.HEADS
