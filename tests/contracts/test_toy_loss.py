"""A loss of three texts that no shipped file knows. What a new loss costs is the part above `WORDS`."""

import os
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from bert_keras.architectures.losses import ColumnLoss
from bert_keras.errors import InputError
from bert_keras.heads.embed import EmbeddingObjective, register_objective
from tests.contracts.running_plugin import run_command, run_in_new_process

MODULE = "tests.contracts.test_toy_loss"
MARGIN = 0.5


@keras.saving.register_keras_serializable(package="toy")
class TripletError(ColumnLoss):
    """How much nearer the anchor is to the negative text than to the positive one (Schroff et al. 2015), by cosine."""

    num_columns = 3

    def compare(self, labels, *columns):
        anchor, positive, negative = columns
        return ops.relu(MARGIN + ops.sum(anchor * negative, axis=-1) - ops.sum(anchor * positive, axis=-1))


OBJECTIVE = EmbeddingObjective(
    name="triplets", loss=f"{MODULE}:TripletError", text_columns=("anchor", "positive", "negative")
)
if os.environ.get("BERT_KERAS_PLUGINS") == MODULE:
    register_objective(OBJECTIVE)

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "good", "bad", "film", "play"]
TRIPLES = [
    ("good film", "good play a b", "bad film"),
    ("bad play", "bad film", "good play c"),
    ("a good film", "good", "bad"),
    ("film", "a film", "play d e f"),
]
SCORED = [
    ("good film", "good", 1),
    ("good play", "bad", 0),
    ("bad film", "bad play", 0.8),
    ("film", "play", 0.1),
]
PAIRS = ["text1,text2,score", *(",".join(map(str, pair)) for pair in SCORED)]
LEARNING = {"batch_size": 4, "num_epochs": 2, "learning_rate": 1e-3, "max_sequence_length": 12, "verbose": False}


def run_trainings(folder: pathlib.Path) -> dict:
    """Train on one device, with micro-batches and by the command; return vectors of a text, and what was printed."""
    import bert_keras as bk
    from bert_keras.heads.examples.file_options import FileOptions
    from bert_keras.training.training_data import read_training_data

    train, dev, start = folder / "triples.csv", folder / "pairs.csv", folder / "start"
    columns = ("id", "negative", "anchor", "positive")
    rows = [columns, *((str(index), row[2], row[0], row[1]) for index, row in enumerate(TRIPLES * 2))]
    train.write_text("\n".join(map(",".join, rows)) + "\n")
    dev.write_text("\n".join(PAIRS) + "\n")
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=len(WORDS), max_sequence_length=20)
    bk.save(bk.BertEncoder(config, pooler=False), bk.BertTokenizer(vocabulary=WORDS, lowercase=True), start)
    vectors = {"one device": learn(folder, "one"), "micro-batches": learn(folder, "parts", accumulation_steps=2)}
    options = ["--train", train, "--dev", dev, "--task", "embed", "--objective", "triplets", "--epochs", 1]
    errors = {}
    for name, settings in {"pairs": {"train": dev}, "no held-out pairs": {"dev": None}}.items():
        try:
            learn(folder, name, **settings)
        except InputError as error:
            errors[name] = str(error)
    data = read_training_data("embed", TRIPLES, SCORED, FileOptions(), objective="triplets")
    return {
        "vectors": vectors,
        "printed": run_command("finetune", start, folder / "command", *options),
        "errors": errors,
        "in memory": [example.texts for example in data.train],
    }


def run_replicas(folder: pathlib.Path) -> dict:
    """Train on two replicas, with and without micro-batches; return the vectors of a text."""
    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    return {
        "replicas": learn(folder, "replicas", strategy=strategy),
        "both": learn(folder, "both", strategy=strategy, accumulation_steps=2),
    }


def learn(folder: pathlib.Path, name: str, **settings) -> list[float]:
    """Train on the files in a folder, and return the vector of a text."""
    import bert_keras as bk

    settings = {"train": folder / "triples.csv", "dev": folder / "pairs.csv", **LEARNING, **settings}
    bk.finetune(folder / "start", folder / name, task="embed", objective="triplets", **settings)
    return bk.Predictor.from_checkpoint(folder / name)(["good film"])[0]["embedding"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("toy_loss")


@pytest.fixture(scope="module")
def results(folder):
    return run_in_new_process(MODULE, "run_trainings", folder)


def test_micro_batches_do_not_change_the_training(results):
    assert results["vectors"]["micro-batches"] == pytest.approx(results["vectors"]["one device"], abs=1e-5)


@pytest.mark.slow  # two trainings on two replicas
def test_replicas_do_not_change_the_training(results, folder):
    for vector in run_in_new_process(MODULE, "run_replicas", folder).values():
        assert vector == pytest.approx(results["vectors"]["one device"], abs=1e-5)


def test_the_command_trains_with_the_loss(results):
    assert -1 <= results["printed"]["spearman"] <= 1


def test_tuples_in_memory_have_the_columns_of_the_objective(results):
    assert results["in memory"] == list(map(list, TRIPLES))


def test_other_data_are_explained(results):
    assert "no column 'anchor'" in results["errors"]["pairs"]
    assert "triplets training is scored on pairs with scores" in results["errors"]["no held-out pairs"]


def test_the_loss_equals_its_definition():
    vectors = np.random.default_rng(3).normal(size=(12, 5)).astype(np.float32)
    losses = keras.ops.convert_to_numpy(TripletError()(np.zeros(12, np.float32), vectors))
    anchor, positive, negative = (
        (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).reshape(4, 3, 5).swapaxes(0, 1)
    )
    expected = np.maximum(0, MARGIN - (anchor * positive).sum(1) + (anchor * negative).sum(1))
    np.testing.assert_allclose(losses, np.repeat(expected, 3), atol=1e-6)
    assert expected.min() == 0 < expected.max()


@pytest.mark.slow  # imports sentence-transformers
def test_the_loss_equals_that_of_sentence_transformers():
    import torch
    from sentence_transformers.sentence_transformer.losses import TripletDistanceMetric, TripletLoss

    vectors = np.random.default_rng(4).normal(size=(12, 5)).astype(np.float32)
    theirs = TripletLoss(None, distance_metric=TripletDistanceMetric.COSINE, triplet_margin=MARGIN)
    columns = torch.from_numpy(vectors.reshape(4, 3, 5)).unbind(1)
    expected = theirs.compute_loss_from_embeddings(columns, None)
    ours = np.mean(keras.ops.convert_to_numpy(TripletError()(np.zeros(12, np.float32), vectors)))
    assert ours == pytest.approx(float(expected), abs=1e-6)


def test_an_objective_is_registered_once():
    with pytest.raises(InputError, match="there is an objective 'regression' of embedders already"):
        register_objective(EmbeddingObjective(name="regression", loss="a:b", text_columns=("a",)))
