"""A head that no shipped file knows, through every command. What a new head costs is the part above `journey`."""

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import subprocess
import sys
from typing import ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from bert_keras.architectures.architecture import DENSE
from bert_keras.heads.head import Head
from bert_keras.heads.known_heads import register_head
from bert_keras.modeling.base import INPUT_SHAPES
from bert_keras.modeling.heads import HeadModel, make_example_weights, make_output_layer, select_extra_outputs
from bert_keras.modeling.losses import GlobalBatchMean
from bert_keras.pipelines.batches.encoding import encode
from bert_keras.tasks.base import LabelledSequences, Row, Task
from bert_keras.tasks.signatures import TensorSpec
from bert_keras.tasks.text_classification import TextExample

MODULE = "tests.contracts.test_toy_head"


@keras.saving.register_keras_serializable(package="toy")
class StarRater(HeadModel):
    """Between 0 and 5 stars for each text, from the vector of [CLS]."""

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
    from bert_keras.tasks.examples.labelled_files import TaskExamples

    train, columns = read_rated(inputs, inputs.train)
    dev = None if inputs.dev is None else read_rated(inputs, inputs.dev)[0]
    inputs.bad.check()
    return TaskExamples(StarRating(**inputs.settings), train, dev, columns)


def read_rated(inputs, source):
    from bert_keras.tasks.examples.text_data import read_texts

    return read_texts(source, inputs.options, "regression", inputs.bad, spell=inputs.spell)


def read_rated_to_score(inputs):
    return read_rated(inputs, inputs.source)[0]


def describe_stars(task, answer):
    from bert_keras.analysis.inspection.head_outputs import PredictedItem, Prediction

    return Prediction("The stars of the text.", "stars", (PredictedItem("stars", answer["stars"]),))


def build_star_rater(run, tokenizer, task, length):
    """Rate texts in the graph of a SavedModel."""
    from bert_keras.export.saved_model.answers.text_function import TextFunction
    from bert_keras.pipelines.batches.packing import encode_in_graph

    def answer(texts: tf.Tensor) -> dict[str, tf.Tensor]:
        columns = [tokenizer.tokenize(texts)]
        batch = encode_in_graph(tokenizer, columns, max_sequence_length=task.max_sequence_length, window_overlap=None)
        return {"stars": run(batch.features)["stars"][:, 0]}

    return TextFunction(task.input_names, answer)


def expect_stars(reference, texts):
    """Compare the stars of a SavedModel with those of the checkpoint."""
    from bert_keras.export.parity.expected_answers import CheckpointRun

    stars = CheckpointRun.of_texts(reference, texts).decode()

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


def run_journey(folder: pathlib.Path) -> dict:
    """Run every command on the toy head in this process, and return what they wrote."""
    import bert_keras as bk
    from bert_keras.cli.main import main

    def command(*arguments: str, json_output: bool = True) -> dict | str:
        with contextlib.redirect_stdout(io.StringIO()) as output:
            status = main([*map(str, arguments), *(["--json"] if json_output else [])])
        assert status == 0, arguments
        return json.loads(output.getvalue()) if json_output else output.getvalue()

    data, start, rated = folder / "stars.tsv", folder / "start", folder / "rated"
    data.write_text("\n".join(ROWS) + "\n")
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=len(WORDS), max_sequence_length=20)
    tokenizer = bk.BertTokenizer(vocabulary=WORDS, lowercase=True)
    bk.save(bk.BertEncoder(config, pooler=False), tokenizer, start)
    results = {}
    train = ["--task", "rate", "--train", data, "--dev", data, "--max-sequence-length", "12", "--batch-size", "8"]
    results["finetune"] = command("finetune", start, rated, *train, "--epochs", "3", "--learning-rate", "1e-3")
    results["resumed"] = resume(folder, start, train)
    results["evaluate"] = command("evaluate", rated, data)
    predictor = bk.Predictor.from_checkpoint(rated)
    results["predictions"] = [answer["stars"] for answer in predictor(["good film", "bad play"])]
    (folder / "texts.txt").write_text("good film\n")
    results["predict"] = json.loads(command("predict", rated, folder / "texts.txt", json_output=False))
    command("inspect", rated, "good film", "--out", folder / "page")
    results["page"] = (folder / "page/index.html").read_text(encoding="utf-8")
    results["plan"] = command("plan", rated)
    command("plan", "tiny", "--head", "stars")
    art, formats = folder / "art", ["saved_model", "tflite", "onnx"]
    results["export"] = command("export", rated, art, "--to", *formats)
    results["verify"] = command("verify", art / "onnx", rated)
    results["artifacts"] = {
        engine: bk.Predictor.from_artifact(art, engine)(["good film"])[0]["stars"]
        for engine in ("onnxruntime", "tensorflow")
    }
    results["served"] = serve(art / "onnx")
    results["card"] = (rated / "README.md").read_text(encoding="utf-8")
    results["keras"] = reload(bk, rated, folder / "rated.keras")
    return results


def resume(folder, start, train) -> dict:
    """Stop a training after its second step, and finish it with `--resume`."""
    import bert_keras as bk

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 1:
                raise KeyboardInterrupt

    settings = {"task": "rate", "train": train[3], "dev": train[3], "max_sequence_length": 12, "batch_size": 8}
    settings |= {"num_epochs": 3, "learning_rate": 1e-3, "backup_every": 1, "verbose": False}
    with contextlib.suppress(KeyboardInterrupt):
        bk.finetune(start, folder / "resumed", callbacks=[Stop()], **settings)
    assert not (folder / "resumed").exists()
    return bk.finetune(start, folder / "resumed", resume=True, **settings).scores


def serve(artifact) -> dict:
    """Ask the server for stars by its own endpoint, and by the protocols of TF Serving and of version 2."""
    from tests.serving.running_server import RunningServer

    with RunningServer({"films": artifact}) as server:
        tensors = [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["good film"]}]
        v2 = server.post("/v2/models/films/infer", {"inputs": tensors}).json()
        return {
            "own": server.post("/predict", {"text": "good film"}).json(),
            "tensorflow": server.post("/v1/models/films:predict", {"instances": ["good film"]}).json(),
            "v2": {output["name"]: output["data"] for output in v2["outputs"]},
        }


def reload(bk, folder, path) -> float:
    model = bk.load(folder)
    model.save(path)
    predictor = bk.Predictor(bk.load(path), bk.load_tokenizer(folder))
    return predictor(["good film"])[0]["stars"]


@pytest.fixture(scope="module")
def journey(tmp_path_factory):
    """The results of the journey, in a process that loads the toy head as users load a package of their own."""
    folder = tmp_path_factory.mktemp("toy_head")
    environment = {**os.environ, "BERT_KERAS_PLUGINS": MODULE}
    code = f"import pathlib, json, sys; from {MODULE} import run_journey; "
    code += "print(json.dumps(run_journey(pathlib.Path(sys.argv[1]))))"
    command = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, cwd=pathlib.Path(__file__).parents[2]
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_it_is_trained_resumed_and_scored(journey):
    assert journey["evaluate"]["metrics"]["closeness"] > -2.5
