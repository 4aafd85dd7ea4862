"""`model.json` and README.md suffice to run a file: a program that reads nothing else gets the checkpoint's answers."""

import contextlib
import dataclasses
import io
import json
import pathlib
import re
import shutil
import unicodedata

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from tokenizers import BertWordPieceTokenizer

import bert_keras as bk
from bert_keras.engines.predictor import Predictor
from bert_keras.export.client_bundle.bundle_files import make_probes, write_onnx_description, write_tflite_bundle
from bert_keras.export.client_bundle.client_description import ModelFile, sort_files
from bert_keras.export.export_job import ExportJob
from bert_keras.export.parity.artifact_program import load_onnx, load_tflite
from bert_keras.export.parity.reference import Reference
from bert_keras.export.settings import QUANTIZATIONS, ExportSettings
from bert_keras.export.tflite.mediapipe_metadata import add_metadata
from bert_keras.export.tflite.tflite_artifact import runs_in_mediapipe
from bert_keras.pipelines.text.vocabulary import encode_vocabulary
from tests.export.conftest import KINDS, LENGTH
from tests.marks import slow_except

FILE = "model_float32.tflite"
TOLERANCE = 2e-5
REPOSITORY = pathlib.Path(__file__).parents[3]
SETTINGS = ("lowercase", "strip_accents", "tokenize_chinese_chars")


@pytest.fixture
def write_bundle(references, tflite_file, tmp_path):
    """Function that writes the folder of a kind of model, and returns it and the content of `model.json`."""

    def write(kind, reference=None):
        reference = reference or references(kind)
        shutil.copy(tflite_file(kind), tmp_path / FILE)
        (tmp_path / "vocab.txt").write_bytes(encode_vocabulary(reference.tokenizer.vocabulary))
        if labels := getattr(reference.task, "labels", ()):
            (tmp_path / "labels.txt").write_text("".join(f"{label}\n" for label in labels), "utf-8")
        task = reference.task and reference.task.with_length(min(LENGTH, reference.task.max_sequence_length))
        signatures = load_tflite(str(tmp_path / FILE))[1]
        write_tflite_bundle(
            make_job(reference, tmp_path),
            tmp_path,
            [ModelFile(FILE, "float32", (tmp_path / FILE).stat().st_size, {"serving_default": LENGTH})],
            task=task,
            probes=make_probes(reference, task, LENGTH),
            reports={f"tflite/{FILE}": {"passed": True, "signatures": signatures}},
            in_mediapipe=runs_in_mediapipe(reference),
        )
        return tmp_path, read_model(tmp_path)

    return write


def make_job(reference, out):
    return ExportJob(reference, out, ExportSettings(model_name="bunt"), None, None, None, False)


def read_model(folder):
    return json.loads((folder / "model.json").read_text("utf-8"))


def pad(model, token_ids, length):
    """Return the inputs as README.md describes them, keyed by name."""
    settings, num_padding = model["tokenizer"], length - len(token_ids)
    first = token_ids.index(settings["sep_id"]) + 1  # tokens of the first text, with [CLS] and [SEP]
    return {
        "input_ids": token_ids + [settings["pad_id"]] * num_padding,
        "attention_mask": [1] * len(token_ids) + [0] * num_padding,
        "token_type_ids": [0] * first + [1] * (len(token_ids) - first) + [0] * num_padding,
    }


class LiteRt:
    """Runs a file by the names and by the indices in `model.json`, and checks that both give the same outputs."""

    def __init__(self, folder, model):
        self._model = model
        [(signature, self._length)] = model["files"][0]["signatures"].items()
        path = str(folder / model["files"][0]["path"])
        self._run = Interpreter(path).get_signature_runner(signature)
        self._interpreter = Interpreter(path)
        self._interpreter.allocate_tensors()

    def __call__(self, token_ids):
        padded = pad(self._model, token_ids, self._length)
        inputs = {one["name"]: np.array([padded[one["name"]]], one["dtype"]) for one in self._model["inputs"]}
        by_name = {name: values[0].copy() for name, values in self._run(**inputs).items()}
        details = self._interpreter.get_input_details(), self._interpreter.get_output_details()
        for one in self._model["inputs"]:
            assert inputs[one["name"]].shape == tuple(one["shape"])
            self._interpreter.set_tensor(details[0][one["index"]]["index"], inputs[one["name"]])
        self._interpreter.invoke()
        assert by_name.keys() == {one["name"] for one in self._model["outputs"]}
        for one in self._model["outputs"]:
            values = self._interpreter.get_tensor(details[1][one["index"]]["index"])  # a copy
            assert (list(values.shape), str(values.dtype)) == (one["shape"], one["dtype"])
            np.testing.assert_array_equal(values[0], by_name[one["name"]])
        return by_name


# Decoders that follow README.md. Those of token outputs handle a single window; the clients in `examples/` handle all.


def decode(model, probe, outputs, tokens):
    task = model["task"]
    if task is None:
        return {
            name: outputs[0][name.removesuffix("_start")].ravel()[: len(values)].tolist()
            for name, values in probe["answer"].items()
        }
    if task["name"] == "embed":
        return {"embedding_start": outputs[0]["sentence_embedding"][:8].tolist()}
    return {"classify": decode_classes, "tag": decode_tags, "answer": decode_answer}[task["name"]](
        task, probe, outputs, tokens
    )


def decode_classes(task, probe, outputs, tokens):
    [name] = {"probabilities", "scores", "logits"} & outputs[0].keys()
    values = np.array([one[name] for one in outputs], np.float64)
    if task["problem"] == "regression":
        return {"value": values.mean()}
    if task["problem"] == "multi_label":
        logits = values if name == "logits" else np.log(values) - np.log(1 - values)
        probabilities = 1 / (1 + np.exp(-logits.mean(0)))
        chosen = [label for label, one in zip(task["labels"], probabilities, strict=True) if one >= task["threshold"]]
        return {"labels": chosen, "probabilities": probabilities.tolist()}
    powers = np.exp((values if name == "logits" else np.log(values)).mean(0))
    best = int(powers.argmax())
    return {"label": task["labels"][best], "probability": powers[best] / powers.sum()}


def decode_tags(task, probe, outputs, tokens):
    found = []
    for place, (start, end) in enumerate(tokens.offsets):
        if tokens.type_ids[place] or start == end:
            continue
        while unicodedata.category(probe["texts"][0][end : end + 1] or " ") == "Mn":  # the word's accent, in no token
            end += 1
        logits = outputs[0]["logits"][place].astype(np.float64)
        probabilities = np.exp(logits) / np.exp(logits).sum()
        label = task["labels"][int(logits.argmax())]
        part = {"text": probe["texts"][0][start:end], "start": start, "end": end, "probability": probabilities.max()}
        if task["scheme"] == "none":
            found.append([{"label": label, **part}])
        elif label[0] == "I" and found and found[-1][-1]["label"] == label[2:]:
            found[-1].append({"label": label[2:], **part})
        else:
            found.append([{"label": label[2:], **part}])
    parts = [group for group in found if group[0]["label"]]
    joined = [
        {
            "label": group[0]["label"],
            "text": probe["texts"][0][group[0]["start"] : group[-1]["end"]],
            "start": group[0]["start"],
            "end": group[-1]["end"],
            "probability": np.mean([one["probability"] for one in group]),
        }
        for group in parts
    ]
    return {"words" if task["scheme"] == "none" else "entities": joined}


def decode_answer(task, probe, outputs, tokens):
    starts, ends = (outputs[0][name].astype(np.float64) for name in ("start_logits", "end_logits"))
    null = {"answer": "", "start": None, "end": None, "score": starts[0] + ends[0], "probability": None}
    places = [place for place, kind in enumerate(tokens.type_ids) if kind == 1][:-1]  # without [SEP]
    spans = [(starts[i] + ends[j], i, j) for i in places for j in places if 0 <= j - i < task["max_answer_length"]]
    if not spans or (task["allows_null"] and null["score"] - max(spans)[0] > task["null_threshold"]):
        return {**null, "null_score": null["score"]}
    score, first, last = max(spans)
    start, end = tokens.offsets[first][0], tokens.offsets[last][1]
    answer = {"answer": probe["texts"][1][start:end], "start": start, "end": end, "score": score}
    return {**answer, "null_score": null["score"], "probability": probe["answer"]["probability"]}


def tokenize(folder, model, texts):
    """Tokenize with Hugging Face's library, which knows only the vocabulary and the settings of `model.json`."""
    lowercase, strip_accents, chinese = (model["tokenizer"][name] for name in SETTINGS)
    tokenizer = BertWordPieceTokenizer(
        str(folder / model["tokenizer"]["vocabulary"]),
        lowercase=lowercase,
        strip_accents=strip_accents,
        handle_chinese_chars=chinese,
    )
    texts = [*texts]
    if model["task"] and model["task"]["name"] == "embed":
        texts[0] = model["task"]["prompt"] + texts[0]
    return tokenizer.encode(*texts)


def check_probes(folder, model, run):
    """Check the token ids and the answers of all probes, given a function that runs a sequence."""
    task = model["task"]
    assert 3 <= len(model["probes"]) <= 6
    num_single = 0
    for probe in model["probes"]:
        tokens = tokenize(folder, model, probe["texts"])
        is_single = tokens.ids == probe["sequences"][0]
        num_single += is_single
        if not is_single and len(probe["texts"]) == 1:
            kept = len(probe["sequences"][0]) - 1
            assert tokens.ids[:kept] == probe["sequences"][0][:-1]
        if is_single or task is None or task["name"] in ("classify", "embed"):
            assert_close(decode(model, probe, [run(ids) for ids in probe["sequences"]], tokens), probe["answer"])
    assert num_single >= (1 if task and task["name"] == "answer" else 3)
    if task and task.get("window_overlap") is not None:
        assert len(model["probes"][-1]["sequences"]) > 1
    assert any("" in probe["texts"] for probe in model["probes"])


def assert_close(got, expected):
    assert type(got) is type(expected) or isinstance(got, np.float64), (got, expected)
    if isinstance(got, dict | list):
        assert len(got) == len(expected), (got, expected)
        for key in got if isinstance(got, dict) else range(len(got)):
            assert_close(got[key], expected[key])
    elif isinstance(got, float):
        assert got == pytest.approx(expected, abs=TOLERANCE)
    else:
        assert got == expected


@pytest.mark.parametrize("kind", slow_except(KINDS, quick=["pair_classifier", "token_classifier"]))
def test_a_program_gets_the_checkpoints_answers_with_model_json_alone(kind, write_bundle):
    folder, model = write_bundle(kind)
    assert (model["format"], model["name"], model["runtime"]) == (1, "bunt", "tflite")
    size = (folder / FILE).stat().st_size
    signatures = {"serving_default": LENGTH}
    assert model["files"] == [{"path": FILE, "quantization": "float32", "bytes": size, "signatures": signatures}]
    check_probes(folder, model, LiteRt(folder, model))
    check_readme(folder, model)


@pytest.mark.slow
def test_tags_of_words_are_decoded(references, write_bundle):
    reference = references("token_classifier")
    folder, model = write_bundle(
        "token_classifier", reference.with_task(dataclasses.replace(reference.task, scheme="none"))
    )
    assert set(model["probes"][0]["answer"]) == {"words"}
    check_probes(folder, model, LiteRt(folder, model))
    check_readme(folder, model)


@pytest.mark.slow
def test_prompt_of_an_embedder_is_text_before_the_text(references, write_bundle):
    reference = references("embedder")
    task = dataclasses.replace(
        reference.task, prompts={"query": "the red hat "}, default_prompt_name="query", include_prompt=False
    )
    folder, model = write_bundle("embedder", reference.with_task(task))
    assert model["task"]["prompt"] == "the red hat "
    check_probes(folder, model, LiteRt(folder, model))  # the file pools the tokens of the prompt too
    assert "after the prompt 'the red hat '" in (folder / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    "kind", slow_except(["windowed_classifier", "multi_label", "null_answerer"], quick=["null_answerer"])
)
def test_answers_of_probes_are_those_of_predictor(kind, references):
    reference = references(kind)
    probes = make_probes(reference, reference.task, LENGTH)
    texts = [tuple(probe["texts"]) if len(probe["texts"]) > 1 else probe["texts"][0] for probe in probes]
    answers = Predictor(reference.model, reference.tokenizer, reference.task)(texts)
    for probe, answer in zip(probes, answers, strict=True):
        assert_close(probe["answer"], {name: answer[name] for name in probe["answer"]})


@pytest.mark.parametrize("kind", slow_except(KINDS, quick=["pair_classifier"]))
def test_onnx_folder_is_described(kind, references, onnx_file, tmp_path):
    reference = references(kind)
    (tmp_path / "onnx").mkdir()
    shutil.copy(onnx_file(kind), tmp_path / "onnx/model.onnx")
    (tmp_path / "vocab.txt").write_bytes(encode_vocabulary(reference.tokenizer.vocabulary))
    run, signatures = load_onnx(str(tmp_path / "onnx/model.onnx"))
    probes = make_probes(reference, reference.task, reference.text_length)
    reports = {"onnx/onnx/model.onnx": {"signatures": signatures}}
    files = {"onnx/model.onnx": "float32"}
    write_onnx_description(make_job(reference, tmp_path), tmp_path, files, probes=probes, reports=reports)
    model = read_model(tmp_path)
    assert model["runtime"] == "onnx"
    [file] = model["files"]
    assert (file["path"], file["quantization"], file["signatures"]) == ("onnx/model.onnx", "float32", {"": None})
    assert [(one["dtype"], one["shape"]) for one in model["inputs"]] == [("int64", [None, None])] * 3
    assert {one["dtype"] for one in model["outputs"]} == {"float32"}

    def run_sequence(token_ids):
        padded = pad(model, token_ids, min(len(token_ids) + 2, LENGTH))
        outputs = run("", {name: np.array([values]) for name, values in padded.items()})
        assert list(outputs) == [one["name"] for one in model["outputs"]]
        return {name: values[0] for name, values in outputs.items()}

    check_probes(tmp_path, model, run_sequence)


def read_fences(readme):
    return re.findall(r"^```(\w+)\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)


def check_readme(folder, model):
    """Check that README.md is complete, names what exists, and that its Python code runs."""
    readme = (folder / "README.md").read_text("utf-8")
    assert not re.search(r"\$\w|\bNone\b|\{\w*\}", re.sub(r"`[^`\n]*`", "", readme)), readme
    fences = read_fences(readme)
    code = "\n".join(block for _, block in fences)
    for name in re.findall(r"[\w./-]+\.(?:tflite|json|txt)\b", readme):
        if name not in ("_lengths.tflite", "unicode_tables.txt", "bert-client/package.json"):  # not in this folder
            assert (folder / name.removeprefix("tflite/")).exists(), name
    for one in model["inputs"] + model["outputs"]:
        assert f'"{one["name"]}"' in code
        assert f"| {one['index']} | `{one['name']}` |" in readme
    assert ("client.answer" in code) == (model["task"] is not None)
    assert [line for line in readme.splitlines() if len(line) > 120 and line[0] not in "|/#"] == []
    for name in re.findall(r"`((?:examples|android)/[\w./]+)`", readme):  # of the repository
        assert any((REPOSITORY / place / name).exists() for place in (".", "examples/java")), name
    [block] = [block for language, block in fences if language == "python" and "ai_edge_litert" in block]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(compile(block, "README.md", "exec"), {})
    expected = LiteRt(folder, model)(model["probes"][0]["sequences"][0])
    for name, values in expected.items():
        assert f"{name} {values.ravel()[:8]}" in printed.getvalue()


def test_readme_shows_mediapipe_only_where_it_runs(write_bundle):
    folder, _ = write_bundle("pair_classifier")
    assert "MediaPipe" not in (folder / "README.md").read_text("utf-8")


@pytest.mark.slow  # converts a model
@pytest.mark.parametrize("kind", ["multi_label", "embedder"])
def test_mediapipe_example_of_the_readme_runs(kind, references, tokenizer, write_bundle):
    text_tasks = pytest.importorskip("mediapipe.tasks.python.text")
    folder, model = write_bundle(kind)
    labels = None if kind == "embedder" else model["task"]["labels"]
    add_metadata(folder / FILE, tokenizer, name="bunt", description="of a test", labels=labels)
    fences = read_fences((folder / "README.md").read_text("utf-8"))
    [block] = [block for language, block in fences if language == "python" and "mediapipe" in block]
    names = {}
    with contextlib.redirect_stdout(io.StringIO()), pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(compile(block, "README.md", "exec"), names)
    if kind == "embedder":
        assert isinstance(names["embedder"], text_tasks.TextEmbedder)
        expected = model["probes"][0]["answer"]["embedding_start"]
        np.testing.assert_allclose(names["vector"][: len(expected)], expected, atol=TOLERANCE)
    else:
        assert names["category"].category_name in labels
    [block] = [block for language, block in fences if language == "kotlin" and "mediapipe" in block]
    assert f'"{FILE}"' in block


@pytest.mark.slow  # converts a model
def test_model_with_the_rules_of_mediapipe_has_no_reference_client(references, tokenizer, write_bundle):
    reference = references("embedder")
    phone = Reference(reference.model, tokenizer.for_mediapipe(), reference.task)
    folder, model = write_bundle("embedder", phone)
    assert model["tokenizer"]["text_rules"] == "mediapipe"
    readme = (folder / "README.md").read_text("utf-8")
    assert "reads text by the rules of MediaPipe's tokenizer" in readme
    assert "TextEmbedder" in readme
    assert "BertClient" not in readme


def test_tokens_of_ones_own_and_casing_are_described(references, write_bundle):
    reference = references("pair_classifier")
    settings = {"lowercase": False, "additional_special_tokens": ["hat"], "added_tokens": ["red"]}
    cased = bk.BertTokenizer(reference.tokenizer.vocabulary, **settings)
    folder, model = write_bundle("pair_classifier", Reference(reference.model, cased, reference.task))
    assert {name: model["tokenizer"][name] for name in settings} == settings
    assert model["tokenizer"]["strip_accents"] is False
    readme = " ".join((folder / "README.md").read_text("utf-8").split())
    assert "Text keeps its case, and accents are kept. `hat`, `red` are tokens that are never split." in readme


def test_smallest_file_that_is_long_enough_comes_first(references):
    task = references("windowed_classifier").task  # 11 tokens
    files = [
        ModelFile("large", "float32", 400, {"serving_default": 19}),
        ModelFile("short", "dynamic_int8", 90, {"length_5": 5, "length_7": 7}),
        ModelFile("small", "dynamic_int8", 100, {"serving_default": 19}),
        ModelFile("lengths", "dynamic_int8", 110, {"length_5": 5, "length_11": 11}),
    ]
    assert [file.path for file in sort_files(files, task)] == ["small", "lengths", "large", "short"]
    assert [file.path for file in sort_files(files, None)] == ["short", "small", "lengths", "large"]


def test_every_quantization_is_described():
    template = (REPOSITORY / "export/templates/tflite/README.md").read_text("utf-8")
    assert re.findall(r"^%if quantization = (\w+)$", template, re.MULTILINE) == list(QUANTIZATIONS)
