"""Every objective trains, in phases too, and the records and the settings choose the model."""

import math

import keras
import numpy as np
import pytest

import bert_keras as bk
from bert_keras.errors import InputError
from bert_keras.training.config.recipes import Pretraining
from bert_keras.training.config.sources import infer_settings
from bert_keras.training.pretraining import build_model, run_pretraining


def test_electra_trains_on_packed_records(make_records_folder, tiny_run, untraced):
    folder, manifest = make_records_folder(sentence_objective="nsp", packed=True)
    run = tiny_run(manifest, model__objective="electra", budget__steps=2)
    assert_trained(run_pretraining(run, [folder]), "electra", bk.ElectraPretrainer)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "sentence_objective", "packed", "model"),
    [
        ("electra", "nsp", True, bk.ElectraPretrainer),
        ("bert", "nsp", True, bk.BertPretrainer),
        ("bert", "sop", False, bk.BertPretrainer),
        ("mlm", "none", False, bk.BertMaskedLM),
        ("mlm", "nsp", True, bk.BertMaskedLM),
        ("electra", "none", False, bk.ElectraPretrainer),
    ],
)
def test_every_objective_trains(objective, sentence_objective, packed, model, make_records_folder, tiny_run):
    folder, manifest = make_records_folder(sentence_objective=sentence_objective, packed=packed)
    assert_trained(run_pretraining(tiny_run(manifest, model__objective=objective), [folder]), objective, model)


def assert_trained(trained, objective, model) -> None:
    """Assert that the model is of this class and has its metrics."""
    assert type(trained.model) is model
    assert all(math.isfinite(value) for value in trained.metrics.values())
    assert ("next_sentence_accuracy" in trained.metrics) == (objective == "bert")
    assert {"mlm_accuracy", "held_out_mlm_accuracy"} <= trained.metrics.keys()


@pytest.fixture(scope="module")
def short_and_long(make_records_folder, tiny_run):
    """Records of two lengths, and a run with a phase on each."""
    short, long = make_records_folder(), make_records_folder(max_sequence_length=40)
    run = tiny_run(
        short[1],
        long[1],
        budget__steps=10,
        phases=[{"records": 0, "share": 0.7}, {"records": 1, "share": 0.3, "batch_size": 4, "rewarm": True}],
    )
    return short, long, run


def test_each_phase_has_its_own_records(short_and_long, monkeypatch):
    short, long, run = short_and_long
    planned = []

    def plan(model, phases, **_):
        planned.append((model.encoder.config.max_sequence_length, phases))
        raise InterruptedError

    monkeypatch.setattr("bert_keras.training.pretraining.fit_phases", plan)
    with pytest.raises(InterruptedError):
        run_pretraining(run, [short[0], long[0]])
    [(length, phases)] = planned
    assert length == 40
    assert [phase.num_steps for phase in phases] == [7, 3]
    for phase, batch_size, (_, manifest) in zip(phases, (8, 4), (short, long), strict=True):
        features, _ = phase.train(0).element_spec
        assert features["token_ids"].shape == (batch_size, manifest["max_sequence_length"])
        counts = manifest["splits"]["train"]
        assert phase.tokens_per_step == batch_size * counts["num_tokens"] / counts["num_records"]


@pytest.mark.slow
def test_each_phase_trains_on_its_own_records(short_and_long):
    short, long, run = short_and_long
    lengths = []

    class Lengths(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            lengths.append(logs["tokens"])

    trained = run_pretraining(run, [short[0], long[0]], callbacks=[Lengths()])
    assert trained.model.encoder.config.max_sequence_length == 40
    assert int(trained.model.optimizer.iterations) == 10 == len(lengths)
    a_batch = [8 * short[1]["num_tokens"] / short[1]["num_records"], 4 * long[1]["num_tokens"] / long[1]["num_records"]]
    np.testing.assert_allclose(np.diff(lengths), [a_batch[0]] * 6 + [a_batch[1]] * 3, rtol=0.1)


@pytest.mark.parametrize(("sentences", "objective"), [("nsp", "bert"), ("sop", "bert"), ("none", "mlm")])
def test_the_records_choose_the_model_by_default(sentences, objective, records):
    _, manifest = records
    defaults = infer_settings([{**manifest, "sentence_objective": sentences}])
    assert Pretraining.resolve(defaults=defaults).model.objective == objective
    assert Pretraining.resolve(overrides={"model.objective": "electra"}, defaults=defaults).model.objective == "electra"


def test_records_with_other_settings_are_rejected(records, make_records_folder, tiny_run):
    folder, manifest = records
    with pytest.raises(InputError, match=r"1 records folders were given, and the run has records of 2 lengths"):
        run_pretraining(tiny_run(manifest, records__max_sequence_lengths=[24, 48]), [folder])
    with pytest.raises(InputError, match=r"made with different settings \(packed is False there and True in the run\)"):
        run_pretraining(tiny_run(manifest, records__packed=True), [folder])
    packed = make_records_folder(packed=True)
    with pytest.raises(InputError, match="the records folders were made with different packed"):
        infer_settings([manifest, packed[1]])


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_keeps_its_weights_in_float32(policy, records, tiny_run, story_tokenizer):
    model = build_model(tiny_run(records[1], model__dtype_policy=policy), story_tokenizer.vocabulary_size)
    assert model.encoder.blocks[0].intermediate.compute_dtype == policy.removeprefix("mixed_")
    assert model.encoder.blocks[0].intermediate.kernel.dtype == "float32"
    assert keras.config.dtype_policy().name == "float32"


@pytest.mark.slow  # optimizers/test_adamw_and_lamb.py scales the loss of a quick training
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_trains(policy, records, tiny_run):
    folder, manifest = records
    trained = run_pretraining(tiny_run(manifest, model__dtype_policy=policy), [folder])
    assert math.isfinite(trained.metrics["loss"])


@pytest.mark.slow  # optimizers/test_adamw_and_lamb.py makes LAMB by its name too
def test_lamb_trains_with_its_own_schedule(records, tiny_run):
    folder, manifest = records
    trained = run_pretraining(tiny_run(manifest, optimizer__name="lamb", optimizer__schedule="cosine"), [folder])
    assert type(trained.model.optimizer).__name__ == "Lamb"
    assert math.isfinite(trained.metrics["loss"])
