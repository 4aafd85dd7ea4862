"""`examples/java`, compared with `BertTokenizer` and `Predictor`. The JDK has no LiteRT, so Python runs the models."""

import json
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

from bert_keras.pipelines.text.tokenizer import BertTokenizer
from tests.export.conftest import WORDS
from tests.made_once import made_once
from tests.pipelines.text.tokenizer_checks import published_vocabulary
from tests.pipelines.text.tokenizer_texts import (
    SCALARS,
    SETTINGS,
    VOCABULARIES,
    naughty_strings,
    normalization_cases,
    random_texts,
    rich_vocabulary,
    sharp_vocabulary,
)
from tests.shared_data import shared

from .answer_checks import check_answers, check_probes
from .client_process import ClientError, ClientProcess
from .client_texts import (
    KINDS,
    LONE_SURROGATES,
    LONG_TEXTS,
    ODD_TEXTS,
    PAIR_KINDS,
    TOKENIZERS,
    WRONG_NUMBERS_OF_TEXTS,
    make_examples,
    make_texts,
)
from .conftest import FILES
from .python_client import bert_client
from .runner_process import RunnerProcess, make_runner
from .token_checks import check_tokens, pack_texts, write_tokenizer_folder

pytestmark = pytest.mark.slow

PROJECT = pathlib.Path(__file__).parents[3] / "examples" / "java"
COMPILE = ("javac", "--release", "11", "-Xlint:all", "-Werror")
_SLICE = 1 << 16  # scalar values whose letters fit into the stand-ins of one vocabulary
_NUM_RANDOM = 250_000  # for each published vocabulary
RUNTIMES = pytest.mark.parametrize("runtime", FILES)


def compile_java(out: pathlib.Path, sources: list[pathlib.Path], *class_path: pathlib.Path) -> None:
    options = ("-cp", ":".join(map(str, class_path))) if class_path else ()
    done = subprocess.run([*COMPILE, *options, "-d", out, *sources], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def classes(tmp_path_factory) -> pathlib.Path:
    """The folder with the compiled client and its test program."""
    if shutil.which("javac") is None:
        pytest.skip("javac is not installed")

    def compile_client(path: pathlib.Path) -> None:
        compile_java(path, sorted((PROJECT / "src").glob("*/java/**/*.java")))
        shutil.copytree(PROJECT / "src/main/resources", path, dirs_exist_ok=True)

    return made_once(tmp_path_factory, "java_client", compile_client)


@pytest.fixture(scope="session")
def command(classes) -> list:
    """The test program."""
    return ["java", "-cp", classes, "bertkeras.client.AnswerLines"]


@pytest.fixture
def open_tokenizer(command, tmp_path):
    """Function that starts the test program with a tokenizer."""
    return lambda tokenizer: ClientProcess(command, write_tokenizer_folder(tokenizer, tmp_path / "model"))


@pytest.fixture
def open_client(command, exported):
    """Function that starts the test program with a model."""

    def open_client(kind, runtime, file=None):
        folder = exported(kind) / runtime
        return RunnerProcess(command, folder, make_runner(folder / (file or FILES[runtime])))

    return open_client


# ---------------------------------------------------------------------------------------------------------- tokenizer


@pytest.mark.parametrize("name", TOKENIZERS)
def test_settings_of_the_tokenizer(open_tokenizer, name):
    tokens = [*TOKENIZERS[name].get("additional_special_tokens", ()), *TOKENIZERS[name].get("added_tokens", ())]
    tokenizer = BertTokenizer([*dict.fromkeys([*rich_vocabulary(), *tokens])], **TOKENIZERS[name])
    texts = [*ODD_TEXTS, *LONE_SURROGATES, *LONG_TEXTS, *naughty_strings(), *normalization_cases()]
    with open_tokenizer(tokenizer) as client:
        check_tokens(client, tokenizer, [*texts, *random_texts(10_000, 8)])


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_million_random_texts_with_the_published_vocabularies(open_tokenizer, name):
    tokenizer = BertTokenizer(published_vocabulary(name), lowercase=VOCABULARIES[name])
    texts = random_texts(_NUM_RANDOM, [*VOCABULARIES].index(name))
    with open_tokenizer(tokenizer) as client:
        assert check_tokens(client, tokenizer, [*pack_texts(texts)]) > 2 * len(texts)
        check_tokens(client, tokenizer, [*texts[:2000], *naughty_strings(), *normalization_cases()[::4], *ODD_TEXTS])


@pytest.mark.parametrize("lowercase", [True, False], ids=["uncased", "cased"])
@pytest.mark.parametrize("start", range(0, len(SCALARS), _SLICE))
def test_every_character_in_four_settings(open_tokenizer, start, lowercase):
    scalars = SCALARS[start : start + _SLICE]
    tokenizer = BertTokenizer(sharp_vocabulary(scalars), lowercase=lowercase)
    texts = (setting.format(scalar) for setting in SETTINGS.values() for scalar in scalars)
    with open_tokenizer(tokenizer) as client:
        check_tokens(client, tokenizer, [*pack_texts(texts)])


def test_recorded_cases(open_tokenizer):
    lines = shared("tokenizer_cases/bert_vocab_cases.jsonl").read_text("utf-8").splitlines()
    cases = [json.loads(line) for line in lines]
    for vocabulary in {case["vocab"] for case in cases}:
        chosen = [case for case in cases if case["vocab"] == vocabulary]
        lowercase = chosen[0]["do_lower_case"]
        tokenizer = BertTokenizer.from_vocabulary(shared(f"vocab/{vocabulary}"), lowercase=lowercase)
        with open_tokenizer(tokenizer) as client:
            answers = client.ask_all([{"tokenize": case["text"]} for case in chosen])
            for case, answer in zip(chosen, answers, strict=True):
                assert answer["ids"] == case["ids"][1:-1], case


# ------------------------------------------------------------------------------------------------------------ answers


@RUNTIMES
@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_the_predictor(open_client, client_predictors, exported, kind, runtime):
    with open_client(kind, runtime) as client:
        check_answers(client, client_predictors(kind, runtime), make_examples(kind))
        check_probes(client, exported(kind) / runtime / "model.json")


def test_pairs_of_texts_of_an_embedder_have_a_cosine(open_client, client_predictors):
    with open_client("embedder", "tflite") as client:
        check_answers(client, client_predictors("embedder", "tflite"), make_examples(PAIR_KINDS[0]))


def test_file_with_several_lengths(open_client, client_predictors):
    with open_client("windowed_classifier", "tflite", "model_float32_lengths.tflite") as client:
        check_answers(client, client_predictors("windowed_classifier", "tflite"), make_examples("windowed_classifier"))


@pytest.mark.parametrize("kind", ["windowed_classifier", "token_classifier"])
def test_text_of_99_kb(open_client, client_predictors, kind):
    with open_client(kind, "onnx") as client:
        check_answers(client, client_predictors(kind, "onnx"), LONG_TEXTS[:1])


TASKS_WITH_TIES = (
    {"name": "answer", "max_sequence_length": 19, "window_overlap": 3, "max_question_length": 5, "max_answer_length": 4}
    | {"num_best": 9, "num_logits": 3, "allows_null": True, "null_threshold": 0.0},
    {"name": "tag", "labels": ["O", "B-x", "I-x", "L-x", "U-y"], "scheme": "BILOU"}
    | {"max_sequence_length": 13, "window_overlap": 5},
    {"name": "classify", "problem": "single_label", "has_pairs": False, "labels": ["a", "b", "c", "d", "e"]}
    | {"max_sequence_length": 9, "window_overlap": 2},
    {"name": "classify", "problem": "multi_label", "has_pairs": True, "labels": ["a", "b", "c", "d", "e"]}
    | {"threshold": 0.5, "max_sequence_length": 16, "window_overlap": None},
)


def run_with_ties(task):
    """Return a function that runs a model with few different logits."""

    def run(token_ids, segment_ids):
        rng = np.random.default_rng([*token_ids, *segment_ids])
        shape = {"answer": (len(token_ids),), "tag": (len(token_ids), 5), "classify": (5,)}[task["name"]]
        names = ("start_logits", "end_logits") if task["name"] == "answer" else ("logits",)
        return {name: rng.integers(-1, 2, shape).astype(np.float32) for name in names}

    return run


def assert_equal(answer, expected):
    """Check that two answers are equal, with numbers that differ by rounding only."""
    assert type(answer) is type(expected)
    if isinstance(expected, dict | list):
        assert len(answer) == len(expected)
        for name in expected if isinstance(expected, dict) else range(len(expected)):
            assert_equal(answer[name], expected[name])
    else:
        assert answer == (pytest.approx(expected, abs=1e-12) if isinstance(expected, float) else expected)


@pytest.mark.parametrize("task", TASKS_WITH_TIES, ids=lambda task: task.get("problem", task["name"]))
def test_equal_logits_are_ordered_as_in_the_python_client(command, tmp_path, task):
    tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
    folder = write_tokenizer_folder(tokenizer, tmp_path)
    description = json.loads((folder / "model.json").read_text("utf-8")) | {"task": task}
    (folder / "model.json").write_text(json.dumps(description), encoding="utf-8")
    python = bert_client.BertClient(description, tokenizer.vocabulary, run_with_ties(task))
    texts = [text.encode("ascii", "ignore").decode() for text in make_texts(200, 5)]  # so that ranges are equal
    is_pair = task["name"] == "answer" or task.get("has_pairs", False)
    requests = [*zip(texts, reversed(texts), strict=True)] if is_pair else [(text,) for text in texts]
    with RunnerProcess(command, folder, run_with_ties(task)) as client:
        for request, answer in zip(requests, client.ask_all([{"answer": one} for one in requests]), strict=True):
            expected = python.answer(*request)
            assert_equal(answer, expected)


# ------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(("kind", "texts", "message"), WRONG_NUMBERS_OF_TEXTS)
def test_wrong_number_of_texts_is_an_error(open_client, kind, texts, message):
    with open_client(kind, "onnx") as client:
        with pytest.raises(ClientError, match=message):
            client.ask({"answer": texts})
        assert client.ask({"answer": ["a", "b"][: 3 - len(texts)]})  # the next call works


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        ("tokenizer", {"text_rules": "mediapipe"}, "text rules are 'mediapipe'; this client has 'bert': run it in"),
        ("tokenizer", {"unicode_version": "15.1.0"}, "the model has Unicode 15.1.0; this client has 14.0.0: use the"),
        ("tokenizer", {"lowercase": None}, 'in model.json "lowercase" is null; expected a value of the kind: true or'),
        (None, {"format": 2}, "model.json has the format 2; this client reads 1: use the client of the release"),
        (None, {"task": None}, "the model has no task, so there is nothing to answer: use tokenizer and its outputs"),
    ],
)
def test_model_that_the_client_cannot_run_is_an_error(command, tmp_path, section, change, message):
    tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    folder = write_tokenizer_folder(tokenizer, tmp_path)
    description = json.loads((folder / "model.json").read_text("utf-8"))
    (description if section is None else description[section]).update(change)
    (folder / "model.json").write_text(json.dumps(description), encoding="utf-8")
    with pytest.raises(ClientError, match=message), ClientProcess(command, folder) as client:
        client.ask({"answer": ["the cat"]})


@pytest.mark.parametrize("text", ["", "{", '{"a" 1}', '"\\x"', '"\\u12"', "[1,]", "1 2", "tru", '"a'])
def test_invalid_json_is_an_error(command, tmp_path, text):
    (tmp_path / "model.json").write_text(text, encoding="utf-8")
    with pytest.raises(ClientError, match=r"invalid JSON at character \d+; expected "):
        ClientProcess(command, tmp_path)


# ------------------------------------------------------------------------------------------------------------ package


@pytest.mark.parametrize("library", ["android", "onnxruntime"])
def test_runners_compile_with_the_signatures_of_their_libraries(classes, tmp_path, library):
    stubs = sorted((PROJECT / "src/test" / f"{library}_stubs").glob("**/*.java"))
    assert stubs
    compile_java(tmp_path, [*stubs, *(PROJECT / library).glob("*.java")], classes)


def test_the_client_uses_nothing_that_old_android_lacks():
    lacking = ("java.nio.file", "java.util.stream", "java.util.function", "String.join", "List.of", "Map.of", "Set.of")
    lacking += (".getOrDefault", ".computeIfAbsent", ".putIfAbsent", ".readAllBytes", ".isBlank", ".strip()", ".sort(n")
    lacking += ("Comparator.comparing", ".forEach(", "Objects.requireNonNullElse", "Optional")
    for path in [*(PROJECT / "src/main").glob("**/*.java"), *(PROJECT / "android").glob("*.java")]:
        text = path.read_text("utf-8")
        assert not [name for name in lacking if name in text], path
