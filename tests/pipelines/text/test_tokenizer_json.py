"""A folder with `tokenizer.json` and without `vocab.txt`, as saved by transformers 5: the same ids, or an error."""

import itertools
import json
import shutil

import numpy as np
import pytest

from bert_keras.errors import InputError, UnsupportedTokenizerError
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS, write_vocabulary
from tests.marks import slow

from .make_transformers_folders import NORMALIZED, PATH, WHOLE, made_files

FOLDERS = json.loads(PATH.read_text(encoding="utf-8"))
PARTS = [
    *SPECIAL_TOKENS,
    *WHOLE,
    *NORMALIZED,
    *"newWORD NEWWORDS anewword unaff PLAYING Playing grun GRÜN gru\u0308n Grünb n c N\tC n\u00a0c".split(" "),
    *"É é e\u0301 中文 国A 国 a NAME name cats [E1 e1] <new> <NEW>s \u00ad - . 中newword国 ".split(" "),
    "new\u00adword",
    "\n",
]


def write(folder, files):
    folder.mkdir(exist_ok=True)
    for name, values in files.items():
        (folder / name).write_text(json.dumps(values), encoding="utf-8")
    return folder


@pytest.fixture(scope="module", params=["uncased", *slow("cased")])
def theirs(request, tmp_path_factory):
    """A folder written by transformers 5. Copy it before changing it."""
    return write(tmp_path_factory.mktemp("folders") / "theirs", FOLDERS[request.param])


@pytest.fixture(scope="module")
def loaded(theirs):
    """Our tokenizer of the folder."""
    return BertTokenizer.from_checkpoint(theirs)


@pytest.fixture
def folder(theirs, tmp_path):
    """A folder written by transformers 5, which tests may change."""
    return shutil.copytree(theirs, tmp_path / "theirs")


@pytest.fixture
def edit(tmp_path):
    """A function that changes `tokenizer.json` in a copy of the uncased folder: `edit("model.unk_token", "<unk>")`."""

    def change(path, value, name="tokenizer.json"):
        files = json.loads(json.dumps(FOLDERS["uncased"]))
        *outer, last = path.split(".")
        part = files[name]
        for key in outer:
            part = part[key]
        part[last] = value
        return write(tmp_path / "changed", files)

    return change


def rust(folder):
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def assert_same(ours, theirs, texts):
    tokens = ours.tokenize_with_offsets(texts, keep_special_tokens=True)
    encodings = theirs.encode_batch(texts, add_special_tokens=False)
    for text, encoding, ids, starts in zip(
        texts, encodings, tokens.token_ids.to_list(), tokens.starts.to_list(), strict=True
    ):
        assert ids == encoding.ids, ascii(text)
        assert starts == [start for start, _ in encoding.offsets], ascii(text)


def random_texts(count):
    rng = np.random.default_rng(5)
    return ["".join(rng.choice(PARTS, length)) for length in rng.integers(1, 6, count)] + [
        " ".join(rng.choice(PARTS, length)) for length in rng.integers(1, 6, count)
    ]


def test_ids_equal_those_of_tokenizers(theirs, loaded):
    assert loaded.vocabulary[-len(NORMALIZED) :] == NORMALIZED
    assert loaded.special_tokens == (*SPECIAL_TOKENS, *WHOLE)
    assert loaded.max_sequence_length == 77
    assert_same(loaded, rust(theirs), [*PARTS, *random_texts(300), "n", "c"])  # no token spans two texts


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uncased", "cased"])
def test_ids_equal_those_of_transformers_for_its_saved_folders(name, tmp_path):
    from transformers import AutoTokenizer

    folder = write(tmp_path / "today", made_files(name == "uncased"))
    theirs = AutoTokenizer.from_pretrained(folder)
    ours = BertTokenizer.from_checkpoint(folder)
    texts = [*map("".join, itertools.product(PARTS, PARTS)), *random_texts(2000)]
    assert (
        ours.tokenize(texts, keep_special_tokens=True).to_list() == theirs(texts, add_special_tokens=False)["input_ids"]
    )


def test_saving_a_loaded_folder_keeps_every_id(loaded, tmp_path):
    loaded.save(tmp_path / "ours")
    back = BertTokenizer.from_checkpoint(tmp_path / "ours")
    assert (back.vocabulary, back.special_tokens, back.added_tokens) == (
        loaded.vocabulary,
        loaded.special_tokens,
        loaded.added_tokens,
    )
    assert_same(loaded, rust(tmp_path / "ours"), random_texts(100))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("model.type", "BPE", "has model 'BPE'; expected BERT's 'WordPiece'"),
        ("model.type", "Unigram", "has model 'Unigram'; expected BERT's 'WordPiece'"),
        ("model.unk_token", "<unk>", "has unk_token '<unk>'"),
        ("model.continuing_subword_prefix", "", "has continuing_subword_prefix ''"),
        ("normalizer", {"type": "Lowercase"}, "has normalizer 'Lowercase'"),
        ("normalizer", None, "has normalizer None"),
        (
            "normalizer",
            {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "BertNormalizer"}]},
            r"has normalizer 'NFD \+ BertNormalizer'",
        ),
        ("pre_tokenizer", {"type": "Whitespace"}, "has pre_tokenizer 'Whitespace'"),
        ("post_processor.type", "RobertaProcessing", "has post_processor 'RobertaProcessing'"),
        ("post_processor.single", [{"Sequence": {"id": "A"}}], r"has post_processor single \['A'\]"),
    ],
)
def test_another_kind_of_tokenizer_is_an_error_with_its_name(path, value, message, edit):
    folder = edit(path, value)
    with pytest.raises(UnsupportedTokenizerError, match=message) as error:
        BertTokenizer.from_checkpoint(folder)
    assert str(folder / "tokenizer.json") in str(error.value)


def test_a_single_word_token_is_an_error(edit):
    tokens = FOLDERS["uncased"]["tokenizer.json"]["added_tokens"]
    folder = edit("added_tokens", [{**token, "single_word": token["content"] == "newword"} for token in tokens])
    with pytest.raises(UnsupportedTokenizerError, match="added token 'newword' with single_word"):
        BertTokenizer.from_checkpoint(folder)


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        (None, "sets vocab to None; expected an object of integers"),
        ({}, r"none of the .* lines is \[MASK\]|no token with the id"),
        ({"[PAD]": -1}, "expected"),
        ({"[PAD]": 0, "[UNK]": 0}, r"has the id 0 for '\[PAD\]' and for '\[UNK\]'"),
        ({"[PAD]": 0, "[UNK]": "1"}, "sets vocab to"),
    ],
)
def test_an_invalid_vocabulary_is_an_error(vocabulary, message, edit):
    with pytest.raises(InputError, match=message):
        BertTokenizer.from_checkpoint(edit("model.vocab", vocabulary))


def test_an_id_without_a_token_is_an_error_with_the_id(edit):
    vocabulary = dict(FOLDERS["uncased"]["tokenizer.json"]["model"]["vocab"])
    del vocabulary["cat"]
    number = FOLDERS["uncased"]["tokenizer.json"]["model"]["vocab"]["cat"]
    folder = edit("model.vocab", vocabulary)
    with pytest.raises(InputError, match=rf"no token with the id {number},.*give \[unused{number}\] that id"):
        BertTokenizer.from_checkpoint(folder)
    BertTokenizer.from_checkpoint(edit("model.vocab", {**vocabulary, f"[unused{number}]": number}))


def test_tokenizer_json_has_priority_over_vocab_txt(folder, caplog):
    """As in transformers. A vocab.txt of transformers 4, without added tokens, does not count as different."""
    vocabulary = BertTokenizer.from_checkpoint(folder).vocabulary
    write_vocabulary(folder / "vocab.txt", vocabulary[: -len(NORMALIZED)])
    assert BertTokenizer.from_checkpoint(folder).vocabulary == vocabulary
    assert not caplog.text
    write_vocabulary(folder / "vocab.txt", [*vocabulary[:7], *vocabulary[:6:-1]])
    assert BertTokenizer.from_checkpoint(folder).vocabulary == vocabulary
    assert "have different tokens: tokenizer.json is used" in caplog.text


def test_tokenizer_config_is_ignored_for_classes_of_tokenizer_json(edit):
    """`TokenizersBackend` of transformers 5 and `PreTrainedTokenizerFast` of 4 ignore `do_lower_case`."""
    folder = edit("tokenizer_class", "PreTrainedTokenizerFast", name="tokenizer_config.json")
    config = {**FOLDERS["uncased"]["tokenizer_config.json"], "do_lower_case": False}
    write(folder, {"tokenizer_config.json": config})
    assert BertTokenizer.from_checkpoint(folder).lowercase is False
    write(folder, {"tokenizer_config.json": {**config, "tokenizer_class": "PreTrainedTokenizerFast"}})
    assert BertTokenizer.from_checkpoint(folder).lowercase is True


@pytest.mark.parametrize("tokenizer_class", ["TokenizersBackend", "BertTokenizer"])
def test_a_sequence_of_one_normalizer_equals_the_normalizer(tokenizer_class, edit):
    """The converters of transformers write it. It keeps case here and in the Rust library."""
    normalizer = {**FOLDERS["cased"]["tokenizer.json"]["normalizer"], "strip_accents": True}
    nested = {"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": [normalizer]}]}
    folder = edit("normalizer", nested)
    fast = json.loads((folder / "tokenizer.json").read_text())
    fast["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [fast["pre_tokenizer"]]}
    write(folder, {"tokenizer.json": fast, "tokenizer_config.json": {"tokenizer_class": tokenizer_class}})
    ours = BertTokenizer.from_checkpoint(folder)
    assert (ours.lowercase, ours.rules.strip_accents) == (False, True)
    texts = ["playing PLAYING cat", "a NAME", "\u4e2d\u6587 cats"]
    assert ours.tokenize(texts).to_list() == [rust(folder).encode(text, add_special_tokens=False).ids for text in texts]


def test_a_normalizer_without_casing_lowercases(edit):
    normalizer = {"type": "BertNormalizer", "clean_text": True}
    folder = edit("normalizer", normalizer)
    write(folder, {"tokenizer_config.json": {"tokenizer_class": "TokenizersBackend"}})
    assert BertTokenizer.from_checkpoint(folder).lowercase is True


def truncating(direction):
    return {"max_length": 33, "stride": 0, "strategy": "LongestFirst", "direction": direction}


def test_truncation_at_the_start_is_an_error(edit):
    folder = edit("truncation_side", "left", name="tokenizer_config.json")
    with pytest.raises(UnsupportedTokenizerError, match="has truncation_side 'left'; expected BERT's 'right'"):
        BertTokenizer.from_checkpoint(folder)
    with pytest.raises(UnsupportedTokenizerError, match="has truncation direction 'Left'; expected BERT's 'Right'"):
        BertTokenizer.from_checkpoint(edit("truncation", truncating("Left")))
    write(folder, {"tokenizer_config.json": {"truncation_side": "right"}})  # it has priority over tokenizer.json
    assert BertTokenizer.from_checkpoint(folder).max_sequence_length == 33


def test_casing_that_differs_in_transformers_gives_a_warning(tmp_path, caplog):
    folder = write(tmp_path / "cased", {"tokenizer.json": FOLDERS["cased"]["tokenizer.json"]})
    assert BertTokenizer.from_checkpoint(folder).lowercase is False
    assert "has no do_lower_case: text keeps its case" in caplog.text


def test_the_truncation_of_tokenizer_json_is_the_last_source_of_the_length(edit):
    folder = edit("truncation", truncating("Right"))
    assert BertTokenizer.from_checkpoint(folder).max_sequence_length == 77
    config = {**FOLDERS["uncased"]["tokenizer_config.json"], "model_max_length": int(1e30)}
    write(folder, {"tokenizer_config.json": config})
    assert BertTokenizer.from_checkpoint(folder).max_sequence_length == 33


def test_added_tokens_json_of_transformers_4(tmp_path):
    """It has no flags: special tokens are matched in the raw text, others after case is folded."""
    fast = FOLDERS["uncased"]["tokenizer.json"]
    ids = {token["content"]: token["id"] for token in fast["added_tokens"] if token["content"] not in SPECIAL_TOKENS}
    vocabulary = sorted(fast["model"]["vocab"], key=fast["model"]["vocab"].get)
    folder = write(
        tmp_path / "four",
        {
            "added_tokens.json": {token: number for token, number in ids.items() if number >= len(vocabulary)},
            "special_tokens_map.json": {"additional_special_tokens": list(WHOLE)},
            "tokenizer_config.json": {"do_lower_case": True},
        },
    )
    write_vocabulary(folder / "vocab.txt", vocabulary)
    ours = BertTokenizer.from_checkpoint(folder)
    assert ours.special_tokens == (*SPECIAL_TOKENS, *WHOLE)
    assert ours.added_tokens == NORMALIZED
    five = rust(write(tmp_path / "five", {"tokenizer.json": fast}))
    texts = random_texts(50)
    for start in range(0, len(texts), 20):
        assert_same(ours, five, texts[start : start + 20])  # small batches run without tracing a graph


@pytest.mark.parametrize(("name", "kind"), [("stoken.model", "SentencePiece"), ("vocab.json", "BPE")])
def test_files_of_another_tokenizer_are_an_error_with_its_kind(name, kind, tmp_path):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(UnsupportedTokenizerError, match=rf"has a {kind} tokenizer \({name}\); expected BERT's Word"):
        BertTokenizer.from_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("tokens", "settings", "message"),
    [
        (["##ed"], {}, "added token '##ed' never occurs in normalized text"),
        (["\u0301"], {}, "never occurs in normalized text"),
        (["New", "new"], {}, "added tokens 'New' and 'new' are equal in normalized text"),
        (["new"], {"text_rules": "mediapipe"}, "which text_rules 'mediapipe' splits"),
    ],
)
def test_added_tokens_that_cannot_be_matched_are_errors(tokens, settings, message):
    with pytest.raises(InputError, match=message):
        BertTokenizer([*SPECIAL_TOKENS, *tokens], added_tokens=tokens, **settings)


def test_a_full_disk_is_an_os_error(small_disk):
    words = [f"word{number}" for number in range(9000)]  # 81 kB in vocab.txt, 250 kB in tokenizer.json
    with pytest.raises(OSError, match="No space left on device"):
        BertTokenizer([*SPECIAL_TOKENS, *words]).save(small_disk / "model")
