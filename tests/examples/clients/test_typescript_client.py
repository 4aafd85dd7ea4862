"""`examples/typescript` in Node, compared with `BertTokenizer` and `Predictor`.

cd examples/typescript && npm ci
"""

import json
import pathlib
import shutil
import subprocess

import pytest

from bert_keras.pipelines.text.tokenizer import BertTokenizer
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
)
from .conftest import FILES
from .token_checks import check_tokens, pack_texts, write_tokenizer_folder

pytestmark = pytest.mark.slow

PACKAGE = pathlib.Path(__file__).parents[3] / "examples" / "typescript"
_SLICE = 1 << 16  # scalar values whose letters fit into the stand-ins of one vocabulary
_NUM_RANDOM = 1_000_000
RUNTIMES = pytest.mark.parametrize("runtime", FILES)


@pytest.fixture(scope="session")
def command(tmp_path_factory) -> list:
    """The test program of the compiled package."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if not (PACKAGE / "node_modules").is_dir():
        pytest.skip("the packages are not installed: run npm ci in examples/typescript")

    def compile_package(path: pathlib.Path) -> None:
        done = subprocess.run(["npm", "run", "build"], cwd=PACKAGE, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        path.touch()

    made_once(tmp_path_factory, "typescript_client", compile_package)
    return ["node", PACKAGE / "test" / "answer_lines.mjs"]


@pytest.fixture
def open_tokenizer(command, tmp_path):
    """Function that starts the test program with a tokenizer."""
    return lambda tokenizer: ClientProcess(command, write_tokenizer_folder(tokenizer, tmp_path / "model"))


@pytest.fixture
def open_client(command, exported):
    """Function that starts the test program with a model."""
    return lambda kind, runtime, file=None: ClientProcess(
        command, exported(kind) / runtime, FILES[runtime] if file is None else file
    )


# ---------------------------------------------------------------------------------------------------------- tokenizer


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_million_random_texts_have_the_tokens_of_bert_tokenizer(open_tokenizer, name):
    seed = [*TOKENIZERS].index(name)
    tokenizer = BertTokenizer(_add_tokens(**TOKENIZERS[name]), **TOKENIZERS[name])
    texts = random_texts(-(-_NUM_RANDOM // len(TOKENIZERS)), seed)
    with open_tokenizer(tokenizer) as client:
        assert check_tokens(client, tokenizer, [*pack_texts(texts)]) > 2 * len(texts)
        check_tokens(client, tokenizer, texts[:2000])


@pytest.mark.parametrize("name", TOKENIZERS)
def test_odd_texts_have_the_tokens_of_bert_tokenizer(open_tokenizer, name):
    tokenizer = BertTokenizer(_add_tokens(**TOKENIZERS[name]), **TOKENIZERS[name])
    texts = [*ODD_TEXTS, *LONE_SURROGATES, *LONG_TEXTS, *naughty_strings(), *normalization_cases()]
    with open_tokenizer(tokenizer) as client:
        check_tokens(client, tokenizer, texts)


@pytest.mark.parametrize("lowercase", [True, False], ids=["uncased", "cased"])
@pytest.mark.parametrize("start", range(0, len(SCALARS), _SLICE))
def test_every_character_in_four_settings(open_tokenizer, start, lowercase):
    scalars = SCALARS[start : start + _SLICE]
    tokenizer = BertTokenizer(sharp_vocabulary(scalars), lowercase=lowercase)
    texts = (setting.format(scalar) for setting in SETTINGS.values() for scalar in scalars)
    with open_tokenizer(tokenizer) as client:
        check_tokens(client, tokenizer, [*pack_texts(texts)])


@pytest.mark.parametrize("name", VOCABULARIES)
def test_published_vocabularies(open_tokenizer, name):
    tokenizer = BertTokenizer(published_vocabulary(name), lowercase=VOCABULARIES[name])
    texts = [*naughty_strings(), *normalization_cases(), *random_texts(20_000, 9), *ODD_TEXTS, *LONE_SURROGATES]
    with open_tokenizer(tokenizer) as client:
        check_tokens(client, tokenizer, texts)


@pytest.mark.parametrize("is_uncased", [True, False], ids=["uncased", "cased"])
def test_recorded_cases(open_tokenizer, is_uncased):
    lines = shared("tokenizer_cases/bert_vocab_cases.jsonl").read_text("utf-8").splitlines()
    cases = [case for case in map(json.loads, lines) if case["do_lower_case"] == is_uncased and "ids" in case]
    assert cases
    for vocabulary in {case["vocab"] for case in cases}:
        tokenizer = BertTokenizer.from_vocabulary(shared(f"vocab/{vocabulary}"), lowercase=is_uncased)
        chosen = [case for case in cases if case["vocab"] == vocabulary]
        with open_tokenizer(tokenizer) as client:
            answers = client.ask_all([{"tokenize": case["text"]} for case in chosen])
            for case, answer in zip(chosen, answers, strict=True):
                assert answer["ids"] == case["ids"][1:-1], case


def _add_tokens(additional_special_tokens=(), added_tokens=(), **_) -> list[str]:
    """Return `rich_vocabulary` with these tokens."""
    return list(dict.fromkeys([*rich_vocabulary(), *additional_special_tokens, *added_tokens]))


# ------------------------------------------------------------------------------------------------------------ answers


@RUNTIMES
@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_the_predictor(open_client, client_predictors, kind, runtime):
    with open_client(kind, runtime) as client:
        check_answers(client, client_predictors(kind, runtime), make_examples(kind))


@RUNTIMES
@pytest.mark.parametrize("kind", KINDS)
def test_probes(open_client, exported, kind, runtime):
    with open_client(kind, runtime) as client:
        check_probes(client, exported(kind) / runtime / "model.json")


def test_file_with_several_lengths(open_client, client_predictors):
    kind = "windowed_classifier"
    with open_client(kind, "tflite", "model_float32_lengths.tflite") as client:
        check_answers(client, client_predictors(kind, "tflite"), make_examples(kind))


@RUNTIMES
def test_pairs_of_texts_of_an_embedder_have_a_cosine(open_client, client_predictors, runtime):
    with open_client("embedder", runtime) as client:
        check_answers(client, client_predictors("embedder", runtime), make_examples(PAIR_KINDS[0]))


@pytest.mark.parametrize("kind", ["windowed_classifier", "token_classifier"])
def test_text_of_99_kb(open_client, client_predictors, kind):
    with open_client(kind, "onnx") as client:
        check_answers(client, client_predictors(kind, "onnx"), LONG_TEXTS[:1])


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
        (
            "tokenizer",
            {"text_rules": "mediapipe"},
            "text rules are 'mediapipe'; this client has 'bert': run it in",
        ),
        ("tokenizer", {"unicode_version": "15.1.0"}, r"the model has Unicode 15.1.0; this client has 14.0.0: use the"),
        (None, {"format": 2}, "model.json has the format 2; this client reads 1: use the client of the release"),
        (None, {"task": None}, "the model has no task, so there is nothing to answer: use tokenizer and its outputs"),
        (None, {"files": [{"path": "x.onnx"}]}, "model.json has no file 'onnx/model.onnx'; expected one of x.onnx"),
    ],
)
def test_model_that_the_client_cannot_run_is_an_error(command, exported, tmp_path, section, change, message):
    folder = shutil.copytree(exported("classifier") / "onnx", tmp_path / "onnx")
    description = json.loads((folder / "model.json").read_text("utf-8"))
    (description if section is None else description[section]).update(change)
    (folder / "model.json").write_text(json.dumps(description))
    with pytest.raises(ClientError, match=message), ClientProcess(command, folder, FILES["onnx"]) as client:
        client.ask({"answer": ["the cat"]})


# ------------------------------------------------------------------------------------------------------------ package


@RUNTIMES
def test_thousands_of_answers_at_the_same_time_need_no_more_memory(command, exported, runtime):
    folder = exported("classifier") / runtime
    done = subprocess.run(
        ["node", "--expose-gc", PACKAGE / "test" / "watch_memory.mjs", folder], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    growth = json.loads(done.stdout.splitlines()[-1])
    assert growth["num_different"] == 0
    assert growth["bytes"] < 1e6  # 1e5 measured; 35e6 if the inputs are not freed, and 3.6e6 if the outputs are not


def test_only_the_module_for_node_imports_node(command):
    files = [path for path in (PACKAGE / "dist").glob("*.js") if path.name != "node.js"]
    assert len(files) == 9
    assert not [path.name for path in files if '"node:' in path.read_text("utf-8")]


def test_package_has_no_dependencies():
    package = json.loads((PACKAGE / "package.json").read_text("utf-8"))
    assert not package.get("dependencies")
    assert "http" not in (PACKAGE / "package-lock.json").read_text("utf-8").replace('"url": "http', "")
