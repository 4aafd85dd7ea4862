"""`Predictor.from_artifact` gives the checkpoint's answers in every engine, and reports what it cannot run."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest

import bert_keras as bk
from bert_keras.cli.main import main
from bert_keras.engines.artifact_files import DESCRIPTION, ENGINES, find_artifact, is_artifact
from bert_keras.engines.cores import count_cores
from bert_keras.engines.engine import FAST_SAVED_MODEL
from bert_keras.engines.openvino_engine import OpenvinoEngine
from bert_keras.engines.predictor import Predictor
from bert_keras.errors import InputError
from bert_keras.export.export_job import write_description
from bert_keras.export.onnx.to_onnx import FLOAT32
from bert_keras.heads.answer.task import QuestionAnswering
from bert_keras.heads.classify.task import TextClassification
from bert_keras.heads.embed.task import SentenceEmbedding
from bert_keras.heads.tag.task import TokenClassification
from tests.export.conftest import LENGTH
from tests.marks import slow_except

TOLERANCE = 1e-5
BFLOAT16_TOLERANCE = 0.05
TEXTS = ["the one", "", "Cafés & [MASK] in a naïve red hat", "the cat and a very odd dog " * 15, "number 4"]
PAIRS = [("Where?", "on a mat, as it were"), ("the cat", "it was the dog and a cat " * 10)]
LABELS = ("rot", "grün", "blau")
TAGS = ("O", "B-tier", "I-tier", "B-ort")
TASKS = {  # with the labels and the settings of the models
    "classify": TextClassification(13, window_overlap=3, labels=LABELS),
    "multi_label": TextClassification(LENGTH, problem="multi_label", labels=("LABEL_0", "LABEL_1", "LABEL_2")),
    "regression": TextClassification(LENGTH, problem="regression"),
    "tag": TokenClassification(13, window_overlap=3, labels=TAGS, scheme="IOB2"),
    "answer": QuestionAnswering(LENGTH, window_overlap=3, max_question_length=5),
    "embed": SentenceEmbedding(LENGTH, normalize=False, prompts={"query": "a hat "}, default_prompt_name="query"),
}
KINDS = {  # the models in `tests/serving/conftest.py` that do these tasks
    "classify": "pair_classifier",
    "tag": "token_classifier",
    "answer": "null_answerer",
    "embed": "embedder",
}


@pytest.fixture(scope="module")
def open_predictor(make_kind):
    """Function that returns the predictor of a tiny model that does a task."""

    def make_predictor(kind: str, task):
        model, tokenizer, _ = make_kind(kind)
        if isinstance(model, bk.BertEmbedder):
            model = bk.BertEmbedder(model.encoder, **task.head_arguments())
        return Predictor(model, tokenizer, task)

    return make_predictor


@pytest.fixture(scope="module")
def exported(open_predictor, onnx_files, saved_model_folders, tmp_path_factory):
    """Function that returns the predictor of a tiny model and its output folder of `export`."""
    cache = {}

    def export(name: str, *, with_saved_model: bool = True):
        kind = KINDS.get(name, name)
        if name not in cache:
            predictor, out = open_predictor(kind, TASKS[name]), tmp_path_factory.mktemp(name) / "out"
            write_onnx_folder(predictor, onnx_files(kind), out / "onnx")
            cache[name] = predictor, out
        predictor, out = cache[name]
        version = out / "saved_model/1"
        if with_saved_model and not version.exists():
            shutil.copytree(saved_model_folders(kind), version)
            describe(predictor, version / DESCRIPTION)
        return predictor, out

    return export


def describe(predictor, folder):
    write_description(predictor.model, predictor.tokenizer, folder, task=predictor.task.settings())


def write_onnx_folder(predictor, onnx_file, folder):
    """Write the folder of `export` with an ONNX file that exists already."""
    (folder / FLOAT32).parent.mkdir(parents=True)
    shutil.copy(onnx_file, folder / FLOAT32)
    describe(predictor, folder)


CASES = [(name, engine) for name in TASKS for engine in ENGINES]
QUICK = [*(("classify", engine) for engine in ENGINES), ("answer", "onnxruntime")]


@pytest.mark.parametrize(("name", "engine"), slow_except(CASES, quick=QUICK))
def test_answers_equal_those_of_the_checkpoint(name, engine, exported, monkeypatch):
    monkeypatch.setattr(OpenvinoEngine, "precision", "f32")
    predictor, out = exported(name, with_saved_model=engine == "tensorflow")
    inputs = PAIRS if name == "answer" else TEXTS
    served = Predictor.from_artifact(out, engine)
    assert served.task == predictor.task
    assert_close(served(inputs), predictor(inputs), TOLERANCE)


@pytest.mark.parametrize("name", slow_except(["classify", "embed"], quick=["classify"]))
def test_openvino_is_close_to_the_checkpoint_in_the_precision_of_the_cpu(name, exported):
    predictor, out = exported(name)
    assert_close(Predictor.from_artifact(out, "openvino")(TEXTS), predictor(TEXTS), BFLOAT16_TOLERANCE)


def assert_close(got, expected, tolerance):
    """Compare nested answers: numbers within the tolerance, everything else exactly."""
    if isinstance(expected, dict):
        assert got.keys() == expected.keys()
        for name in expected:
            assert_close(got[name], expected[name], tolerance)
    elif isinstance(expected, list):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_close(one, other, tolerance)
    elif isinstance(expected, float):
        np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)
    else:
        assert got == expected


@pytest.mark.parametrize("engine", slow_except(ENGINES, quick=["onnxruntime", "openvino"]))
def test_instances_and_threads_do_not_change_the_answers(engine, exported):
    _, out = exported("classify")
    texts = [f"{'so very ' * (number * 7 % 23)}number {number}" for number in range(100)]
    threads = {} if engine == "tensorflow" else {"threads": 1}  # the test process already runs TensorFlow
    several = Predictor.from_artifact(out, engine, **threads, instances=1 if engine == "tensorflow" else 2)
    several.model.tokens_per_batch = 256
    assert_close(
        several(texts),
        Predictor.from_artifact(out, engine)(texts),
        BFLOAT16_TOLERANCE if engine == "openvino" else TOLERANCE,
    )


def test_onnxruntime_and_openvino_do_not_import_tensorflow(exported):
    _, out = exported("classify")
    code = (
        "import sys\nfrom bert_keras import Predictor\n"
        "for engine in ('onnxruntime', 'openvino'):\n"
        f"    print(Predictor.from_artifact({str(out)!r}, engine)(['a'])[0]['label'])\n"
        "print(sorted({'tensorflow', 'keras', 'torch', 'openvino_telemetry'} & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.split("\n")[-2] == "[]"


@pytest.mark.slow
def test_the_threads_of_a_saved_model_are_set_before_tensorflow_runs(exported):
    _, out = exported("classify")
    code = (
        "import bert_keras as bk\n"
        f"print(bk.Predictor.from_artifact({str(out)!r}, 'tensorflow', threads=1)(['a'])[0]['label'])\n"
        "import tensorflow as tf; print(tf.config.threading.get_intra_op_parallelism_threads())"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.split("\n")[1] == "1"


@pytest.mark.slow
@pytest.mark.parametrize("given", [None, "0"])
def test_predict_sets_threads_and_makes_tensorflow_fast_unless_the_environment_says_otherwise(given, exported):
    _, out = exported("classify")
    environment = {name: value for name, value in os.environ.items() if name not in FAST_SAVED_MODEL}
    environment |= dict.fromkeys(FAST_SAVED_MODEL, given) if given else {}
    code = (
        "import os\nfrom bert_keras.cli.main import main\n"
        f"main(['predict', {str(out / 'saved_model')!r}, 'a text', '--threads', '1'])\n"
        f"print(*[os.environ[name] for name in {FAST_SAVED_MODEL!r}])\n"
        "import tensorflow as tf; print(tf.config.threading.get_intra_op_parallelism_threads())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    answer, used, threads = run.stdout.splitlines()
    assert "label" in answer
    assert used == " ".join([given or "1"] * 2)
    assert threads == "1"


@pytest.mark.parametrize("place", [".", "onnx", "onnx/onnx/model.onnx", "saved_model", "saved_model/1"])
def test_artifacts_are_found_at_every_level(place, exported):
    _, out = exported("classify")
    artifact = find_artifact(out / place)
    is_saved_model = place.startswith("saved_model")
    assert artifact.engine == ("tensorflow" if is_saved_model else "onnxruntime")
    assert artifact.path == out / ("saved_model/1" if is_saved_model else "onnx/onnx/model.onnx")
    assert is_artifact(out / place)


def test_the_newest_version_of_a_saved_model_is_found(exported, tmp_path):
    versions = tmp_path / "saved_model"
    for name in ("9", "10", "backup"):
        shutil.copytree(exported("classify")[1] / "saved_model/1", versions / name)
    assert find_artifact(tmp_path).path == find_artifact(versions).path == versions / "10"


@pytest.mark.parametrize(("given", "expected"), [({"threads": 3}, 3), ({"instances": count_cores()}, 1)])
def test_onnxruntime_gets_the_number_of_threads(given, expected, exported, monkeypatch):
    seen, open_session = [], onnxruntime.InferenceSession

    def open_and_record(path, options, **others):
        seen.append(options.intra_op_num_threads)
        return open_session(path, options, **others)

    monkeypatch.setattr(onnxruntime, "InferenceSession", open_and_record)
    Predictor.from_artifact(exported("classify")[1], **given)
    assert seen == [expected]


def test_checkpoints_are_no_artifacts_even_with_an_onnx_file(exported, tmp_path):
    predictor, _ = exported("classify")
    folder = tmp_path / "checkpoint"
    bk.save(predictor.model, predictor.tokenizer, folder, task=predictor.task.settings())
    both = shutil.copytree(folder, tmp_path / "both")
    shutil.copytree(exported("classify")[1] / "onnx/onnx", both / "onnx")
    assert not is_artifact(folder)
    assert not is_artifact(both)
    assert find_artifact(both).path == both / "onnx/model.onnx"  # asked for by name, it is found


@pytest.mark.parametrize("weights", ["model.weights.h5", "bert_model.ckpt.index", "model-00001-of-00002.safetensors"])
def test_weights_of_any_format_make_a_folder_a_checkpoint(weights, tmp_path):
    for name in ("model.onnx", "model.tflite", weights):
        (tmp_path / name).touch()
    assert not is_artifact(tmp_path)
    (tmp_path / weights).unlink()
    assert is_artifact(tmp_path)


@pytest.mark.parametrize("place", [".", "tflite", "tflite/model_float32.tflite"])
def test_a_tflite_model_is_named_as_such(place, tmp_path, capsys):
    (tmp_path / "tflite").mkdir()
    (tmp_path / "tflite/model_float32.tflite").touch()
    assert main(["predict", str(tmp_path / place), "a text"]) == 2
    assert "is a TFLite model, which no engine runs; expected an .onnx file or a SavedModel" in capsys.readouterr().err


def test_prompts_that_are_not_pooled_are_refused(open_predictor, onnx_files, tmp_path):
    task = SentenceEmbedding(LENGTH, normalize=False, include_prompt=False, prompts={"query": "a hat "})
    predictor = open_predictor("embedder", task)
    write_onnx_folder(predictor, onnx_files("embedder"), tmp_path / "out")
    served = Predictor.from_artifact(tmp_path / "out")
    assert_close(served(["the one"]), predictor(["the one"]), TOLERANCE)
    with pytest.raises(InputError, match=r"leaves the prompt out of its sentence vectors .* use the checkpoint folder"):
        served(["the one"], prompt_name="query")


def break_file(out):
    path = out / "onnx/onnx/model.onnx"
    path.write_bytes(path.read_bytes()[:1000])


def break_saved_model(out):
    shutil.rmtree(out / "onnx")
    (out / "saved_model/1/variables/variables.index").write_bytes(b"?")


def edit_config(**changes):
    def edit(out):
        path = out / "onnx/config.json"
        path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **changes}), encoding="utf-8")

    return edit


BAD = {
    "unknown engine": (
        lambda out: None,
        "tflite",
        "the engine is 'tflite'; expected one of onnxr",
    ),
    "no artifact": (
        lambda out: shutil.rmtree(out / "onnx"),
        "openvino",
        "has saved_model.pb; the engine openvino n",
    ),
    "truncated": (break_file, "onnxruntime", r"model.onnx is not a complete ONNX file \(\w+\): export it again"),
    "truncated, openvino": (break_file, "openvino", r"model.onnx is not a complete ONNX file \(\w+\): export it again"),
    "damaged SavedModel": (break_saved_model, None, r"1 is not a complete SavedModel \(\w+\): export it again"),
    "no description": (
        lambda out: shutil.rmtree(out / "saved_model/1" / DESCRIPTION),
        "tensorflow",
        "has no assets.extra/model/config.json, which describes its task: export it again",
    ),
    "no config": (lambda out: (out / "onnx/config.json").unlink(), None, "has no config.json next to it"),
    "other task": (
        edit_config(architectures=["BertForQuestionAnswering"], bert_keras={}),
        None,
        "has the outputs logits, and its config.json describes a model with end_logits, start_logits: the two belong",
    ),
    "no task": (edit_config(architectures=["BertModel"], bert_keras={}), None, "describes a BertEncoder, which has no"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_run_is_reported_in_one_sentence(case, exported, tmp_path):
    damage, engine, message = BAD[case]
    out = shutil.copytree(exported("classify")[1], tmp_path / "out")
    damage(out)
    with pytest.raises(InputError, match=message):
        Predictor.from_artifact(out, engine)


def test_a_path_that_does_not_exist_is_reported(tmp_path):
    with pytest.raises(InputError, match="nowhere does not exist; expected an artifact"):
        bk.Predictor.from_artifact(tmp_path / "nowhere")
