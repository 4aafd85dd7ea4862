"""A head that no shipped file knows, through every command. What a new head costs is the part above `WORDS`."""

import contextlib
import dataclasses
import json
import os
import pathlib
from typing import ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from bert_keras.architectures.architecture import DENSE
from bert_keras.architectures.base import INPUT_SHAPES
from bert_keras.architectures.head_model import HeadModel, make_example_weights, make_output_layer, select_extra_outputs
from bert_keras.architectures.losses import GlobalBatchMean
from bert_keras.heads.classify.task import TextExample
from bert_keras.heads.head import Head
from bert_keras.heads.known_heads import register_head
from bert_keras.heads.signatures import TensorSpec
from bert_keras.heads.task import LabelledSequences, Row, Task
from bert_keras.pipelines.batches.encoding import encode
from tests.contracts.running_plugin import check_contract, run_command, run_in_new_process

MODULE = "tests.contracts.test_toy_head"


@keras.saving.register_keras_serializable(package="toy")
class StarRater(HeadModel):
    """Between 0 and 5 `stars` for each text, from the vector of [CLS]."""

    def __init__(self, encoder, **kwargs):
        super().__init__(encoder, **kwargs)
        self.rating = make_output_layer(encoder.config, 1, "rating")
        self.build(INPUT_SHAPES)

    def call(self, inputs, training=None, **returns):
        encoded = self.encode(inputs, training, **returns)
        stars = 5.0 * ops.sigmoid(self.rating(encoded["sequence_output"][:, 0]))
        return {"stars": stars, **select_extra_outputs(encoded)}

    def default_loss(self):
        return {"stars": GlobalBatchMean(keras.losses.MeanSquaredError(reduction="none"), "stars")}

    def default_metrics(self):
        return {"stars": [keras.metrics.RootMeanSquaredError(name="rmse")]}

    def match_labels(self, x, y, outputs):
        return {"stars": y}, outputs

    def label_weights(self, x, y, sample_weight):
        return {"stars": make_example_weights(y, sample_weight)}


@dataclasses.dataclass(frozen=True)
class StarRating(Task):
    """Rating of single texts."""

    name: ClassVar[str] = "rate"
    example_class: ClassVar[type] = TextExample
    main_score: ClassVar[str] = "closeness"

    def make_example(self, text, second_text=None, line=None):
        return TextExample(text, second_text, None, line)

    def encode(self, tokenizer, examples):
        texts = [example.text for example in examples]
        return encode(tokenizer, texts, None, max_sequence_length=self.max_sequence_length, window_overlap=None)

    def add_labels(self, sequences, examples):
        return LabelledSequences(sequences, np.array([[example.label] for example in examples], np.float32))

    def decode(self, sequences, outputs, examples):
        return [{"stars": float(stars)} for stars in outputs["stars"][:, 0]]

    def score(self, answers, examples):
        pairs = zip(answers, examples, strict=True)
        return {"closeness": -float(np.mean([abs(answer["stars"] - example.label) for answer, example in pairs]))}

    def make_row(self, example, answer):
        return Row(example.text, example.label, answer["stars"], None)

    def describe_signature(self, num_dimensions):
        return [TensorSpec("stars", "float32", (-1,))]

    def describe_ids_signature(self, num_dimensions):
        return [TensorSpec("stars", "float32", (-1, 1))]

    def compute_signature(self, sequences, outputs, examples):
        return {"stars": np.asarray(outputs["stars"][:, 0], np.float32)}


def read_to_rate(inputs):
    """Read training and held-out texts with their stars."""
    from bert_keras.heads.examples.labelled_files import TaskExamples

    train, columns = read_rated(inputs, inputs.train)
    dev = None if inputs.dev is None else read_rated(inputs, inputs.dev)[0]
    inputs.bad.check()
    return TaskExamples(StarRating(**inputs.settings), train, dev, columns)


def read_rated(inputs, source):
    from bert_keras.heads.classify.examples import read_texts

    return read_texts(source, inputs.options, "regression", inputs.bad, spell=inputs.spell)


def read_rated_to_score(inputs):
    return read_rated(inputs, inputs.source)[0]


def describe_stars(task, answer):
    from bert_keras.analysis.inspection.head_outputs import PredictedItem, Prediction

    return Prediction("The stars of the text.", "stars", (PredictedItem("stars", answer["stars"]),))


def build_star_rater(run, tokenizer, task, length):
    """Rate texts in the graph of a SavedModel."""
    from bert_keras.heads.text_function import TextFunction
    from bert_keras.pipelines.batches.packing import encode_in_graph

    def answer(texts: tf.Tensor) -> dict[str, tf.Tensor]:
        columns = [tokenizer.tokenize(texts)]
        batch = encode_in_graph(tokenizer, columns, max_sequence_length=task.max_sequence_length, window_overlap=None)
        return {"stars": run(batch.features)["stars"][:, 0]}

    return TextFunction(task.input_names, answer)


def expect_stars(reference, texts):
    """Compare the stars of a SavedModel with those of the checkpoint."""
    from bert_keras.export.parity.expected_answers import CheckpointRun

    stars = CheckpointRun(reference, texts).decode()

    def compare(comparison, answers):
        for expected, answer in zip(stars, answers, strict=True):
            comparison.compare_floats("stars", expected["stars"], answer.get("stars"))

    return compare


HEAD = Head(
    name="rate",
    model=f"{MODULE}:StarRater",
    task=f"{MODULE}:StarRating",
    is_finetuned=True,
    training_reader=f"{MODULE}:read_to_rate",
    scoring_reader=f"{MODULE}:read_rated_to_score",
    description=f"{MODULE}:describe_stars",
    pipeline_tag="text-classification",
    outputs=("stars",),
    graph=f"{MODULE}:build_star_rater",
    comparison=f"{MODULE}:expect_stars",
    labels=((None, "", "float32"),),
    options=("text_column", "label_column", "columns", "delimiter"),
    tensors=((DENSE, "D1", "rating", "rating", None, None),),
    ignores_pooler=True,
    plan_name="stars",
    has="a head for stars",
    use="It rates a text with up to five stars.",
)
if os.environ.get("BERT_KERAS_PLUGINS") == MODULE:
    register_head(HEAD)

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "good", "bad", "film", "play"]
ROWS = ["text\tlabel"] + [
    f"{word} {thing}\t{stars}" for word, stars in (("good", 5), ("bad", 1)) for thing in ("film", "play")
] * 6


def run_training(folder: pathlib.Path) -> dict:
    """Train, score, predict, inspect and plan; return what the commands printed and wrote."""
    import bert_keras as bk

    data, start, rated = folder / "stars.tsv", folder / "start", folder / "rated"
    data.write_text("\n".join(ROWS) + "\n")
    (folder / "texts.txt").write_text("good film\n")
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=len(WORDS), max_sequence_length=20)
    bk.save(bk.BertEncoder(config, pooler=False), bk.BertTokenizer(vocabulary=WORDS, lowercase=True), start)
    options = ["--train", data, "--dev", data, "--max-sequence-length", 12, "--batch-size", 8, "--epochs", 3]
    finetuned = run_command("finetune", start, rated, "--task", "rate", *options, "--learning-rate", 1e-3)
    bk.load(rated).save(folder / "rated.keras")
    reloaded = bk.Predictor(bk.load(folder / "rated.keras"), bk.load_tokenizer(rated))
    run_command("inspect", rated, "good film", "--out", folder / "page")
    return {
        "finetune": finetuned,
        "resume": resume(start, folder / "resumed", data),
        "evaluate": run_command("evaluate", rated, data),
        "predict": json.loads(run_command("predict", rated, folder / "texts.txt", has_json=False)),
        "keras": reloaded(["good film"])[0],
        "page": (folder / "page/index.html").read_text(encoding="utf-8"),
        "plan": run_command("plan", rated),
        "planned_head": run_command("plan", "tiny", "--head", "stars"),
        "card": (rated / "README.md").read_text(encoding="utf-8"),
        "config": json.loads((rated / "config.json").read_text(encoding="utf-8")),
    }


def run_artifacts(folder: pathlib.Path) -> dict:
    """Export what `run_training` wrote in every format, verify it, and serve it."""
    import bert_keras as bk

    rated, art = folder / "rated", folder / "art"
    exported = run_command("export", rated, art, "--to", "saved_model", "tflite", "onnx", "--quantize", "float32")
    predictors = {engine: bk.Predictor.from_artifact(art, engine) for engine in ("onnxruntime", "tensorflow")}
    return {
        "checkpoint": bk.Predictor.from_checkpoint(rated)(["good film"])[0]["stars"],
        "export": exported,
        "verify": run_command("verify", art / "onnx", rated),
        "engines": [predictor(["good film"])[0]["stars"] for predictor in predictors.values()],
        "served": serve(art / "onnx"),
    }


def resume(start: pathlib.Path, out: pathlib.Path, data: pathlib.Path) -> dict:
    """Stop a training after its second step, finish it with `resume`, and return its scores."""
    import bert_keras as bk

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 1:
                raise KeyboardInterrupt

    settings = {"task": "rate", "train": data, "dev": data, "max_sequence_length": 12, "batch_size": 8}
    settings |= {"num_epochs": 3, "learning_rate": 1e-3, "backup_every": 1, "verbose": False}
    with contextlib.suppress(KeyboardInterrupt):
        bk.finetune(start, out, callbacks=[Stop()], **settings)
    assert not out.exists()
    return bk.finetune(start, out, resume=True, **settings).scores


def serve(artifact) -> dict:
    """Ask the server for stars by its own endpoint, and by the protocols of TF Serving and of version 2."""
    from tests.serving.running_server import RunningServer

    with RunningServer({"films": artifact}) as server:
        tensors = [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["good film"]}]
        v2 = server.post("/v2/models/films/infer", {"inputs": tensors}).json()
        return {
            "own": server.post("/rate", {"text": "good film"}).json()["stars"],
            "tensorflow": server.post("/v1/models/films:predict", {"instances": ["good film"]}).json(),
            "v2": {output["name"]: output["data"] for output in v2["outputs"]},
        }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("toy_head")


@pytest.fixture(scope="module")
def trained(folder):
    return run_in_new_process(MODULE, "run_training", folder)


def test_it_is_trained_resumed_and_scored(trained):
    closeness = trained["finetune"]["closeness"]
    assert trained["resume"]["closeness"] == pytest.approx(closeness, abs=1e-6)
    assert trained["evaluate"]["closeness"] == pytest.approx(closeness, abs=1e-6)
    assert closeness > -2


def test_it_answers_and_is_inspected_and_planned(trained):
    assert trained["keras"]["stars"] == pytest.approx(trained["predict"]["stars"], abs=1e-5)
    assert "The stars of the text." in trained["page"]
    for plan in (trained["plan"], trained["planned_head"]):
        assert {"name": "rating", "parameters": 129, "num_layers": 1} in plan["parameters"]


def test_its_folder_is_described(trained):
    assert "It rates a text with up to five stars." in trained["card"]
    assert trained["config"]["architectures"] == ["BertModel"], "the class of transformers that opens the encoder"
    assert trained["config"]["bert_keras"]["task"]["name"] == "rate"


@pytest.mark.slow  # the rules of `test_every_head.py`
def test_it_keeps_the_rules_of_every_head():
    check_contract(MODULE, "test_every_head.py", "StarRater")


@pytest.mark.slow  # nine processes
def test_its_artifacts_answer_as_the_checkpoint(trained, folder):
    del trained
    results = run_in_new_process(MODULE, "run_artifacts", folder)
    reports = results["export"]["artifacts"]
    assert {name.partition("/")[0] for name in reports} == {"saved_model", "tflite", "onnx"}
    assert all(report["passed"] for report in reports.values())
    assert "stars" in reports["saved_model/1"]["outputs"]
    assert all(report["passed"] for report in results["verify"]["artifacts"].values())
    assert results["engines"] == pytest.approx([results["checkpoint"]] * 2, abs=1e-4)
    served = results["served"]
    assert [served["own"], *served["tensorflow"]["predictions"], *served["v2"]["stars"]] == pytest.approx(
        [results["checkpoint"]] * 3, abs=1e-4
    )
