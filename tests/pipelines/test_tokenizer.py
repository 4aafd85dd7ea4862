"""`BertTokenizer` gives the ids of the reference tokenizers, everywhere it runs."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.pipelines.tokenizer import BertTokenizer
from bert_keras.pipelines.vocabulary import SPECIAL_TOKENS, read_vocabulary

TEXTS = ["Unaffable playing, the a.", "", "  the\tunplayings\n", "zebra b"]


def ascii_sentences(documents, number):
    """A sample of `number` sentences over the whole corpus."""
    sentences = [sentence for document in documents for sentence in document if sentence.isascii()]
    return sentences[:: len(sentences) // number]


@pytest.fixture
def piece_ids():
    """What the tiny vocabulary makes of `TEXTS`, spelt out by hand; 1 is [UNK]."""
    return [[5, 6, 7, 8, 9, 15, 10, 11, 16], [], [10, 1], [1, 12]]


@pytest.mark.parametrize("given", [list, np.array, tf.constant], ids=["list", "array", "tensor"])
def test_lists_arrays_and_tensors_give_the_same_ragged_int32_ids(tiny_tokenizer, piece_ids, given):
    ids = tiny_tokenizer.tokenize(given(TEXTS))
    assert isinstance(ids, tf.RaggedTensor)
    assert ids.dtype == tf.int32
    assert ids.to_list() == piece_ids


def test_a_batch_without_texts_has_no_rows(tiny_tokenizer):
    assert tiny_tokenizer.tokenize([]).to_list() == []


def test_ids_are_the_same_in_tf_data_and_in_a_tf_function(tiny_tokenizer, piece_ids):
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS).batch(3).map(tiny_tokenizer.tokenize)
    assert [row for batch in dataset for row in batch.to_list()] == piece_ids
    traced = tf.function(tiny_tokenizer.tokenize, input_signature=[tf.TensorSpec([None], tf.string)])
    assert traced(tf.constant(TEXTS)).to_list() == piece_ids


def test_a_tokenizer_made_inside_a_traced_function_works_outside_it(tiny_tokenizer, piece_ids):
    made = []

    @tf.function
    def trace():
        made.append(BertTokenizer(tiny_tokenizer.vocabulary))
        return made[0].tokenize(tf.constant(TEXTS)).flat_values

    trace()
    assert made[0].tokenize(TEXTS).to_list() == piece_ids


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one text", "was given one text; expected a batch of texts"),
        ([["a"], ["b"]], "was given 2 dimensions; expected a batch of texts"),
        (["a", None], "text 1 is None, a NoneType; expected a string"),
        ([1.5], r"text 0 is 1\.5, a float"),
        (["a", "\ud83d"], "text 1 holds half a surrogate pair"),
        (tf.constant([7]), r"was given a int32 tensor of shape \(1,\); expected a batch of strings"),
        (tf.constant("a"), r"was given a string tensor of shape \(\)"),
    ],
)
def test_what_is_no_batch_of_strings_is_refused(tiny_tokenizer, texts, message):
    with pytest.raises(InputError, match=message):
        tiny_tokenizer.tokenize(texts)


def test_detokenize_glues_pieces_and_drops_special_tokens_and_padding(tiny_tokenizer):
    rows = [[2, 5, 6, 7, 15, 8, 9, 17, 3, 0, 0], [2, 3], [], [1, 11]]
    texts = [b"unaffable , playings", b"", b"", b"a"]
    ragged = tf.ragged.constant(rows, dtype=tf.int32)
    assert tiny_tokenizer.detokenize(rows).numpy().tolist() == texts
    assert tiny_tokenizer.detokenize(ragged).numpy().tolist() == texts
    assert tiny_tokenizer.detokenize(ragged.to_tensor()).numpy().tolist() == texts
    assert tiny_tokenizer.detokenize(ragged.to_tensor().numpy()).numpy().tolist() == texts
    assert tf.function(tiny_tokenizer.detokenize)(ragged).numpy().tolist() == texts


def test_properties_tell_the_vocabulary_and_the_special_ids():
    pieces = ["a", "[MASK]", "[SEP]", "b", "[UNK]", "[CLS]", "[PAD]"]
    tokenizer = BertTokenizer(pieces, lowercase=False, max_sequence_length=77)
    assert tokenizer.vocabulary == tuple(pieces)
    assert tokenizer.vocabulary_size == 7
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id) == (
        6,
        4,
        5,
        2,
        1,
    )
    assert tokenizer.special_ids == (6, 4, 5, 2, 1)
    assert tokenizer.lowercase is False
    assert tokenizer.max_sequence_length == 77
    assert "7 pieces, lowercase=False, max_sequence_length=77" in repr(tokenizer)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocabulary": ["a"]}, r"is \[PAD\] or \[UNK\]"),
        ({"lowercase": "yes"}, "lowercase is 'yes'; expected true or false"),
        ({"max_sequence_length": 0}, "max_sequence_length is 0; expected a whole number from 1"),
        ({"max_sequence_length": 12.5}, r"max_sequence_length is 12\.5"),
    ],
)
def test_a_tokenizer_that_cannot_be_built_says_why(changes, message):
    with pytest.raises(InputError, match=message):
        BertTokenizer(**{"vocabulary": SPECIAL_TOKENS, **changes})


@pytest.mark.parametrize(("name", "lowercase"), [("uncased", True), ("cased", False)])
def test_ascii_text_gets_the_ids_of_hugging_face(published_vocabularies, python_text, name, lowercase):
    from tokenizers import BertWordPieceTokenizer

    path = published_vocabularies / f"bert_{name}_vocab.txt"
    reference = BertWordPieceTokenizer(str(path), lowercase=lowercase)
    sentences = [*ascii_sentences(python_text, 3000), "x" * 100, "x" * 101, "don't e-mail (a_b)...  $5.00 100%"]
    expected = [encoding.ids for encoding in reference.encode_batch(sentences, add_special_tokens=False)]
    assert BertTokenizer.from_vocabulary(path, lowercase=lowercase).tokenize(sentences).to_list() == expected


@pytest.mark.parametrize("lowercase", [True, False])
def test_a_saved_folder_reads_back_and_opens_in_transformers(published_vocabularies, python_text, tmp_path, lowercase):
    from transformers import AutoTokenizer

    vocabulary = read_vocabulary(published_vocabularies / "bert_uncased_vocab.txt")
    tokenizer = BertTokenizer(vocabulary, lowercase=lowercase, max_sequence_length=96)
    tokenizer.save(tmp_path / "folder")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "folder")
    first = [sentence for sentence in ascii_sentences(python_text, 200) if len(sentence) < 200]
    second = first[::-1]
    packed = theirs(first, second)
    ours = (tokenizer.tokenize(texts).to_list() for texts in (first, second))
    cls_id, sep_id = tokenizer.cls_id, tokenizer.sep_id
    assert packed["input_ids"] == [[cls_id, *a, sep_id, *b, sep_id] for a, b in zip(*ours, strict=True)]
    assert type(theirs).__name__.startswith("BertTokenizer")
    assert theirs.model_max_length == 96
    assert (theirs.pad_token_id, theirs.mask_token_id) == (tokenizer.pad_id, tokenizer.mask_id)
    back = BertTokenizer.from_checkpoint(tmp_path / "folder")
    assert (back.vocabulary, back.lowercase, back.max_sequence_length) == (tuple(vocabulary), lowercase, 96)


def test_the_saved_tokenizer_json_alone_gives_the_same_ids(published_vocabularies, python_text, tmp_path):
    """transformers may build the tokenizer anew of `vocab.txt`; other programs read `tokenizer.json` only."""
    from tokenizers import Tokenizer

    tokenizer = BertTokenizer.from_vocabulary(published_vocabularies / "bert_uncased_vocab.txt")
    tokenizer.save(tmp_path)
    theirs = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in ascii_sentences(python_text, 50):
        ids = tokenizer.tokenize([text]).to_list()[0]
        assert theirs.encode(text).ids == [tokenizer.cls_id, *ids, tokenizer.sep_id]
    pair = theirs.encode("a [MASK] b", "c")
    assert pair.tokens == ["[CLS]", "a", "[MASK]", "b", "[SEP]", "c", "[SEP]"]
    assert pair.type_ids == [0, 0, 0, 0, 0, 1, 1]
    assert theirs.decode(theirs.encode("unaffable playings").ids) == "unaffable playings"


def test_a_length_that_is_not_known_stays_so(tiny_tokenizer, tmp_path):
    tiny_tokenizer.save(tmp_path)
    assert BertTokenizer.from_checkpoint(tmp_path).max_sequence_length is None


@pytest.mark.parametrize(("limit", "expected"), [(31, 31), (512, 77), (None, 77)])
def test_the_shorter_of_the_lengths_of_a_sentence_model_counts(tiny_tokenizer, tmp_path, limit, expected):
    BertTokenizer(tiny_tokenizer.vocabulary, max_sequence_length=77).save(tmp_path)
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": limit}))
    assert BertTokenizer.from_checkpoint(tmp_path).max_sequence_length == expected


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"do_lower_case": "no"}, r"tokenizer_config\.json: do_lower_case is 'no'; expected true or false"),
        ({"do_lower_case": True, "strip_accents": False}, "strip_accents False with do_lower_case True; expected"),
        ({"do_lower_case": True, "tokenize_chinese_chars": False}, "tokenize_chinese_chars False; expected true"),
        ({"do_lower_case": True, "model_max_length": -1}, "max_sequence_length is -1"),
        ({"do_lower_case": True, "model_max_length": "512"}, "max_sequence_length is '512'"),
    ],
)
def test_a_folder_with_rules_of_another_tokenizer_is_refused(tiny_tokenizer, tmp_path, config, message):
    tiny_tokenizer.save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=message):
        BertTokenizer.from_checkpoint(tmp_path)


def test_a_folder_without_casing_is_lowercase_with_a_warning_and_without_vocabulary_refused(
    tiny_tokenizer, tmp_path, caplog
):
    tiny_tokenizer.save(tmp_path)
    os.remove(tmp_path / "tokenizer_config.json")
    assert BertTokenizer.from_checkpoint(tmp_path).lowercase is True
    assert "does not say do_lower_case" in caplog.text
    os.remove(tmp_path / "vocab.txt")
    with pytest.raises(InputError, match=r"vocab\.txt does not exist; expected a BERT model folder"):
        BertTokenizer.from_checkpoint(tmp_path)


class TextToIds(tf.Module):
    """What an export does: a module that holds the tokenizer, with a string signature."""

    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def __call__(self, text):
        ids = self.tokenizer.tokenize(text)
        return {"ids": ids.to_tensor(default_value=-1), "text": self.tokenizer.detokenize(ids)}


def test_a_saved_model_holds_the_whole_tokenizer(tiny_tokenizer, piece_ids, tmp_path):
    """Reloaded by a process that knows only TensorFlow and tensorflow-text, far from any file of ours."""
    module = TextToIds(tiny_tokenizer)
    tf.saved_model.save(module, str(tmp_path / "here"), signatures=module.__call__)
    shutil.move(tmp_path / "here", tmp_path / "elsewhere")
    code = (
        "import json, sys; import tensorflow as tf, tensorflow_text; texts = json.loads(sys.argv[2]); "
        "out = tf.saved_model.load(sys.argv[1]).signatures['serving_default'](text=tf.constant(texts)); "
        "print(json.dumps([out['ids'].numpy().tolist(), [text.decode() for text in out['text'].numpy()], "
        "any(name.startswith('bert_keras') for name in sys.modules)]))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "elsewhere"), json.dumps(TEXTS)]
    run = subprocess.run(command, capture_output=True, check=True, cwd=tmp_path)
    rows, texts, has_ours = json.loads(run.stdout)
    assert not has_ours
    assert [[index for index in row if index >= 0] for row in rows] == piece_ids
    assert texts == ["unaffable playing , the a .", "", "the", "b"]
