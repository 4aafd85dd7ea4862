"""An architecture that no shipped file knows, through every stage. What it costs is the part above `WORDS`."""

import dataclasses
import os
import pathlib

import keras
import numpy as np
import pytest

from bert_keras.architectures import distilbert
from bert_keras.architectures.encoder import BertEncoder
from bert_keras.architectures.known_architectures import register_architecture
from bert_keras.architectures.layers import BertEmbeddings
from tests.contracts.running_plugin import check_contract, run_command, run_in_new_process

MODULE = "tests.contracts.test_toy_architecture"


@keras.saving.register_keras_serializable(package="toy")
class ScaledEmbeddings(BertEmbeddings):
    """BERT's embeddings, three times as large."""

    def call(self, token_ids, segment_ids, positions, layout, training=None):
        return 3.0 * super().call(token_ids, segment_ids, positions, layout, training=training)


@keras.saving.register_keras_serializable(package="toy")
class ScaledEncoder(BertEncoder):
    """An encoder with `ScaledEmbeddings`."""

    def __init__(self, config, *, pooler=False, embeddings=None, **kwargs):
        embeddings = embeddings or ScaledEmbeddings(config, name="embeddings")
        super().__init__(config, pooler=pooler, embeddings=embeddings, **kwargs)


ARCHITECTURE = dataclasses.replace(
    distilbert.ARCHITECTURE,
    model_type="scaled",
    encoder=f"{MODULE}:ScaledEncoder",
    config_keys={**distilbert.ARCHITECTURE.config_keys, "num_layers": "stages"},
    embeddings=((None, None, "encoder.embeddings.", "inputs.", None, None), *distilbert.EMBEDDINGS[1:]),
    block=((None, None, "encoder.blocks.{i}.", "stages.{i}.", None, None), *distilbert.BLOCK[1:]),
    tied={"vocab_projector.weight": "inputs.word_embeddings.weight"},
    class_prefix="Scaled",
)
if os.environ.get("BERT_KERAS_PLUGINS") == MODULE:
    register_architecture(ARCHITECTURE)

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "good", "bad", "film", "play"]
TRAIN = [{"text": f"{word} {thing}", "label": word} for word in ("good", "bad") for thing in ("film", "play")] * 4
SETTINGS = {"train": TRAIN, "dev": TRAIN, "num_epochs": 1, "batch_size": 8, "verbose": False}


def run_journey(folder: pathlib.Path) -> dict:
    """Run every stage, and return what differs between its parts."""
    import safetensors.numpy

    import bert_keras as bk

    config = bk.BertConfig(len(WORDS), 2, 2, 16, 24, max_sequence_length=20, model_type="scaled")
    tokenizer = bk.BertTokenizer(vocabulary=WORDS, lowercase=True)
    start, pretrained, classifier = folder / "start", folder / "pretrained", folder / "classifier"
    bk.save(bk.BertMaskedLM(ScaledEncoder(config)), tokenizer, start)
    documents = [["good film", "bad play"], ["bad film", "good play"]] * 20
    bk.make_records(tokenizer, folder / "records", documents=documents, max_sequence_length=16, held_out_rate=0.1)
    sizes = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 24}
    settings = {"model": {"model_type": "scaled", "objective": "mlm", **sizes}, "budget": {"steps": 2}}
    trained = [bk.pretrain(folder / "records", pretrained, settings=settings, verbose=False)]
    trained.append(bk.finetune(pretrained, classifier, **SETTINGS))
    trained.append(bk.finetune(pretrained, folder / "lora", lora_rank=2, **SETTINGS))
    trained.append(bk.distill(classifier, folder / "student", num_layers=1, **SETTINGS))
    bk.save(bk.BertEncoder(dataclasses.replace(config, model_type="bert"), pooler=False), tokenizer, folder / "bert")
    bk.finetune(folder / "bert", folder / "teacher", **SETTINGS)
    trained.append(bk.distill(folder / "teacher", folder / "student of BERT", student=start, **SETTINGS))
    bk.load(classifier).save(folder / "classifier.keras")
    run_command("convert", classifier, folder / "back")
    texts = ["good film", "a bad play"]

    def answer(predictor) -> list[float]:
        return [one["best"][0]["probability"] for one in predictor(texts, top=2)]

    folders = {
        name: bk.Predictor.from_checkpoint(folder / name)
        for name in ("classifier", "back", "lora", "student", "student of BERT")
    }
    keras_file = bk.Predictor(bk.load(folder / "classifier.keras"), tokenizer)
    return {
        "trained": [type(one.model.encoder).__name__ for one in trained],
        "encoders": {name: type(one.model.encoder).__name__ for name, one in folders.items()},
        "answers": {name: answer(one) for name, one in folders.items()} | {"keras": answer(keras_file)},
        "tensors": sorted(safetensors.numpy.load_file(classifier / "model.safetensors")),
        "scale": measure_scale(bk.load(pretrained)),
        "plan": run_command("plan", classifier)["num_parameters"],
        "filled": run_command("fill-mask", pretrained, "a good [MASK]"),
        "parameters": bk.load(classifier).count_params(),
    }


def measure_scale(model) -> float:
    """Return the ratio of the encoder's embeddings to those of BERT's layer with the same weights."""
    ids = np.array([[2, 13, 15, 3]])
    features = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    first = model.encoder(features, return_hidden_states=True)["hidden_states"][0]
    plain = BertEncoder(model.encoder.config, pooler=False)
    plain.set_weights(model.encoder.get_weights())
    return float(np.mean(np.array(first) / np.array(plain(features, return_hidden_states=True)["hidden_states"][0])))


def run_artifacts(folder: pathlib.Path) -> dict:
    """Export the classifier in every format and serve it."""
    import bert_keras as bk
    from tests.serving.running_server import RunningServer

    exported = run_command("export", folder / "classifier", folder / "art", "--to", "saved_model", "tflite", "onnx")
    with RunningServer({"films": folder / "art/onnx"}) as server:
        served = server.post("/classify", {"text": "good film"}).json()
    wanted = bk.Predictor.from_checkpoint(folder / "classifier")(["good film"])[0]
    return {"export": exported, "served": served["probability"], "wanted": float(wanted["probability"])}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("toy_architecture")


@pytest.fixture(scope="module")
def journey(folder):
    return run_in_new_process(MODULE, "run_journey", folder)


def test_every_stage_keeps_the_encoder(journey):
    assert journey["trained"] == ["ScaledEncoder"] * 5, "the models that the trainings changed"
    assert set(journey["encoders"].values()) == {"ScaledEncoder"}
    assert journey["scale"] == pytest.approx(3.0, abs=1e-3)
    answers = journey["answers"]
    for copy in ("back", "keras"):
        assert answers[copy] == pytest.approx(answers["classifier"], abs=1e-6)
    assert answers["student"] != answers["classifier"] != answers["lora"]


def test_its_folder_has_names_of_its_own(journey):
    names = journey["tensors"]
    assert "scaled.inputs.word_embeddings.weight" in names
    assert "scaled.stages.1.attention.q_lin.weight" in names
    assert not any("transformer" in name for name in names)


def test_it_is_planned_and_fills_masks(journey):
    assert journey["plan"] == journey["parameters"]
    [filled] = journey["filled"]["texts"]
    assert all(one["text"].startswith("a good ") for one in filled["masks"][0])


@pytest.mark.slow  # the rules of `test_every_architecture.py`
def test_it_keeps_the_rules_of_every_architecture():
    check_contract(MODULE, "test_every_architecture.py", "scaled")


@pytest.mark.slow  # nine processes
def test_its_artifacts_answer_as_the_checkpoint(journey, folder):
    del journey
    results = run_in_new_process(MODULE, "run_artifacts", folder)
    reports = results["export"]["artifacts"]
    assert {name.partition("/")[0] for name in reports} == {"saved_model", "tflite", "onnx"}
    assert all(report["passed"] for report in reports.values())
    assert results["served"] == pytest.approx(results["wanted"], abs=1e-4)
