"""Pretraining: seeds, micro-batches, evaluation, the log, and continuing from a checkpoint."""

import dataclasses
import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_keras as bk
from bert_keras.errors import InputError
from bert_keras.pipelines.batches.pretraining_batches import make_pretraining_batches
from bert_keras.training.callbacks import TrainingLog
from bert_keras.training.config.recipes import Pretraining
from bert_keras.training.config.sources import infer_settings
from bert_keras.training.pretraining import build_model, run_pretraining
from bert_keras.training.tracking.tracked_training import TensorBoardLog
from tests.marks import slow_except

ENOUGH = {"budget__steps": 300, "batches__batch_size": 16, "model__intermediate_dim": 64}  # to learn
EVALUATED = [0, 120, 240, 300]  # the steps at which `trained` was evaluated


def read_lines(trained):
    return [json.loads(line) for line in trained.log.splitlines()]


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """The folder with TensorBoard's events of `trained`."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def batch_options():
    """The split, the masking and the epochs of all batches of `trained`."""
    return []


@pytest.fixture(scope="module")
def trained(records, tiny_run, events, batch_options):
    """The result of a run that is long enough to learn, with evaluations and several steps per execution."""
    folder, manifest = records

    def note(*arguments, **settings):
        batch_options.append((settings["split"], settings["masking"], settings["epochs"]))
        return make_pretraining_batches(*arguments, **settings)

    run = tiny_run(manifest, **ENOUGH, evaluation__every_steps=120, speed__steps_per_execution=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bert_keras.training.pretraining.make_pretraining_batches", note)
        log = TensorBoardLog(events)
        return run_pretraining(run, [folder], callbacks=[log], listeners=[log])


def test_a_run_learns_and_is_scored_on_held_out_records(trained):
    assert_learned(trained)


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, "auto"])
def test_a_run_learns_with_one_step_per_execution(jit_compile, records, tiny_run):
    folder, manifest = records
    assert_learned(run_pretraining(tiny_run(manifest, **ENOUGH, speed__jit_compile=jit_compile), [folder]))


def assert_learned(trained) -> None:
    """Assert that the loss fell and that held-out records were scored."""
    assert isinstance(trained.model, bk.BertPretrainer)
    first, *_, last = [line for line in read_lines(trained) if "loss" in line]
    assert last["step"] == 300
    assert last["loss"] < 0.8 * first["loss"]
    assert trained.metrics["held_out_mlm_accuracy"] > 0.2, trained.metrics
    assert trained.metrics["loss"] == last["loss"]


@pytest.fixture
def plan(records, tiny_run, monkeypatch):
    """Function that returns the model and the first batch of a run, without training."""
    folder, manifest = records
    planned = []

    def fit(model, phases, **_):
        [phase] = phases
        [batch] = phase.train(0).take(1).as_numpy_iterator()
        planned.append((model, batch))
        return TrainingLog(None)

    monkeypatch.setattr("bert_keras.training.pretraining.fit_phases", fit)

    def make(**settings):
        run_pretraining(tiny_run(manifest, **settings), [folder])
        return planned.pop()

    return make


def test_the_seed_determines_the_first_weights_and_batches(plan):
    """Micro-batches do not; tests/distribution compares trainings with them."""
    weights, batches = [], []
    for seed, num_micro_batches in ((0, 1), (0, 4), (1, 1)):
        model, (x, y) = plan(seed=seed, batches__accumulation_steps=num_micro_batches)
        assert model.accumulation_steps == num_micro_batches
        weights.append(np.concatenate([np.ravel(variable) for variable in model.variables]))
        batches.append(np.concatenate([np.ravel(values) for values in (*x.values(), *y.values())]))
    for first, same, other in (weights, batches):
        np.testing.assert_array_equal(first, same)
        assert (first != other).any()


@pytest.mark.parametrize("objective", ["bert", "electra"])
def test_pretraining_without_dropout_keeps_the_rates_for_fine_tuning(objective, plan):
    model, _ = plan(model__pretraining_dropout=False, model__objective=objective)
    encoders = model.encoders()
    assert len(encoders) == (2 if objective == "electra" else 1)
    for encoder in encoders:
        assert not encoder.applies_dropout(training=True)
        assert encoder.config.hidden_dropout_rate == encoder.config.attention_dropout_rate == 0.1
    assert plan()[0].encoder.applies_dropout(training=True)


@pytest.mark.slow
def test_the_seed_determines_the_weights(records, tiny_run):
    folder, manifest = records
    models = [run_pretraining(tiny_run(manifest, seed=seed), [folder]).model for seed in (0, 0, 1)]
    weights = [np.concatenate([weight.numpy().ravel() for weight in model.weights]) for model in models]
    np.testing.assert_array_equal(weights[0], weights[1])
    assert (weights[0] != weights[2]).any()


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["bert", "electra"])
def test_micro_batches_change_nothing(objective, records, tiny_run):
    folder, manifest = records
    run = {"model__objective": objective}
    whole = run_pretraining(tiny_run(manifest, **run), [folder])
    cut = run_pretraining(tiny_run(manifest, batches__accumulation_steps=4, **run), [folder])
    assert read_lines(cut)[-1]["step"] == 6 == int(cut.model.optimizer.iterations)
    for name, value in whole.metrics.items():
        assert cut.metrics[name] == pytest.approx(value, rel=1e-5), name


def test_evaluations_follow_their_schedule_and_use_held_out_records(trained, batch_options):
    assert set(batch_options) == {("held_out", "static", None), ("train", "dynamic", None)}
    assert [line["step"] for line in read_lines(trained) if "held_out_loss" in line] == EVALUATED
    assert int(trained.model.optimizer.iterations) == 300


def test_the_records_are_identified_by_their_manifest_as_stored(records, tiny_run, tmp_path, monkeypatch):
    """A backup of release 0.1 has the hash of a manifest whose keys `read_manifest` now translates."""
    folder = shutil.copytree(records[0], tmp_path / "records")
    old = {
        "num_records": "num_rows",
        "max_examples_per_sequence": "max_examples_a_row",
        '"format_version": 3': '"format_version": 2',
    }
    text = (folder / "manifest.json").read_text()
    for today, before in old.items():
        assert today in text
        text = text.replace(today, before)
    (folder / "manifest.json").write_text(text)
    planned = []

    def plan(*_, data, **__):
        planned.append(data)
        raise InterruptedError

    monkeypatch.setattr("bert_keras.training.pretraining.fit_phases", plan)
    with pytest.raises(InterruptedError):
        run_pretraining(tiny_run(records[1]), [folder])
    assert planned == [{"records folder 1": json.loads(text)}]


@pytest.mark.parametrize("objective", slow_except(["bert", "electra"], quick=["electra"]))
def test_the_output_bias_starts_at_the_token_frequencies(objective, records, tiny_run, untraced):
    folder, manifest = records
    run = tiny_run(manifest, budget__steps=1, model__output_bias="token_frequency", model__objective=objective)
    run = dataclasses.replace(run, optimizer=dataclasses.replace(run.optimizer, learning_rate=1e-12))
    model = run_pretraining(run, [folder]).model
    counts = np.full(manifest["vocabulary_size"], 0.5)
    paths = sorted(map(str, folder.glob("train-*")))
    assert paths
    for serialized in tf.data.TFRecordDataset(paths):
        example = tf.train.Example.FromString(serialized.numpy())
        np.add.at(counts, list(example.features.feature["token_ids"].int64_list.value), 1)
    special = list(bk.BertTokenizer.from_checkpoint(folder).special_ids)
    counts[special] = 0.5
    bias = getattr(model, "generator", model).mlm_head.bias
    np.testing.assert_allclose(np.exp(bias), counts / counts.sum(), rtol=1e-5)


def test_the_first_log_line_scores_the_untrained_model(trained, records, tiny_run, story_tokenizer):
    folder, manifest = records
    run = tiny_run(manifest, **ENOUGH)
    first, *others = [line for line in read_lines(trained) if "held_out_loss" in line]
    assert first["step"] == 0
    assert [line["step"] for line in others] == EVALUATED[1:]
    keras.utils.set_random_seed(run.seed)
    untrained = build_model(run, story_tokenizer.vocabulary_size)
    untrained.compile("sgd", run_eagerly=True)
    options = {"split": "held_out", "masking": "static", "shuffle": False}
    batches = make_pretraining_batches(folder, story_tokenizer, batch_size=16, **options)
    num_batches = manifest["splits"]["held_out"]["num_records"] // 16
    scores = untrained.evaluate(batches.take(num_batches), return_dict=True, verbose=0)
    assert first["held_out_mlm_loss"] == pytest.approx(scores["mlm_logits_loss"], rel=1e-5)
    assert first["held_out_mlm_accuracy"] == pytest.approx(scores["mlm_logits_accuracy"], rel=1e-5)


@pytest.mark.slow  # the test above has several steps an execution too
def test_all_steps_per_execution_are_counted(records, tiny_run):
    folder, manifest = records
    trained = run_pretraining(tiny_run(manifest, speed__steps_per_execution=3, budget__steps=9), [folder])
    assert read_lines(trained)[-1]["step"] == 9 == int(trained.model.optimizer.iterations)


def test_pretraining_continues_from_a_checkpoint(trained, records, tiny_run, story_tokenizer, tmp_path):
    _, manifest = records
    first = trained
    bk.save(first.model, story_tokenizer, tmp_path / "first")
    run = tiny_run(manifest, **ENOUGH, model__start_from=str(tmp_path / "first"))
    model = build_model(run, story_tokenizer.vocabulary_size)
    for ours, theirs in zip(model.weights, first.model.weights, strict=True):
        if "seed" not in ours.path:
            np.testing.assert_array_equal(ours, theirs)
    other = tiny_run(manifest, **ENOUGH, model__start_from=str(tmp_path / "first"), model__objective="electra")
    with pytest.raises(InputError, match="contains a BertPretrainer; expected an ElectraPretrainer"):
        build_model(other, story_tokenizer.vocabulary_size)
    with pytest.raises(InputError, match=r"make records with its vocabulary"):
        build_model(run, 99)


def test_electra_continues_with_its_generator_or_a_new_one(story_tokenizer, tiny_run, records, perturb, tmp_path):
    _, manifest = records
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "max_sequence_length": 24}
    config = bk.BertConfig(vocabulary_size=story_tokenizer.vocabulary_size, model_type="electra", **sizes)
    narrow = dataclasses.replace(config, num_heads=1, hidden_dim=8, embedding_dim=16)
    for name, generator in {"whole": narrow, "alone": None}.items():
        model = bk.ElectraPretrainer(bk.BertEncoder(config, pooler=False), generator_config=generator)
        perturb(model)
        bk.save(model, story_tokenizer, tmp_path / name)
        run = Pretraining.resolve(
            overrides={"model.start_from": str(tmp_path / name), "model.objective": "electra"},
            defaults=infer_settings([manifest]),
        )
        begun = build_model(run, story_tokenizer.vocabulary_size)
        np.testing.assert_array_equal(begun.head_dense.kernel, model.head_dense.kernel)
        if generator is not None:
            np.testing.assert_array_equal(begun.generator.mlm_head.bias, model.generator.mlm_head.bias)
            assert begun.generator_config == generator
        else:
            assert begun.generator_config.hidden_dim == 0.25 * config.hidden_dim
            assert begun.generator.encoder.embeddings is begun.encoder.embeddings


def test_tensorboard_can_read_the_events(trained, events):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train, validation = (EventAccumulator(str(events / run)).Reload() for run in ("train", "validation"))
    assert {"loss", "mlm_accuracy", "learning_rate", "tokens"} <= set(train.Tags()["scalars"])
    *_, loss = train.Scalars("loss")
    assert (loss.step, loss.value) == (300, pytest.approx(trained.metrics["loss"]))
    assert [one.step for one in validation.Scalars("loss")] == EVALUATED, "not on the plot of the training loss"
