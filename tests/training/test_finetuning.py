"""Settings of a fine-tuning, their effects, and the errors for invalid ones."""

import dataclasses
import hashlib
import types

import keras
import numpy as np
import pytest

import bert_keras as bk
from bert_keras.checkpoints.loading import load_tokenizer
from bert_keras.errors import InputError
from bert_keras.heads.classify.task import TextClassification, TextExample
from bert_keras.heads.embed.task import SentenceEmbedding
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.training import FineTuning, run_finetuning
from bert_keras.training.backups import NO_BACKUP, TrainingState
from bert_keras.training.callbacks import TrainingLog
from bert_keras.training.fitting import TrainingProgress
from tests.marks import slow
from tests.training.finetune_tiny import SETTINGS, TASKS, digest

OUT_OF_RANGE = {
    "num_epochs": ([1.5, "3", True], "a valid integer"),
    "batch_size": ([0, -8], "greater than or equal to 1"),
    "learning_rate": ([0, -1e-5], "greater than 0"),
    "warmup_ratio": ([1, 1.5], "less than 1"),
    "weight_decay": ([float("inf"), float("nan")], "a finite number"),
    "layer_decay": ([0, -0.5], "greater than 0"),
    "head_rate_factor": ([0, -1.0], "greater than 0"),
    "frozen_blocks": ([-1], "greater than or equal to 0"),
    "lora_rank": ([0], "greater than or equal to 1"),
    "lora_alpha": ([0], "greater than or equal to 1"),
    "patience": ([0.5, None], "a valid integer"),
    "keep_best": ([1, "yes"], "a valid boolean"),
    "seed": ([2**31], "less than or equal to 2147483647"),
    "accumulation_steps": ([0], "greater than or equal to 1"),
    "gradient_checkpointing": ([1, None], "a valid boolean"),
    "dtype_policy": (["float16", None], "'float32', 'mixed_bfloat16' or 'mixed_float16'"),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_an_invalid_setting_is_reported_with_its_value_and_what_is_valid(name):
    values, expected = OUT_OF_RANGE[name]
    for value in values:
        with pytest.raises(InputError) as raised:
            FineTuning(**{name: value})
        assert str(raised.value) == f"invalid FineTuning: {name} is {value!r}: input should be {expected}"


def test_all_invalid_settings_are_reported_at_once():
    assert OUT_OF_RANGE.keys() == {field.name for field in dataclasses.fields(FineTuning)}
    with pytest.raises(InputError, match=r"num_epochs is 0: .*; learning_rate is -1: .*; layer_decay is 2: input"):
        FineTuning(num_epochs=0, learning_rate=-1, layer_decay=2)


def test_the_bounds_of_each_range_are_valid():
    lowest = {"num_epochs": 1, "batch_size": 1, "warmup_ratio": 0, "weight_decay": 0, "frozen_blocks": 0, "patience": 0}
    assert FineTuning(**lowest, layer_decay=1, accumulation_steps=1, seed=2**31 - 1).frozen_blocks == 0


class PlannedError(Exception):
    """Ends a fine-tuning before `fit`, and contains its model, phases and settings."""

    def __init__(self, model, phases, settings):
        super().__init__()
        self.model, [self.phase], self.settings = model, phases, settings


@pytest.fixture
def planned(tiny_encoder, monkeypatch):
    """Function that returns the plan of a fine-tuning, keyed by name, without training."""

    def end(model, phases, *, scorer, **settings):
        raise PlannedError(model, phases, {**settings, "scorer": scorer})

    monkeypatch.setattr("bert_keras.training.finetuning.fit_phases", end)
    tokenizers = {}

    def load_once(checkpoint):
        """A tokenizer that is used again is not traced again."""
        if checkpoint.source not in tokenizers:
            tokenizers[checkpoint.source] = load_tokenizer(checkpoint)
        return tokenizers[checkpoint.source]

    monkeypatch.setattr("bert_keras.training.finetuning.load_tokenizer", load_once)

    def plan(settings: FineTuning, checkpoint=tiny_encoder, task=None, train=None) -> PlannedError:
        classification, examples = TASKS["classify"]()
        with pytest.raises(PlannedError) as raised:
            run_finetuning(task or classification, checkpoint, train or examples, examples[:2], settings)
        return raised.value

    return plan


def collect_facts(plan: PlannedError) -> dict[str, object]:
    """Return everything that a training depends on."""
    model, optimizer = plan.model, plan.model.optimizer.get_config()
    schedule = optimizer["learning_rate"]["config"]
    weights = {id(weight) for weight in model.weights}
    features = [batch[0]["token_ids"].numpy() for batch in plan.phase.train(0).take(3)]
    return {
        "num_steps": plan.phase.num_steps,
        "steps per epoch": plan.phase.evaluate_every,
        "batches": hashlib.sha256(b"".join(ids.tobytes() for ids in features)).hexdigest(),
        "batch sizes": [len(ids) for ids in features],
        "weights": digest(model),
        "dropout": [np.array(seed).tolist() for seed in model.variables if id(seed) not in weights],
        "trained": [weight.path.partition("/")[2] for weight in model.trainable_variables],
        "scale": getattr(model.encoder.blocks[0].intermediate, "lora_alpha", None),
        "rate": schedule["peak_learning_rate"],
        "warm-up": schedule["num_warmup_steps"],
        "end of the rate": schedule["num_steps"],
        "decay": optimizer["weight_decay"],
        "factors": optimizer["rate_factors"],
        "parts": model.accumulation_steps,
        "checkpointing": model.encoder.gradient_checkpointing,
        "compute": model.encoder.blocks[0].compute_dtype,
        "patience": plan.settings["scorer"]._patience,
    }


# field, another value, the facts that it changes and no others
EFFECTS = {
    "num_epochs": (7, {"num_steps", "warm-up", "end of the rate"}),
    "batch_size": (4, {"num_steps", "steps per epoch", "warm-up", "end of the rate", "batches", "batch sizes"}),
    "learning_rate": (0.5, {"rate"}),
    "warmup_ratio": (0.5, {"warm-up"}),
    "weight_decay": (0.5, {"decay"}),
    "layer_decay": (0.5, {"factors"}),
    "head_rate_factor": (3.0, {"factors"}),
    "frozen_blocks": (1, {"trained", "factors"}),
    "lora_rank": (2, {"trained", "weights", "factors", "scale"}),
    "patience": (4, {"patience"}),
    "keep_best": (False, set()),  # see below
    "seed": (5, {"batches", "weights", "dropout"}),
    "accumulation_steps": (2, {"parts"}),
    "gradient_checkpointing": (True, {"checkpointing"}),
    "dtype_policy": ("mixed_bfloat16", {"compute"}),
}


# settings whose effects have nothing in common, so that changing them together shows each effect
TOGETHER = (
    set(EFFECTS) - {"batch_size", "frozen_blocks", "warmup_ratio", "head_rate_factor", "lora_rank"},
    {"batch_size", "frozen_blocks"},
    {"warmup_ratio", "head_rate_factor"},
)


def test_settings_that_are_changed_together_have_their_effects_and_no_other(planned):
    assert EFFECTS.keys() == set.union(*TOGETHER, {"lora_rank"})
    before = collect_facts(planned(SETTINGS))
    for names in TOGETHER:
        effects = [fact for name in names for fact in EFFECTS[name][1]]
        assert len(effects) == len(set(effects))
        after = collect_facts(planned(dataclasses.replace(SETTINGS, **{name: EFFECTS[name][0] for name in names})))
        assert {fact for fact in before if after[fact] != before[fact]} == set(effects), names


@pytest.mark.slow
def test_every_setting_has_its_effect_and_no_other(planned):
    assert EFFECTS.keys() == {field.name for field in dataclasses.fields(FineTuning)} - {"lora_alpha"}
    before = collect_facts(planned(SETTINGS))
    assert collect_facts(planned(SETTINGS)) == before
    for name, (value, expected) in EFFECTS.items():
        after = collect_facts(planned(dataclasses.replace(SETTINGS, **{name: value})))
        assert {fact for fact in before if after[fact] != before[fact]} == expected, name


def test_the_defaults_train_all_weights_at_one_learning_rate(planned):
    plan = planned(None)
    facts = collect_facts(plan)
    assert (facts["factors"], facts["rate"], facts["decay"], facts["parts"]) == (None, 3e-5, 0.01, 1)
    assert (facts["num_steps"], facts["end of the rate"], facts["batch sizes"]) == (6, 6, [32, 32, 32])
    assert len(facts["trained"]) == len(plan.model.weights)
    assert plan.model.encoder.unpad_in_training
    assert plan.model.jit_compile is False


def test_sequences_are_limited_by_the_model_not_by_the_tokenizer(planned, tiny_encoder, story_tokenizer, tmp_path):
    bk.save(bk.load(tiny_encoder), BertTokenizer(story_tokenizer.vocabulary, max_sequence_length=7), tmp_path / "short")
    long = [TextExample(" ".join(["the cat sat"] * 20), label="cat")] * 8
    for checkpoint in (tiny_encoder, tmp_path / "short"):
        plan = planned(SETTINGS, checkpoint, train=long)
        [(features, *_)] = plan.phase.train(0).take(1)
        assert features["token_ids"].shape == (8, 24)
        assert plan.settings["settings"]["task"]["max_sequence_length"] == 24


def test_a_shorter_task_keeps_its_length(planned):
    plan = planned(SETTINGS, task=TextClassification(labels=("none", "cat", "dog"), max_sequence_length=9))
    widths = {batch[0]["token_ids"].shape[1] for batch in plan.phase.train(0).take(8)}
    assert max(widths) == 9


@pytest.mark.parametrize(
    ("length", "overlap", "shared"), [(128, 32, 6), *slow((384, 128, 8), (20, 7, 7), (128, None, None))]
)
def test_the_window_overlap_shrinks_with_the_sequence_length(length, overlap, shared, planned):
    lengths = {"max_sequence_length": length, "window_overlap": overlap}
    task = TextClassification(labels=("none", "cat", "dog"), **lengths)
    assert planned(SETTINGS, task=task).settings["settings"]["task"]["window_overlap"] == shared


def fit_that_sets(biases: list[list[float]], end: list[float] | None = None):
    """Return a fake `fit_phases` that sets the head's bias in each epoch and at the end, without training."""

    def fit(model, phases, *, scorer, **_):
        scorer.set_model(model)
        model.classifier.kernel.assign(keras.ops.zeros_like(model.classifier.kernel))
        for number, bias in enumerate(biases):
            model.classifier.bias.assign(bias)
            scorer.on_epoch_end(number)
        if end is not None:
            model.classifier.bias.assign(end)
        return TrainingLog(None)

    return fit


@pytest.mark.parametrize("biases", [[], *slow([[1.0, 0.0, 0.0]]), [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]])
def test_the_best_epoch_is_restored_after_more_training(biases, tiny_encoder, monkeypatch):
    # as a training that resumes with fewer epochs than it has started
    end = [0.0, 0.0, 1.0]
    monkeypatch.setattr("bert_keras.training.finetuning.fit_phases", fit_that_sets(biases, end))
    task, examples = TASKS["classify"]()
    done = run_finetuning(task, tiny_encoder, examples, examples[::5], SETTINGS)
    assert done.model.classifier.bias.numpy().tolist() == (biases[-1] if biases else end)
    assert done.scores == done.epochs[done.best]
    assert len(done.epochs) == max(1, len(biases))


@pytest.mark.parametrize(("keep_best", "best", "label"), [(True, 1, "none"), *slow((False, 2, "dog"))])
def test_keep_best_selects_the_best_or_the_last_epoch(keep_best, best, label, tiny_encoder, monkeypatch):
    biases = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    monkeypatch.setattr("bert_keras.training.finetuning.fit_phases", fit_that_sets(biases))
    task, examples = TASKS["classify"]()
    done = run_finetuning(
        task, tiny_encoder, examples, examples[::5], dataclasses.replace(SETTINGS, keep_best=keep_best)
    )
    assert (done.best, [epoch["accuracy"] for epoch in done.epochs]) == (best, pytest.approx([1 / 12, 8 / 12, 3 / 12]))
    assert done.scores == done.epochs[best]
    assert {answer["label"] for answer in done.answers} == {label}
    assert done.model.classifier.bias.numpy().tolist() == biases[best]


def test_the_returned_task_has_the_calibrated_threshold(tiny_encoder, monkeypatch):
    def fit(model, phases, *, scorer, **_):
        scorer.set_model(model)
        model.span.kernel.assign(keras.ops.zeros_like(model.span.kernel))  # every span scores the same, and [CLS] too
        scorer.on_epoch_end(0)
        return TrainingLog(None)

    monkeypatch.setattr("bert_keras.training.finetuning.fit_phases", fit)
    task, examples = TASKS["answer"]()
    done = run_finetuning(task, tiny_encoder, examples, examples[::5], SETTINGS)
    assert done.task == dataclasses.replace(task, null_threshold=done.task.null_threshold)
    assert done.task.null_threshold != task.null_threshold
    assert {answer["answer"] for answer in done.answers} == {""}  # most of them have no answer
    assert done.scores == done.epochs[0]


def test_invalid_fine_tunings_are_rejected(tiny_encoder, tmp_path):
    task, examples = TASKS["classify"]()
    with pytest.raises(InputError, match="train is empty; expected one or more examples: check how it is read"):
        run_finetuning(task, tiny_encoder, [], examples)
    with pytest.raises(InputError, match="dev is empty; expected one or more"):
        run_finetuning(task, tiny_encoder, examples, [])
    bk.save(bk.load(tiny_encoder), None, tmp_path / "bare")
    with pytest.raises(
        InputError, match=r"bare has no vocabulary, neither tokenizer\.json nor vocab\.txt.*: copy its vocab"
    ):
        run_finetuning(task, tmp_path / "bare", examples, examples)
    with pytest.raises(InputError, match="2 blocks cannot be frozen, because the model has 1"):
        run_finetuning(task, tiny_encoder, examples, examples, FineTuning(frozen_blocks=2))


REPLICAS = types.SimpleNamespace(num_replicas_in_sync=3)  # the only attribute that is read before the error
CONTRASTED = SentenceEmbedding(objective="contrastive")


def test_an_indivisible_batch_size_is_rejected_before_anything_is_read():
    task, examples = TASKS["embed"]()
    with pytest.raises(
        InputError, match="batch_size 8 cannot be divided among 3 replicas with 1 micro-batches: make it a multi"
    ):
        run_finetuning(task, "nowhere", examples, examples, SETTINGS, strategy=REPLICAS)
    parts = dataclasses.replace(SETTINGS, batch_size=9, accumulation_steps=2)
    with pytest.raises(
        InputError, match=r"batch_size 9 cannot .* among 1 replicas with 2 micro-batches: make it a multiple of 2"
    ):
        run_finetuning(task, "nowhere", examples, examples, parts)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"settings": FineTuning(batch_size=9), "strategy": REPLICAS}, "3 replicas with 1 micro-batches"),
        ({"settings": FineTuning(accumulation_steps=2)}, "1 replicas with 2 micro-batches"),
    ],
)
def test_a_contrastive_batch_is_not_divided(options, shown):
    _, examples = TASKS["embed"]()
    with pytest.raises(
        InputError,
        match=f"compares all examples of a batch, which {shown} would .*; expected one replica and one micro-batch",
    ):
        run_finetuning(CONTRASTED, "nowhere", examples, examples, **options)


@pytest.mark.parametrize(("batch_size", "num_examples", "num_compared"), [(1, 9, 1), (8, 1, 1)])
def test_a_contrastive_batch_needs_two_examples(batch_size, num_examples, num_compared):
    examples = TASKS["embed"]()[1][:num_examples]
    with pytest.raises(
        InputError, match=rf"compares the examples of a batch, and a batch has {num_compared}; expected"
    ):
        run_finetuning(CONTRASTED, "nowhere", examples, examples, FineTuning(batch_size=batch_size))


def test_only_contrastive_tasks_end_an_epoch_with_a_smaller_batch(planned):
    regression, examples = TASKS["embed"]()
    for task, sizes, num_parts in ((regression, [16, 16, 16], 3), (CONTRASTED, [16, 16, 10], 2)):
        plan = planned(SETTINGS, task=task, train=examples[:21])
        batches = list(plan.phase.train(0).take(3))
        assert sorted(len(batch[0]["token_ids"]) for batch in batches) == sorted(sizes)
        # features, labels and, for batches that are filled up, weights
        assert {len(batch) for batch in batches} == {num_parts}
        assert plan.phase.evaluate_every == 3


@pytest.mark.slow
def test_contrastive_training_accepts_batches_of_two_sizes(tiny_encoder):
    _, examples = TASKS["embed"]()
    log = []
    run_finetuning(
        CONTRASTED,
        tiny_encoder,
        examples[:13],
        examples[::5],
        dataclasses.replace(SETTINGS, batch_size=4, num_epochs=4, patience=0),
        listeners=[log.append],
    )
    losses = [line["loss"] for line in log if "loss" in line]
    assert [line["step"] for line in log if "held_out_spearman" in line] == [4, 8, 12, 16]
    assert len(losses) == 16
    assert sum(losses[-4:]) < 0.9 * sum(losses[:4])  # of an epoch: a smaller batch has a smaller loss


@pytest.mark.slow  # test_finetuning_strategies.py trains too
def test_texts_are_learned_from_a_few_examples(tiny_encoder):
    task, examples = TASKS["classify"]()
    done = run_finetuning(
        task, tiny_encoder, examples, examples, FineTuning(num_epochs=12, batch_size=8, learning_rate=0.02)
    )
    assert done.scores["accuracy"] > 0.8  # measured: 1.0; 0.65 of them have no pet


def test_a_resumed_training_may_only_change_memory_settings():
    progress = TrainingProgress(
        {"accumulation_steps": 2, "gradient_checkpointing": True, "seed": 1}, {"the words": 1}, TrainingLog(None)
    )
    facts = {
        **progress.state(),
        "settings": {"accumulation_steps": 1, "gradient_checkpointing": False, "seed": 1},
        "phase": 4,
    }
    progress.select_phase(TrainingState(3, {}, facts), NO_BACKUP)
    assert progress.phase == 4
    for name, value in (("settings", {"seed": 2}), ("data", ["0" * 64]), ("data", [])):
        with pytest.raises(InputError, match=r"seed was 2 and is 1|\(the words changed\)|\(it reads other data\)"):
            progress.select_phase(TrainingState(3, {}, {**facts, name: value}), NO_BACKUP)


def test_bk_finetune_accepts_the_old_names_of_settings(tiny_encoder, monkeypatch):
    planned = []

    def plan(task, checkpoint, train, dev, settings, **_):
        planned.append((settings.warmup_ratio, task.labelled_tokens))
        raise InterruptedError

    monkeypatch.setattr("bert_keras.training.finetuning_to_folder.run_finetuning", plan)
    examples = [{"words": ["the", "cat"], "tags": ["O", "B-PET"]}]
    with pytest.raises(InterruptedError):
        bk.finetune(tiny_encoder, task="tag", train=examples, dev=examples, warmup_rate=0.25, labelled_pieces="all")
    assert planned == [(0.25, "all")]
