"""Tokenizer options of `learn-vocab`: later commands apply the stored special tokens, casing, accents, splitting."""

import json
import pathlib
import random
import re
import shutil

import pytest
import tensorflow as tf
from tokenizers import Tokenizer, normalizers

import bert_keras as bk
from bert_keras.cli.main import main
from bert_keras.pipelines.records.manifest import list_shard_paths, read_manifest
from bert_keras.pipelines.records.record import parse_records
from bert_keras.pipelines.text.vocabulary import read_vocabulary
from tests import pud
from tests.marks import slow, slow_except

MARKED = ["[E1] the cat [/E1] sat", "a [E1]mat[/E1].", "no token, [E1 or E1]", "the [/E1][E1] cat sat"] * 3
OPTIONS = {
    "uncased": ([], {"lowercase": True, "strip_accents": True}),
    "accents": (["--no-strip-accents"], {"lowercase": True, "strip_accents": False}),
    "cased": (["--cased"], {"lowercase": False, "strip_accents": False}),
    "cased_stripped": (["--cased", "--strip-accents"], {"lowercase": False, "strip_accents": True}),
    "unsplit": (
        ["--no-chinese-split"],
        {"lowercase": True, "strip_accents": True, "handle_chinese_chars": False},
    ),
}


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    """Empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(capsys):
    """Function that runs a command on single-sentence documents; returns its JSON result and standard error."""

    def run(command, *arguments, sentences=None):
        if sentences is not None:
            with open("text.txt", "w", encoding="utf-8") as file:
                file.write("\n\n".join(sentences))
            arguments = (*arguments, "--text", "text.txt")
        capsys.readouterr()
        status = main([command, *map(str, arguments), "--json"])
        printed = capsys.readouterr()
        assert status == 0, printed.err
        return json.loads(printed.out), printed.err

    return run


def learn(run, sentences, *options, size=900):
    return run("learn-vocab", "vocab.txt", "--size", size, *options, sentences=sentences)


def make(run, sentences, *options):
    """Write records of one sentence each, in order."""
    apart = ("--objective", "none", "--keep-documents-apart", "--held-out-rate", 0, "--max-sequence-length", 512)
    return run("make-records", "vocab.txt", "records", *apart, *options, sentences=sentences)


def read_record_ids():
    records = tf.data.TFRecordDataset(list_shard_paths("records", read_manifest("records")))
    ids = parse_records(tf.constant([record.numpy() for record in records]))["token_ids"].to_list()
    return [sequence[1:-1] for sequence in ids]


def encode_with_hugging_face(sentences):
    tokenizer = Tokenizer.from_file("records/tokenizer.json")
    return [tokenizer.encode(sentence, add_special_tokens=False).ids for sentence in sentences]


def test_special_tokens_of_a_vocabulary_are_never_split_in_records(run):
    learn(run, MARKED, "--special-token", "[E1]", "--special-token", "[/E1]")
    vocabulary = read_vocabulary("vocab.txt")
    assert vocabulary[5:7] == ["[E1]", "[/E1]"]
    result, printed = make(run, MARKED)
    assert result["quality"] == {
        "unknown_token_share": 0.0,
        "alphabet_coverage": 1.0,
        "long_word_share": 0.0,
        "unreachable_token_share": 0.0,
    }
    assert result["warnings"] == []
    assert re.search(r"special_tokens +\[E1\] \[/E1\]\n", printed)
    ids = read_record_ids()
    assert [vocabulary[i] for i in ids[0]] == ["[E1]", "the", "cat", "[/E1]", "sat"]
    assert [(row.count(5), row.count(6)) for row in ids[:4]] == [(1, 1), (1, 1), (0, 0), (1, 1)]
    assert ids == encode_with_hugging_face(MARKED)
    tokenizer = bk.BertTokenizer.from_checkpoint("records")
    assert tokenizer.special_tokens[5:] == ("[E1]", "[/E1]")
    assert tokenizer.tokenize(MARKED).to_list() == ids
    assert read_manifest("records", tokenizer=tokenizer)["additional_special_tokens"] == ["[E1]", "[/E1]"]
    other = bk.BertTokenizer(tokenizer.vocabulary)
    with pytest.raises(bk.InputError, match=r"additional_special_tokens \['\[E1\]', '\[/E1\]'\] there, \[\] here"):
        read_manifest("records", tokenizer=other)


def test_special_tokens_are_not_counted_as_words(run):
    result, _ = learn(run, MARKED, "--special-token", "[E1]", "--special-token", "[/E1]")
    assert result["num_words"] == 3 * (3 + 3 + 8 + 3)


@pytest.mark.parametrize(
    ("language", "options"),
    [
        ("th", "accents"),
        *slow(*[(language, options) for language in pud.LANGUAGES for options in OPTIONS if language != "th"]),
        *slow(*[("th", options) for options in OPTIONS if options != "accents"]),
    ],
)
def test_records_match_the_hugging_face_normalizer_with_the_same_flags(run, language, options):
    """The reference is Hugging Face's tokenizer with the vocabulary and these flags, without our folder's settings."""
    sentences = pud.sentences(language)
    flags, settings = OPTIONS[options]
    learn(run, sentences, *flags, size=4000)
    result, _ = make(run, sentences)
    reference = Tokenizer.from_file("records/tokenizer.json")
    reference.normalizer = normalizers.BertNormalizer(**settings)
    expected = [reference.encode(sentence, add_special_tokens=False).ids for sentence in sentences]
    assert read_record_ids() == expected
    num_tokens = sum(map(len, expected))
    assert result["num_text_tokens"] == num_tokens
    unknown = reference.token_to_id("[UNK]")
    assert result["num_unknown_tokens"] == sum(row.count(unknown) for row in expected)
    assert result["quality"]["unknown_token_share"] == round(result["num_unknown_tokens"] / num_tokens, 6)
    stored_settings = {name: result[name] for name in ("lowercase", "strip_accents")}
    assert stored_settings == {name: settings[name] for name in stored_settings}


def test_make_records_options_apply_to_a_bare_vocabulary_and_must_match_stored_settings(run, capsys):
    learn(run, MARKED, "--cased", "--strip-accents", "--no-chinese-split", "--special-token", "[E1]")
    first = make(run, MARKED)[0]
    settings = ("lowercase", "strip_accents", "tokenize_chinese_chars", "additional_special_tokens")
    assert [first[name] for name in settings] == [False, True, False, ["[E1]"]]
    contradictions = {
        "--no-strip-accents": "strip_accents is true",
        "--chinese-split": "tokenize_chinese_chars is false",
        "--special-token=the": r"additional_special_tokens is \[E1\]",
    }
    for option, message in contradictions.items():
        assert main(["make-records", "vocab.txt", "no", "--text", "text.txt", option]) == 2
        errors = capsys.readouterr().err
        name = option.removeprefix("--no-").split("=")[0].removeprefix("--")
        assert re.search(
            rf"--{name}.* contradicts vocab\.tokenizer_config\.json, where {message}: leave it out", errors
        )
    shutil.copy("vocab.txt", "bare.txt")
    options = ["--cased", "--strip-accents", "--no-chinese-split", "--special-token", "[E1]"]
    default_options = [
        "--objective",
        "none",
        "--keep-documents-apart",
        "--held-out-rate",
        0,
        "--max-sequence-length",
        512,
    ]
    second, _ = run("make-records", "bare.txt", "again", *options, *default_options, sentences=MARKED)
    assert second["shards"] == first["shards"]
    assert [second[name] for name in settings] == [first[name] for name in settings]


def test_invalid_special_token_is_rejected_before_loading_tensorflow(run, capsys):
    learn(run, MARKED)
    shutil.copy("vocab.txt", "bare.txt")
    assert main(["make-records", "bare.txt", "no", "--text", "text.txt", "--special-token", "[E7]"]) == 2
    assert "the special token '[E7]' is not in the vocabulary" in capsys.readouterr().err


def test_unsuitable_vocabulary_is_reported_with_its_fraction_of_unknown_tokens(run):
    learn(run, MARKED)
    result, printed = make(run, pud.sentences("ru")[:200])
    assert result["quality"]["unknown_token_share"] > 0.7
    assert result["quality"]["alphabet_coverage"] < 0.1
    [warning] = result["warnings"]
    assert re.search(r"% of the text's tokens are \[UNK\].*: learn one from this text", warning)
    assert f"\nwarning: {warning}\n" in printed
    right, printed = run("make-records", "vocab.txt", "right", "--objective", "none", sentences=MARKED)
    assert right["warnings"] == []
    assert "warning" not in printed


@pytest.mark.parametrize("spaced", [False, True])
def test_text_lost_in_long_words_is_reported_and_fixed_by_spaces(run, spaced):
    """The fraction of [UNK] stays low, because a whole clause becomes a single [UNK]."""
    text = "".join(pud.sentences("th")[:240]).replace(" ", "")
    sentences = [text[start : start + 400] for start in range(0, len(text), 400)]
    if spaced:
        sentences = [re.sub("(.{5})", r"\1 ", sentence) for sentence in sentences]
    learned, _ = learn(run, sentences, "--no-strip-accents", size=500)
    result, printed = make(run, sentences)
    assert result["quality"]["long_word_share"] == pytest.approx(learned["long_word_share"], abs=1e-4)
    assert result["num_long_word_characters"] == round(result["quality"]["long_word_share"] * result["num_characters"])
    if spaced:
        assert result["warnings"] == []
        return
    assert result["quality"]["long_word_share"] > 0.5
    [warning] = result["warnings"]
    assert re.search(r"\d% of the text's characters are in words too long .* become \[UNK\]: put spaces", warning)
    assert f"\nwarning: {warning}\n" in printed


def test_warning_for_single_sentence_documents_has_the_fraction_of_random_pairs(run):
    sentences = pud.sentences("de")
    learn(run, sentences, "--no-strip-accents", size=4000)
    result, printed = run("make-records", "vocab.txt", "short", sentences=sentences)
    assert result["quality"]["random_next_share"] > 0.9
    assert len(result["warnings"]) == 1
    assert re.search(r"warning: \d+\.\d% of the second sentences are random .*1\.0 sentences on average", printed)
    with open("long.txt", "w", encoding="utf-8") as file:
        file.write("\n\n".join("\n".join(sentences[start : start + 50]) for start in range(0, 1000, 50)))
    result, _ = run("make-records", "vocab.txt", "long", "--text", "long.txt")
    assert result["warnings"] == []
    assert 0.4 < result["quality"]["random_next_share"] < 0.6
    manifest = read_manifest("long")
    assert manifest["quality"] == result["quality"]
    share = manifest["num_positive_labels"] / manifest["num_examples"]
    assert manifest["quality"]["random_next_share"] == round(share, 6)


def test_cased_vocabulary_used_uncased_is_reported(run):
    sentences = pud.sentences("de")[:300]
    learn(run, sentences, "--cased", size=1500)
    shutil.copy("vocab.txt", "bare.txt")
    result, _ = run("make-records", "bare.txt", "wrong", "--objective", "none", sentences=sentences)
    assert any(
        "capital letters or accents, which lowercased text never produces" in warning for warning in result["warnings"]
    )
    result, _ = run("make-records", "bare.txt", "right", "--cased", "--objective", "none", sentences=sentences)
    assert result["warnings"] == []


def parse_fixes(warning: str) -> list[list[str]]:
    """Return the alternative fixes in a warning about tokens or characters, each a list of options."""
    advice = warning.rsplit(": ", 1)[1].replace("(", "").replace(")", "").split(", or ")
    return [re.findall(r"--[a-z-]+ \d+", part) for part in advice if "--" in part]


def korean() -> list[str]:
    """Return words of 2,000 different syllables, some of them frequent."""
    rng = random.Random(7)
    syllables = [chr(0xAC00 + 5 * number) for number in range(2000)]
    weights = [1 / (20 + rank) for rank in range(2000)]
    return [" ".join("".join(rng.choices(syllables, weights, k=3)) for _ in range(8)) for _ in range(800)]


TEXTS_AND_OPTIONS = [
    ("zh", ["--alphabet", "1000"], 4000),
    ("zh", ["--special-token", "[E1]", "--unused", "99"], 2000),
    ("zh", [], 8000),
    ("ko", ["--cased"], 3000),
    ("ko", ["--no-strip-accents", "--unused", "400"], 4100),
    ("ko", ["--cased", "--min-frequency", "1"], 30000),
    ("en", [], 30522),
]


@pytest.mark.parametrize(
    ("language", "options", "size"),
    slow_except(TEXTS_AND_OPTIONS, quick=[TEXTS_AND_OPTIONS[0], TEXTS_AND_OPTIONS[4], TEXTS_AND_OPTIONS[-1]]),
)
def test_suggested_fixes_for_small_alphabets_and_vocabularies_work(run, language, options, size):
    """Runs each suggested command unchanged until no warning is left; no fix may reintroduce a problem."""
    text = {"ko": korean, "en": lambda: MARKED}.get(language, lambda: pud.sentences(language))()
    result, _ = learn(run, text, *options, size=size)
    assert len(result["warnings"]) == 1
    for _ in range(2):
        warnings = [warning for warning in result["warnings"] if "tokens asked for" in warning or "alphabet" in warning]
        if not warnings:
            break
        new_options = [word for option in parse_fixes(warnings[0])[0] for word in option.split()]
        last, (result, _) = result, learn(run, text, *options, "--size", size, *new_options, "--overwrite", size=size)
        size = result["vocabulary_size_asked"]
        options = [*options, *new_options]
        assert result["alphabet_coverage"] >= last["alphabet_coverage"]
        assert result["vocabulary_size"] >= last["vocabulary_size"]
    assert result["warnings"] == []
    assert result["alphabet_coverage"] >= 0.9995


def test_chinese_gets_a_large_alphabet_and_a_limit_is_reported(run):
    sentences = pud.sentences("zh")
    capped, printed = learn(run, sentences, "--alphabet", 1000, size=4000)
    assert capped["alphabet_size"] == 1000
    assert capped["alphabet_coverage"] < 0.96
    assert capped["vocabulary_size"] == capped["size"] < 2000
    [warning] = capped["warnings"]
    assert re.search(r"becomes \[UNK\]: pass --alphabet 2089$", warning)
    assert f"\nwarning: {warning}\n" in printed
    free, _ = run("learn-vocab", "free.txt", "--size", 4000, sentences=sentences)
    assert free["alphabet_size"] == free["alphabet_needed"] == 2089
    noted = json.loads(pathlib.Path("free.tokenizer_config.json").read_text())["bert_keras"]
    assert noted.pop("vocabulary_sha256") == free["sha256"]
    assert noted == {name: free[name] for name in noted}
    assert {"alphabet_coverage", "vocabulary_size", "vocabulary_size_asked"} < set(noted)


@pytest.mark.parametrize("language", slow_except([*pud.LANGUAGES, "ko"], quick=["th"]))
def test_text_damaged_by_lowercasing_is_reported_and_the_suggested_fix_works(run, language):
    sentences = korean() if language == "ko" else pud.sentences(language)
    result, _ = learn(run, sentences, size=2000 if language != "zh" else 5000)
    warnings = [warning for warning in result["warnings"] if "languages.md" in warning]
    assert len(warnings) == {"zh": 0, "tr": 2, "th": 2}.get(language, 1)
    assert sum("words of more than 100 characters" in warning for warning in warnings) == (language == "th")
    for warning in warnings:
        for remedy in re.findall(r"--[a-z-]+", warning.rsplit(": ", 1)[1]):
            fixed_result, _ = run(
                "learn-vocab", f"{remedy[2:]}.txt", "--size", 2000, remedy, "--overwrite", "--text", "text.txt"
            )
            remaining = [
                other for other in fixed_result["warnings"] if other.split("%", 1)[1] == warning.split("%", 1)[1]
            ]
            assert remaining == []
    spaced = [re.sub("(.{20})", r"\1 ", sentence) for sentence in sentences]
    fixed_result, _ = learn(run, spaced, "--overwrite", size=2000 if language != "zh" else 5000)
    assert not any("words of more than 100 characters" in warning for warning in fixed_result["warnings"])


@pytest.mark.parametrize("num_blocks", [1, 3])
def test_worker_memory_is_printed_only_with_workers(run, num_blocks):
    """A block of text has a million characters."""
    text = [" ".join(["the cat sat"] * 80_000)] * num_blocks
    result, _ = learn(run, text, "--workers", 2)
    assert (result["worker_peak_memory_bytes"] is not None) == (num_blocks == 3)


def test_records_of_one_block_start_no_workers(run):
    learn(run, MARKED)
    result, _ = make(run, MARKED, "--workers", 2)
    assert result["worker_peak_memory_bytes"] is None


@pytest.mark.slow
def test_special_tokens_are_never_split_from_the_vocabulary_to_the_served_model(run):
    """The reference is transformers with the trained folder. Only the special token distinguishes the classes."""
    import torch
    import transformers

    texts = [
        f"{words} [{special_token}]"
        for words in ("the cat sat", "a mat.", "on [E1 or E2]")
        for special_token in ("E1", "E2")
    ] * 6
    run("learn-vocab", "vocab.txt", "--size", 60, "--special-token", "[E1]", "--special-token", "[E2]", sentences=texts)
    run("make-records", "vocab.txt", "records", "--max-sequence-length", 16, sentences=texts)
    run("pretrain", "records", "pretrained", "--preset", "tiny", "--steps", 2, "--no-xla")
    with open("train.csv", "w", encoding="utf-8") as file:
        file.writelines(["text,label\n", *(f"{text},{text[-3:-1]}\n" for text in texts)])
    task = ["--train", "train.csv", "--dev", "train.csv", "--epochs", 15, "--learning-rate", 1e-3, "--batch-size", 8]
    result, _ = run("finetune", "pretrained", "classifier", *task, "--max-sequence-length", 16)
    assert result["accuracy"] == 1.0
    run("export", "classifier", "artifacts")

    served = tf.saved_model.load("artifacts/saved_model/1").signatures["serving_default"](text=tf.constant(texts[:6]))
    assert [label.decode() for label in served["label"].numpy()] == ["E1", "E2"] * 3
    tokenizer = transformers.AutoTokenizer.from_pretrained("classifier")
    reference = transformers.AutoModelForSequenceClassification.from_pretrained("classifier").eval()
    rows = tokenizer(texts[:6], padding=True, return_tensors="pt")
    assert [(row.tolist().count(5), row.tolist().count(6)) for row in rows["input_ids"]] == [(1, 0), (0, 1)] * 3
    with torch.no_grad():
        expected = reference(**rows).logits.softmax(-1).numpy()
    assert served["probabilities"].numpy() == pytest.approx(expected, abs=1e-5)
