"""Exports with a trimmed vocabulary: the same answers from a smaller token table."""

import dataclasses
import json
import pathlib
import random

import numpy as np
import pytest
from tokenizers import BertWordPieceTokenizer

import bert_keras as bk
from bert_keras.checkpoints.kept_tokens import choose_tokens, trim_checkpoint
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.errors import InputError, ParityError
from bert_keras.export.artifacts import load_reference
from bert_keras.export.parity.probe_inputs import IdSequence
from bert_keras.export.verify import verify
from bert_keras.export.vocabulary_trimming import (
    check_equal_outputs,
    count_changed_examples,
    is_trimmed_vocabulary,
)
from bert_keras.heads.classify.task import TextExample
from bert_keras.heads.embed.task import SentenceEmbedding
from bert_keras.pipelines.corpus.text_sources import find_sources, read_lines
from tests.export.conftest import build
from tests.marks import slow_except

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = [*"abcdé東ж", *(f"##{letter}" for letter in "abcdéж"), ".", ",", "#"]
WORDS = ["ab", "abc", "##bc", "cab", "dab", "##ad", "##d.", "bad", "éab", "жa", "東京", "##東"]
TOKENS = [*SPECIAL, "[unused1]", *WORDS[:5], *LETTERS, "[E1]", *WORDS[5:], "added"]
TEXTS = ["Cab dab. [E1]", "", "cabab éé"]  # of the vocabulary's words: cab, dab; é is stripped to e, which has no token
KINDS = ("encoder", "classifier", "embedder", "token_classifier", "question_answerer", "masked_lm", "pretrainer")


@pytest.fixture(scope="module")
def tokenizer():
    return bk.BertTokenizer(
        TOKENS, additional_special_tokens=["[E1]"], added_tokens=["added"], lowercase=True, max_sequence_length=19
    )


@pytest.fixture
def make_folder(sizes, tokenizer, tmp_path):
    """Function that writes a checkpoint of a kind; its token table has 3 rows more than the vocabulary."""

    def make(kind):
        model = make_electra(sizes) if kind == "electra_with_generator" else build(kind, sizes)
        bk.save(model, tokenizer, tmp_path / kind)
        return tmp_path / kind

    return make


@pytest.fixture(scope="module")
def sizes(tokenizer):
    """Sizes of the models, with 3 more rows of the token table than tokens."""
    return bk.BertConfig(
        vocabulary_size=len(TOKENS) + 3,
        num_layers=1,
        num_heads=3,
        hidden_dim=36,
        intermediate_dim=40,
        max_sequence_length=19,
        initializer_range=0.3,
    )


def make_electra(config):
    return bk.ElectraPretrainer(bk.BertEncoder(config, pooler=False), generator_config=config)


@pytest.fixture
def file(tmp_path):
    """Function that writes texts to a file, one per line."""

    def write(*texts):
        path = tmp_path / "texts.txt"
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        return path

    return write


def choose(tokenizer, path, task=None):
    sources = find_sources(path)
    return choose_tokens(tokenizer, task, read_lines(sources), sources)


def trim(tokenizer, vocabulary):
    """Return a tokenizer with the same rules and fewer tokens."""
    return bk.BertTokenizer(
        vocabulary,
        lowercase=tokenizer.lowercase,
        strip_accents=tokenizer.rules.strip_accents,
        text_rules=tokenizer.rules.text_rules,
        additional_special_tokens=tokenizer.special_tokens[5:],
        added_tokens=tokenizer.added_tokens,
    )


def test_kept_are_used_special_and_added_tokens_and_single_characters_in_the_old_order(tokenizer, file):
    kept = choose(tokenizer, file(*TEXTS))
    used = {"cab", "dab", "ab", "##bc"} & {*kept.vocabulary}
    assert used == {"cab", "dab"}
    letters = [token for token in LETTERS if token.removeprefix("##") not in "東ж"]
    expected = {*SPECIAL, "[E1]", "added", "cab", "dab", *letters}
    assert kept.vocabulary == tuple(token for token in TOKENS if token in expected)
    assert kept.num_texts == 2  # blank lines are none


def test_ids_equal_those_of_hugging_faces_wordpiece_with_the_trimmed_vocabulary(file, tmp_path):
    whole = bk.BertTokenizer([*SPECIAL, *WORDS, *LETTERS, "e", "##e", "東", "a"][:-2])
    kept = choose(whole, file("cab abc", "東京 dab."))
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in kept.vocabulary), encoding="utf-8")
    theirs = BertWordPieceTokenizer(str(tmp_path / "vocab.txt"), lowercase=True)
    ours = trim(whole, kept.vocabulary)
    texts = ["Cab abc", "東京 dab.", "bad жa", "abcd, abbc", "éab 京", "cabad", "", *draw_texts(60)]
    expected = [theirs.encode(text, add_special_tokens=False).ids for text in texts]
    assert ours.tokenize(texts).to_list() == expected
    assert len({token for ids in expected for token in ids}) > 10


def draw_texts(number, seed=7):
    draw = random.Random(seed)
    words = ("".join(draw.choices("aabbccddé東ж.A# ", k=draw.randint(1, 7))) for _ in range(9 * number))
    words = list(words)
    return [" ".join(words[9 * n : 9 * n + draw.randint(1, 9)]) for n in range(number)]


RULES = {"uncased": {}, "cased": {"lowercase": False}, "mediapipe": {"text_rules": "mediapipe"}}


@pytest.mark.parametrize("rules", slow_except(RULES, quick=["uncased"]))
def test_texts_with_kept_tokens_only_get_the_same_tokens(rules, file):
    """Random vocabularies, texts to trim for, whose words may be unknown, and other words, which must be known."""
    draw, num_equal = random.Random(3), 0
    for _ in range(2):
        tokens = {"".join(draw.choices("abcdé", k=draw.randint(1, 4))) for _ in range(25)}
        tokens |= {f"##{''.join(draw.choices('abcdé', k=draw.randint(1, 3)))}" for _ in range(20)}
        whole = bk.BertTokenizer([*SPECIAL, *draw.sample(sorted(tokens), len(tokens))], **RULES[rules])
        texts = draw_texts(14, seed=draw.random())
        texts[7:] = " ".join(texts[7:]).split()
        kept = choose(whole, file("a", *texts[:7]))
        trimmed, ids = trim(whole, kept.vocabulary), {token: i for i, token in enumerate(whole.vocabulary)}
        old_ids = [ids[token] for token in kept.vocabulary]
        assert old_ids == sorted(old_ids)
        before, after = whole.tokenize(texts).to_list(), trimmed.tokenize(texts).to_list()
        back = [[old_ids[token] for token in text] for text in after]
        assert back[:7] == before[:7]
        for one, other in zip(before[7:], back[7:], strict=True):
            if {*one} <= {*old_ids} - {whole.unk_id}:
                assert one == other
                num_equal += 1
    assert num_equal > 10


def test_an_unknown_word_of_the_texts_stays_unknown(file):
    whole = bk.BertTokenizer([*SPECIAL, "a", "ab", "##bc", "xa", "##b"])
    assert whole.tokenize(["abc", "xabc"]).to_list() == [[whole.unk_id], [8, 7]]  # "ab" and no "##c"; "xa ##bc"
    kept = choose(whole, file("abc xabc"))
    assert {"ab", "##bc"} <= {*kept.vocabulary}
    without = [token for token in kept.vocabulary if token != "ab"]
    assert trim(whole, without).tokenize(["abc"]).to_list() != [[whole.unk_id]]
    assert trim(whole, kept.vocabulary).tokenize(["abc"]).to_list() == [[whole.unk_id]]


def test_tokens_of_prompts_are_kept(tokenizer, file):
    task = SentenceEmbedding(prompts={"query": "bad ", "passage": "ab "}, default_prompt_name="query")
    vocabulary = choose(tokenizer, file("cab"), task).vocabulary
    assert {"bad", "cab", "ab"} <= {*vocabulary}
    assert "dab" not in vocabulary


@pytest.mark.parametrize(
    "kind", slow_except([*KINDS, "electra", "electra_with_generator"], quick=["classifier", "masked_lm"])
)
def test_outputs_are_those_of_the_whole_model(kind, make_folder, file):
    checkpoint = read_checkpoint(make_folder(kind))
    whole = load_reference(checkpoint)
    kept = choose(whole.tokenizer, file(*TEXTS), whole.task)
    trimmed = load_reference(checkpoint, vocabulary=kept.vocabulary)
    check_equal_outputs(whole, trimmed, kept.first_texts)
    rows = [TOKENS.index(token) for token in kept.vocabulary]
    assert trimmed.config.vocabulary_size == trimmed.tokenizer.vocabulary_size == len(rows) < len(TOKENS)
    new_ids = np.random.default_rng(1).integers(0, len(rows), (4, 9)).astype(np.int32)
    for ids in new_ids:
        segments = np.arange(9, dtype=np.int32) // 5
        expected = whole.compute_outputs(IdSequence(np.array(rows, np.int32)[ids], segments))
        for name, values in trimmed.compute_outputs(IdSequence(ids, segments)).items():
            wanted = expected[name] if values.shape == expected[name].shape else expected[name][..., rows]
            np.testing.assert_allclose(values, wanted, atol=1e-6, rtol=1e-6)
            assert kind not in ("masked_lm", "pretrainer") or "logits" in name
    if kind == "electra_with_generator":
        bias = trimmed.model.generator.mlm_head.bias
        np.testing.assert_array_equal(bias, np.asarray(whole.model.generator.mlm_head.bias)[rows])


def test_a_difference_is_a_parity_error(make_folder, file):
    checkpoint = read_checkpoint(make_folder("classifier"))
    whole = load_reference(checkpoint)
    kept = choose(whole.tokenizer, file(*TEXTS), whole.task)
    trimmed = load_reference(checkpoint, vocabulary=kept.vocabulary)
    with pytest.raises(ParityError, match="splits 'bad' into other tokens; nothing was published"):
        check_equal_outputs(whole, trimmed, ["cab", "bad"])
    table = trimmed.model.encoder.embeddings.token.embeddings
    change = np.zeros(table.shape, "float32")
    change[kept.vocabulary.index("dab"), ::2] = 0.01
    table.assign_add(change)
    check_equal_outputs(whole, trimmed, ["cab"])
    with pytest.raises(ParityError, match="has other logits for 'dab' than the checkpoint; nothing was published"):
        check_equal_outputs(whole, trimmed, ["cab", "dab"])


def test_examples_with_other_tokens_are_counted(make_folder, file, tokenizer):
    for kind in ("classifier", "embedder"):
        checkpoint = read_checkpoint(make_folder(kind))
        whole = load_reference(checkpoint)
        trimmed = load_reference(checkpoint, vocabulary=choose(whole.tokenizer, file(*TEXTS), whole.task).vocabulary)
        texts = ["cab dab", "bad", "cab ab ab", "", "dab " * 30 + "bad"]  # the last one is truncated before "bad"
        examples = [TextExample(text, label="rot") for text in texts]
        assert count_changed_examples(whole, trimmed, examples) == 2
        if kind == "embedder":
            pairs = [TextExample("cab", "bad"), TextExample("bad", "ab"), TextExample("cab", "dab")]
            assert count_changed_examples(whole, trimmed, pairs) == 2


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda tokens: [token for token in tokens if token != "bad"], True),
        (lambda tokens: tokens, False),
        (lambda tokens: [token for token in tokens if token != "[E1]"], False),
        (lambda tokens: [token for token in tokens if token != "added"], False),
        (lambda tokens: [*tokens[:-3], tokens[-1], tokens[-2]], False),
        (lambda tokens: [*tokens[:-4], "new", "added"], False),
        (lambda tokens: [], False),
    ],
)
def test_trimmed_vocabularies_are_recognized(change, expected, tokenizer):
    assert is_trimmed_vocabulary(change(TOKENS), tokenizer) is expected


@pytest.fixture(scope="module")
def exported(sizes, tokenizer, tmp_path_factory):
    """Folder with a classifier and its export with a trimmed vocabulary."""
    folder = tmp_path_factory.mktemp("trimmed")
    bk.save(build("classifier", dataclasses.replace(sizes, vocabulary_size=len(TOKENS))), tokenizer, folder / "model")
    (folder / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    settings = {"trim_vocabulary": folder / "texts.txt", "quantizations": ("float32",)}
    examples = [TextExample(text, label="rot") for text in ("cab", "bad")]
    report = bk.export_model(folder / "model", folder / "out", ["tflite"], examples=examples, **settings)
    return folder, report


def test_an_export_reports_what_was_trimmed(exported):
    folder, report = exported
    vocabulary = (folder / "out/tflite/vocab.txt").read_text("utf-8").split("\n")[:-1]
    parity = json.loads((folder / "out/parity.json").read_text())["artifacts"]["tflite/model_float32.tflite"]
    assert parity == report["artifacts"]["tflite/model_float32.tflite"]
    before, after = (count_parameters(tokens) for tokens in (TOKENS, vocabulary))
    assert parity["trimmed_vocabulary"] == {
        "num_tokens_before": len(TOKENS),
        "num_tokens_after": len(vocabulary),
        "num_texts": 2,
        "removed_parameters": round(1 - after / before, 4),
        "num_examples": 2,
        "num_changed_examples": 1,
    }
    assert set(parity["scores"]) >= {"checkpoint", "file"}


def count_parameters(tokens):
    """Count the weights of the exported classifier by hand, from the sizes above."""
    embeddings = (len(tokens) + 19 + 2) * 36 + 72
    block = 4 * (36 * 36 + 36) + 36 * 40 + 40 + 40 * 36 + 36 + 2 * 72
    return embeddings + block + 36 * 36 + 36 + 36 * 3 + 3


def test_verify_trims_the_checkpoint_in_the_same_way(exported, in_this_process, tmp_path):
    folder, _ = exported
    [report] = verify(folder / "out", folder / "model").values()
    assert report["passed"]
    content = (folder / "out/tflite/vocab.txt").read_text("utf-8")
    (tmp_path / "model.tflite").write_bytes((folder / "out/tflite/model_float32.tflite").read_bytes())
    (tmp_path / "vocab.txt").write_text(
        content.replace("\ncab\n", "\nbad\n"), encoding="utf-8"
    )  # a row of another token
    tokens = content.replace("\ncab\n", "\n").split("\n")[:-1]
    tokens = [token for token in TOKENS if token in {*tokens, "bad"}]
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    [report] = verify(tmp_path / "model.tflite", folder / "model").values()
    assert not report["passed"]


@pytest.mark.slow  # the quick tests export TFLite only
@pytest.mark.parametrize("kind", ["classifier", "masked_lm", "embedder"])
def test_all_artifacts_have_the_trimmed_vocabulary_and_can_be_verified(kind, make_folder, file, in_this_process):
    folder = make_folder(kind)
    out = folder.parent / "out"
    bk.export_model(folder, out, ["saved_model", "tflite", "onnx"], trim_vocabulary=file(*TEXTS))
    vocabulary = (out / "tflite/vocab.txt").read_bytes()
    assert (out / "onnx/vocab.txt").read_bytes() == vocabulary
    assert (out / "saved_model/1/assets.extra/model/vocab.txt").read_bytes() == vocabulary
    reports = verify(out, folder)
    assert {pathlib.Path(path).suffix for path in reports} == {"", ".tflite", ".onnx"}
    assert all(report["passed"] for report in reports.values())
    if kind != "masked_lm":
        texts = ["cab dab", "Dab. [E1] cab"]
        whole, served = bk.Predictor.from_checkpoint(folder), bk.Predictor.from_artifact(out / "onnx")
        key = "embedding" if kind == "embedder" else "probabilities"
        for one, other in zip(whole(texts), served(texts), strict=True):
            numbers = [[*answer.values()] if isinstance(answer, dict) else answer for answer in (one[key], other[key])]
            np.testing.assert_allclose(*numbers, atol=1e-5)


def test_a_checkpoint_whose_tokens_are_all_kept_is_not_changed(make_folder):
    checkpoint = read_checkpoint(make_folder("encoder"))
    assert trim_checkpoint(checkpoint, TOKENS) is checkpoint  # with the rows of its token table that have no token


BAD = {
    "missing": (lambda folder: folder / "no.txt", r"no\.txt does not exist; expected a UTF-8 text file or a folder"),
    "empty": (lambda folder: write(folder / "empty.txt", ""), r"empty\.txt has no text; .*: name another file"),
    "blank": (lambda folder: write(folder / "blank.txt", " \n\n"), r"blank\.txt has no text"),
    "no tokens": (
        lambda folder: write(folder / "marks.txt", "\u200b\n\u0301\n"),
        r"the texts to trim the vocabulary for, .*marks\.txt, have no tokens; expected texts .*: name another file",
    ),
    "folder of blank files": (
        lambda folder: write(folder / "blank/a.txt", "").parent,
        r"blank/a\.txt, have no tokens; expected texts",
    ),
    "no files": (lambda folder: [], r"an empty list, have no tokens"),
    "not text": (lambda folder: write(folder / "a.jsonl", "{}"), r"a\.jsonl, line 1: there is no field 'text'"),
}


def write(path, content):
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", BAD)
def test_bad_texts_are_reported_before_anything_is_written(name, exported, tmp_path):
    make, pattern = BAD[name]
    with pytest.raises(InputError, match=pattern):
        bk.export_model(exported[0] / "model", tmp_path / "out", ["tflite"], trim_vocabulary=make(tmp_path))
    assert not (tmp_path / "out").exists()
