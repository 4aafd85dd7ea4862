"""`examples/python`, compared with `BertTokenizer` and `Predictor`."""

import json
import re
import shutil

import pytest

from bert_keras.export.client_bundle.client_description import ModelFile, build_client_description
from bert_keras.export.tflite.to_tflite import SIGNATURE, write_tflite
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.vocabulary import encode_vocabulary
from tests.export.conftest import LENGTH
from tests.made_once import made_once
from tests.marks import slow_except
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

from .answer_checks import check_answers, check_probes
from .client_texts import KINDS, LONE_SURROGATES, LONG_TEXTS, ODD_TEXTS, PAIR_KINDS, TOKENIZERS, make_examples
from .conftest import FILES
from .python_client import PythonClient, bert_client
from .token_checks import check_tokens, pack_texts, write_tokenizer_folder

FILE = FILES["tflite"]
_SLICE = 1 << 16  # scalar values whose letters fit into the stand-ins of one vocabulary
QUICK_TOKENIZERS = ("uncased", "special tokens")
QUICK_KINDS = ("windowed_classifier", "token_classifier", "null_answerer")

# ---------------------------------------------------------------------------------------------------------- tokenizer


def make_tokenizer(name, **changes):
    settings = TOKENIZERS[name] | changes
    tokens = [*settings.get("additional_special_tokens", ()), *settings.get("added_tokens", ())]
    return BertTokenizer([*dict.fromkeys([*rich_vocabulary(), *tokens])], **settings)


@pytest.fixture
def open_tokenizer(tmp_path):
    """Function that returns the client with a tokenizer."""
    return lambda tokenizer: PythonClient(write_tokenizer_folder(tokenizer, tmp_path / "model"))


@pytest.mark.parametrize("name", slow_except(TOKENIZERS, quick=QUICK_TOKENIZERS))
def test_tokens_equal_those_of_bert_tokenizer(open_tokenizer, name):
    tokenizer = make_tokenizer(name)
    texts = [
        *random_texts(500, 31),
        *ODD_TEXTS,
        *LONE_SURROGATES,
        *naughty_strings()[::5],
        *normalization_cases()[::50],
    ]
    assert check_tokens(open_tokenizer(tokenizer), tokenizer, texts) > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("name", TOKENIZERS)
def test_tokens_of_many_texts_equal_those_of_bert_tokenizer(open_tokenizer, name):
    tokenizer = make_tokenizer(name)
    texts = [*LONG_TEXTS, *naughty_strings(), *normalization_cases(), *pack_texts(random_texts(30_000, 32))]
    assert check_tokens(open_tokenizer(tokenizer), tokenizer, texts) > 100_000


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(SCALARS), _SLICE))
def test_every_character_in_four_settings(open_tokenizer, start):
    scalars = SCALARS[start : start + _SLICE]
    tokenizer = BertTokenizer(sharp_vocabulary(scalars))
    texts = (setting.format(scalar) for setting in SETTINGS.values() for scalar in scalars)
    check_tokens(open_tokenizer(tokenizer), tokenizer, [*pack_texts(texts)])


@pytest.mark.slow
@pytest.mark.parametrize("name", VOCABULARIES)
def test_published_vocabularies(open_tokenizer, name):
    tokenizer = BertTokenizer(published_vocabulary(name), lowercase=VOCABULARIES[name])
    texts = [*naughty_strings(), *pack_texts(random_texts(50_000, 33))]
    assert check_tokens(open_tokenizer(tokenizer), tokenizer, texts) > 200_000


# ------------------------------------------------------------------------------------------------------------ answers


@pytest.fixture(scope="session")
def client_folder(client_models, client_predictors, tmp_path_factory):
    """Function that returns the folder of a kind with a TFLite file, as an export writes it, but in less time."""

    def write(kind, folder):
        model, tokenizer, _ = client_models(kind)
        folder.mkdir()
        write_tflite(model, folder / FILE, length=LENGTH)
        (folder / "vocab.txt").write_bytes(encode_vocabulary(tokenizer.vocabulary))
        description = build_client_description(
            "tiny",
            "tflite",
            files=[ModelFile(FILE, "float32", (folder / FILE).stat().st_size, {SIGNATURE: LENGTH})],
            inputs=[],
            outputs=[],
            tokenizer=tokenizer,
            task=client_predictors(kind, "tflite").task,
            probes=[],
        )
        (folder / "model.json").write_text(json.dumps(description), encoding="utf-8")

    return lambda kind: made_once(tmp_path_factory, f"{kind}.client", lambda folder: write(kind, folder))


@pytest.mark.parametrize("kind", slow_except(KINDS, quick=QUICK_KINDS))
def test_answers_are_those_of_the_predictor(client_folder, client_predictors, kind):
    check_answers(PythonClient(client_folder(kind), FILE), client_predictors(kind, "tflite"), make_examples(kind))


def test_pairs_of_texts_of_an_embedder_have_a_cosine(client_folder, client_predictors):
    client = PythonClient(client_folder("embedder"), FILE)
    check_answers(client, client_predictors("embedder", "tflite"), make_examples(PAIR_KINDS[0]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_probes_of_exported_folders(exported, kind):
    folder = exported(kind) / "tflite"
    check_probes(PythonClient(folder, FILE), folder / "model.json")


@pytest.mark.slow
def test_file_with_several_lengths(exported, client_predictors):
    client = PythonClient(exported("windowed_classifier") / "tflite", "model_float32_lengths.tflite")
    predictor = client_predictors("windowed_classifier", "tflite")
    check_answers(client, predictor, [*make_examples("windowed_classifier"), LONG_TEXTS[0]])


# ------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        ("tokenizer", {"text_rules": "mediapipe"}, "text rules are 'mediapipe'; this client has 'bert': run it in"),
        ("tokenizer", {"unicode_version": "15.1.0"}, "the model has Unicode 15.1.0; this client has 14.0.0: use the"),
        (None, {"format": 2}, "model.json has the format 2; this client reads 1: use the client of the release"),
        (None, {"task": None}, "the model has no task, so there is nothing to answer: use tokenizer and its outputs"),
        (None, {"files": [{"path": "x"}]}, f"model.json has no file '{FILE}'; expected one of x: choose one of these"),
    ],
)
def test_model_that_the_client_cannot_run_is_an_error(client_folder, tmp_path, section, change, message):
    folder = shutil.copytree(client_folder("embedder"), tmp_path / "tflite")
    description = json.loads((folder / "model.json").read_text("utf-8"))
    (description if section is None else description[section]).update(change)
    (folder / "model.json").write_text(json.dumps(description), encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(message)):
        bert_client.BertClient.load(folder, FILE).answer("the cat")


@pytest.mark.parametrize(
    ("task", "texts", "message"),
    [
        ({"name": "answer"}, ["a"], "a question needs a context, and there is none"),
        ({"name": "tag"}, ["a", "b"], "tagging needs single texts, and a second text was given"),
        ({"name": "classify", "has_pairs": True}, ["a"], "the model classifies pairs of texts, and there is one text"),
        ({"name": "classify", "has_pairs": False}, ["a", "b"], "the model classifies single texts, and a second text"),
    ],
)
def test_wrong_number_of_texts_is_an_error(client_folder, task, texts, message):
    client = bert_client.BertClient.load(client_folder("embedder"))
    client.task = task
    with pytest.raises(ValueError, match=message):
        client.answer(*texts)
