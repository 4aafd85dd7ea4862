"""Fine-tuning with LoRA trains the adapters and the head alone, and returns a model with the adapters merged."""

import dataclasses
import json

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

import bert_keras as bk
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.cli.main import main
from bert_keras.errors import InputError
from bert_keras.training import FineTuning
from bert_keras.training.backups import BackupFolder, BackupOptions
from bert_keras.training.config.finetuning_settings import LORA_HEAD_RATE_FACTOR, LORA_LEARNING_RATE, Distillation
from bert_keras.training.finetuning import AdapterTraining, LabelTraining, compute_rate_factors
from tests.marks import slow, slow_except
from tests.training.finetune_tiny import LORA, TASKS, TEXTS, Losses, describe, digest, make_report, tuned
from tests.training.processes import finish, start

RANK = LORA.lora_rank
TOLERANCE = 2e-6  # of losses and scores, as for other fine-tunings on several devices
HEADS = {"classify": "classifier", "tag": "classifier", "answer": "span", "embed": None}


@pytest.fixture(scope="module")
def backups(tmp_path_factory):
    """The folder with the backups of `classified`."""
    return tmp_path_factory.mktemp("kept") / "backups"


@pytest.fixture(scope="module")
def classified(tiny_encoder, backups):
    """A classification with LoRA: the model, and its report."""
    losses = Losses()
    backup = BackupOptions(BackupFolder(backups, num_kept=99), every_steps=6)
    done = tuned("classify", tiny_encoder, LORA, backup=backup, callbacks=[losses])
    return done, describe(done, losses)


@pytest.mark.parametrize("name", slow_except(TASKS, quick=["classify"]))
def test_only_kernels_change_and_only_by_matrices_of_the_rank(name, tiny_encoder, classified):
    done = classified[0] if name == "classify" else tuned(name, tiny_encoder, LORA)
    before = {weight.path.partition("/")[2]: weight.numpy() for weight in bk.load(tiny_encoder).weights}
    after = {weight.path.partition("/")[2]: weight.numpy() for weight in done.model.encoder.weights}
    changed = {path for path in after if path in before and not np.array_equal(before[path], after[path])}
    adapted = ("block_0/", "pooler/") if name == "classify" else ("block_0/",)
    assert changed == {path for path in before if path.startswith(adapted) and path.endswith("/kernel")}
    for path in changed:
        assert np.linalg.matrix_rank(after[path] - before[path], tol=1e-4) == RANK
    num_frozen = 2 if name == "embed" else 0  # the pooler, which an embedder never trains
    assert len(done.model.trainable_weights) == len(done.model.weights) - num_frozen
    assert all("lora" not in weight.path for weight in done.model.weights)
    assert done.adapter.rank == RANK
    assert {path.split(".")[0] for path in done.adapter.trained if "pooler" not in path} <= {HEADS[name]}


def test_the_scores_are_those_of_the_merged_model(classified):
    done, _ = classified
    for name, score in done.epochs[done.best].items():
        assert done.scores[name] == pytest.approx(score, abs=1e-5)


def test_lora_learns(classified):
    _, report = classified
    assert report["losses"][-1] < 0.9 * report["losses"][0]


def test_a_resumed_training_ends_with_the_same_bits(classified, backups, tiny_encoder):
    _, report = classified
    kept = BackupFolder(backups)
    assert kept.steps() == [6, 12]
    again = make_report("classify", tiny_encoder, LORA, backup=BackupOptions(kept, resume=True))
    assert again["losses"] == report["losses"][-len(again["losses"]) :]
    assert len(again["losses"]) < len(report["losses"])
    for name in ("weights", "scores", "epochs", "best"):
        assert again[name] == report[name], name


@pytest.mark.usefixtures("classified")
def test_another_rank_does_not_resume_a_backup(backups, tiny_encoder):
    backup = BackupOptions(BackupFolder(backups), resume=True)
    with pytest.raises(InputError, match="lora_rank was 2 and is 3"):
        make_report("classify", tiny_encoder, dataclasses.replace(LORA, lora_rank=3), backup=backup)


SPARING = {"accumulation_steps": 2}, {"gradient_checkpointing": True}


@pytest.mark.parametrize("changes", slow(*SPARING))
def test_options_that_save_memory_change_nothing(changes, classified, tiny_encoder):
    report = make_report("classify", tiny_encoder, dataclasses.replace(LORA, **changes))
    assert report["losses"] == pytest.approx(classified[1]["losses"], abs=TOLERANCE)


@pytest.mark.slow
def test_two_devices_train_as_one(classified, tiny_encoder, tmp_path):
    report = finish(start("finetune_tiny.py", tiny_encoder, tmp_path / "out", "lora:2"), tmp_path / "out")["lora"]
    assert report["losses"] == pytest.approx(classified[1]["losses"], abs=TOLERANCE)
    assert report["scores"] == pytest.approx(classified[1]["scores"], abs=1e-5)


@pytest.mark.slow
def test_adapters_trained_in_16_bits_are_merged_in_32(tiny_encoder):
    done = tuned("classify", tiny_encoder, dataclasses.replace(LORA, dtype_policy="mixed_bfloat16"))
    name = "encoder.blocks.0.attention.query.kernel"
    before = bk.load(tiny_encoder).blocks[0].attention.query.kernel.numpy()
    kernel = done.model.encoder.blocks[0].attention.query.kernel
    assert kernel.dtype == "float32"
    np.testing.assert_array_equal(kernel.numpy(), before + done.adapter.compute_change(name))


def make_lora_model(encoder, **changes):
    """Return the model of a fine-tuning before its first step."""
    task, _ = TASKS["classify"]()
    return AdapterTraining().build_model(task, read_checkpoint(encoder), dataclasses.replace(LORA, **changes))


def test_layer_decay_applies_to_the_adapters(make_encoder):
    model = make_lora_model(make_encoder(num_layers=2))
    factors = compute_rate_factors(model, 0.5, head_rate_factor=3.0)
    by_path = {variable.path: factor for variable, factor in zip(model.trainable_variables, factors, strict=True)}
    lora = {path: factor for path, factor in by_path.items() if "lora_kernel" in path}
    assert {factor for path, factor in lora.items() if "block_1/" in path} == {0.25}
    assert {factor for path, factor in lora.items() if "block_0/" in path} == {0.125}
    assert {factor for path, factor in by_path.items() if path.startswith("classifier/")} == {3}
    assert {factor for path, factor in by_path.items() if "pooler/" in path} == {1}


def test_frozen_blocks_have_no_adapters(make_encoder):
    model = make_lora_model(make_encoder(num_layers=2), frozen_blocks=1)
    paths = [variable.path for variable in model.trainable_variables]
    assert any("block_1/" in path for path in paths)
    assert not any("block_0/" in path for path in paths)


def test_the_merged_model_has_the_frozen_blocks_of_a_run_without_adapters(make_encoder):
    checkpoint, settings = read_checkpoint(make_encoder(num_layers=2)), dataclasses.replace(LORA, frozen_blocks=1)
    task, _ = TASKS["classify"]()
    method = AdapterTraining()
    merged = method.merge(method.build_model(task, checkpoint, settings))
    without = dataclasses.replace(settings, lora_rank=None, lora_alpha=None)
    model = LabelTraining().build_model(task, checkpoint, without)
    assert [one.path for one in merged.trainable_weights] == [one.path for one in model.trainable_weights]
    assert len(merged.trainable_weights) < len(merged.weights)


def test_an_adapter_keeps_its_labels_and_its_kind_of_problem(tiny_encoder, tmp_path, untraced):
    rows = [{"text": text, "labels": [name for name in ("cat", "dog") if name in text]} for text in example_texts()]
    options = {"train": rows, "problem": "multi_label", "lora_rank": 2, "num_epochs": 1}
    tuned = bk.finetune(tiny_encoder, tmp_path / "out", **options)
    merged = bk.load(tiny_encoder, adapter=tmp_path / "out/adapter")
    assert (merged.problem, merged.labels) == ("multi_label", tuned.model.labels) == ("multi_label", ("cat", "dog"))
    assert "- head rate factor: 10\n" in (tmp_path / "out/README.md").read_text()
    listed = json.loads((tmp_path / "out/.bert_keras.json").read_text())["files"]
    assert "adapter/bert_keras.json" in listed
    assert "  bert_keras.json\n" in (tmp_path / "out/adapter/SHA256SUMS").read_text()
    (tmp_path / "out/adapter/bert_keras.json").write_text('{"problem": "regression"}')
    with pytest.raises(InputError, match=r"bert_keras\.json does not match its recorded SHA-256"):
        bk.load(tiny_encoder, adapter=tmp_path / "out/adapter")


def test_ranks_and_frozen_blocks_without_a_use_are_rejected(tiny_encoder):
    with pytest.raises(InputError, match=r"lora_rank is 9 for a model of width 16; expected at most half the width"):
        tuned("tag", tiny_encoder, dataclasses.replace(LORA, lora_rank=9))
    with pytest.raises(InputError, match="lora_rank is set and all 1 blocks are frozen, so no layer is left for an ad"):
        tuned("tag", tiny_encoder, dataclasses.replace(LORA, frozen_blocks=1))


def test_the_learning_rates_and_alpha_follow_the_rank():
    assert (FineTuning().learning_rate, FineTuning().lora_alpha) == (3e-5, None)
    assert (FineTuning(lora_rank=4).learning_rate, FineTuning(lora_rank=4).lora_alpha) == (LORA_LEARNING_RATE, 8)
    assert (FineTuning().head_rate_factor, FineTuning(lora_rank=4).head_rate_factor) == (1, LORA_HEAD_RATE_FACTOR)
    assert FineTuning(lora_rank=4, head_rate_factor=1).head_rate_factor == 1
    assert FineTuning(lora_rank=4, learning_rate=1e-4, lora_alpha=3).learning_rate == 1e-4
    assert FineTuning(lora_rank=4, lora_alpha=3).lora_alpha == 3
    with pytest.raises(InputError, match="lora_alpha is 3 without lora_rank; expected both, or none: add lora_rank"):
        FineTuning(lora_alpha=3)
    with pytest.raises(InputError, match="lora_alpha is 5 without lora_rank; expected both, or none: add lora_rank"):
        Distillation(student="tiny", lora_alpha=5)
    with pytest.raises(InputError, match=r"^lora_rank is 8; expected none, because all weights of a student") as caught:
        Distillation(student="tiny", lora_rank=8)
    assert "lora_alpha" not in str(caught.value)


def test_a_method_without_adapters_takes_no_rank(tiny_encoder):
    with pytest.raises(InputError, match="lora_rank is 2 and method is a LabelTraining, which trains no adapters; exp"):
        tuned("tag", tiny_encoder, LORA, method=LabelTraining())


LABELLED = [{"text": text, "label": "cat" if "cat" in text else "none"} for text in TEXTS]
UNUSABLE = {
    "a rank": ({"lora_rank": 99}, "lora_rank is 99 for a model of width 16; expected at most half the width"),
    "frozen blocks": (
        {"lora_rank": 2, "frozen_blocks": 1, "task": "tag"},
        "lora_rank is set and all 1 blocks are",
    ),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_settings_of_adapters_are_checked_before_the_training(name, tiny_encoder, tmp_path):
    options, message = UNUSABLE[name]
    words = [{"words": ["a", *text.split()], "tags": ["B-PET"] + ["O"] * len(text.split())} for text in TEXTS]
    train = words if options.get("task") == "tag" else LABELLED
    with pytest.raises(InputError, match=message):
        bk.finetune(tiny_encoder, tmp_path / "out", train=train, search=2, **options)
    assert list(tmp_path.iterdir()) == []


def test_the_command_checks_the_rank_before_it_reads_examples(tiny_encoder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("bert_keras.cli.commands.finetune._read", None)
    (tmp_path / "train.jsonl").write_text("")
    options = ["finetune", str(tiny_encoder), str(tmp_path / "out"), "--train", str(tmp_path / "train.jsonl")]
    assert main([*options, "--lora-rank", "99", "--search", "2"]) == 2
    printed = capsys.readouterr().err
    assert "lora_rank is 99 for a model of width 16" in printed
    assert "parameters are trained" not in printed
    assert [path.name for path in tmp_path.iterdir()] == ["train.jsonl"]


@pytest.fixture(scope="module")
def trained(tiny_encoder, tmp_path_factory):
    """The folder that the command wrote, what it printed, and its options."""
    folder = tmp_path_factory.mktemp("command")
    rows = [f'{{"text": "{text}", "label": "{"cat" if "cat" in text else "none"}"}}' for text in example_texts()]
    (folder / "train.jsonl").write_text("\n".join(rows) + "\n")
    options = ["finetune", str(tiny_encoder), str(folder / "out"), "--train", str(folder / "train.jsonl")]
    options += ["--lora-rank", "2", "--epochs", "1", "--json"]
    return folder / "out", options


def example_texts() -> list[str]:
    return [example.text for example in TASKS["classify"]()[1]]


def test_the_command_prints_what_is_trained_and_writes_both_models(trained, tiny_encoder, capsys, untraced):
    out, options = trained
    assert main(options) == 0
    printed = capsys.readouterr()
    shown = [line for line in printed.err.splitlines() if "parameters are trained" in line]
    assert len(shown) == 1
    assert "rank 2, alpha 4; " in shown[0]
    assert json.loads(printed.out)["out"] == str(out)
    listed = json.loads((out / ".bert_keras.json").read_text())["files"]
    assert {"adapter/adapter_config.json", "adapter/adapter_model.safetensors", "adapter/SHA256SUMS"} <= set(listed)
    config = json.loads((out / "adapter/adapter_config.json").read_text())
    assert (config["base_model_name_or_path"], config["r"], config["lora_alpha"]) == (str(tiny_encoder), 2, 4)
    num_trained = sum(value.size for value in load_file(out / "adapter/adapter_model.safetensors").values())
    assert f"{num_trained:,} of {bk.load(out).count_params():,} parameters" in shown[0]
    card = (out / "README.md").read_text()
    assert "- LoRA: rank 2, alpha 4" in card
    assert "- head rate factor: 10\n" in card
    again = bk.load(tiny_encoder, adapter=out / "adapter")
    for ours, theirs in zip(bk.load(out).weights, again.weights, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=0, atol=1e-6)
    assert main([*options, "--overwrite"]) == 0
    (out / "adapter/notes.txt").write_text("mine")
    assert main([*options, "--overwrite"]) == 2
    assert "holds adapter/notes.txt, which finetune did not write" in capsys.readouterr().err


def test_a_search_tries_higher_learning_rates():
    from bert_keras.training.search.searched_finetuning import make_search_space

    low, high = make_search_space(FineTuning(lora_rank=8), hidden_dim=768, num_sequences=900, fixed=[]).rates
    assert low < LORA_LEARNING_RATE < high
    assert low > make_search_space(FineTuning(), hidden_dim=768, num_sequences=900, fixed=[]).rates[1]


def test_digests_differ_between_models(tiny_encoder):
    """So that equal digests above mean equal weights."""
    keras.utils.set_random_seed(1)
    assert digest(make_lora_model(tiny_encoder)) != digest(bk.load(tiny_encoder))
