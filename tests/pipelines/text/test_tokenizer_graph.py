"""A tokenizer gives the same result eagerly, in a graph, in `tf.data`, in a SavedModel, and in batches of any size."""

import concurrent.futures
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.pipelines.text.graph.text_batches import CHUNK_BYTES, EAGER_BATCHES
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from tests.marks import slow, slow_except

from .google_reference import GoogleTokenizer
from .tokenizer_checks import rich_pair, rich_tokenizer
from .tokenizer_texts import random_bytes, random_texts, rich_vocabulary

TEXTS = [
    "the plays",
    "",
    "Plaÿing\u0301 ΤΣ.",
    "각 a\u302e\u1bf2 [MASK]",
    b"a\xffb \xe4",
    "b" * 101,
    "中\x00 \u2028",
    " ",
]
CHUNK = CHUNK_BYTES  # bytes of text in a chunk of a large batch


def as_lists(tokens):
    return [column.to_list() for column in tokens]


@pytest.fixture(scope="module")
def tokenizer():
    return rich_tokenizer(lowercase=True)


@pytest.fixture(
    scope="module", params=[*slow({}), {"unit": "bytes", "keep_special_tokens": True}], ids=["plain", "options"]
)
def options(request):
    return request.param


@pytest.fixture(scope="module")
def eager(tokenizer, options):
    """The result of an eager call, ids first."""
    return as_lists(tokenizer.tokenize_with_offsets(TEXTS, **options))


def test_tokenize_and_tokenize_with_offsets_have_the_same_ids(tokenizer, options, eager):
    options = {name: value for name, value in options.items() if name != "unit"}
    assert tokenizer.tokenize(TEXTS, **options).to_list() == eager[0]


def test_the_first_small_batches_run_op_by_op_with_the_results_of_the_graph(options):
    traced = []

    class Watched(BertTokenizer):
        def _tokens(self, *arguments):
            traced.append(not tf.executing_eagerly())
            return super()._tokens(*arguments)

    tokenizer = Watched(rich_vocabulary(), lowercase=True)
    answers = [as_lists(tokenizer.tokenize_with_offsets(TEXTS, **options)) for _ in range(EAGER_BATCHES + 2)]
    assert traced == [False] * EAGER_BATCHES + [True], "the graph is traced once"
    assert answers == [answers[0]] * len(answers)


def test_a_large_batch_is_traced_immediately():
    traced = []

    class Watched(BertTokenizer):
        def _token_ids(self, *arguments):
            traced.append(not tf.executing_eagerly())
            return super()._token_ids(*arguments)

    tokenizer = Watched(rich_vocabulary(), lowercase=True)
    many = tokenizer.tokenize(TEXTS * 5).to_list()
    assert many == tokenizer.tokenize(TEXTS).to_list() * 5
    assert traced == [True]


@pytest.mark.slow
def test_a_function_with_a_static_batch_size(tokenizer, options, eager):
    traced = tf.function(lambda texts: tokenizer.tokenize_with_offsets(texts, **options))
    assert as_lists(traced(tf.constant(TEXTS))) == eager


def test_tf_data_with_batches_and_a_remainder(tokenizer, options, eager):
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS).batch(3)
    dataset = dataset.map(lambda texts: tokenizer.tokenize_with_offsets(texts, **options), num_parallel_calls=2)
    for spec in dataset.element_spec:
        assert spec.shape.as_list() == [None, None]
        assert (spec.dtype, spec.ragged_rank) == (tf.int32, 1)
    columns = zip(*map(as_lists, dataset), strict=True)
    assert [[row for batch in column for row in batch] for column in columns] == eager


@pytest.mark.slow
@pytest.mark.parametrize(("drop_remainder", "size"), [(True, 3), (False, None)])
def test_tf_data_keeps_a_static_batch_size(drop_remainder, size):
    tokenizer = rich_tokenizer(lowercase=True)
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS).batch(3, drop_remainder=drop_remainder)
    assert dataset.map(tokenizer.tokenize).element_spec.shape.as_list() == [size, None]
    for spec in dataset.map(tokenizer.tokenize_with_offsets).element_spec:
        assert spec.shape.as_list() == [size, None]
        assert (spec.dtype, spec.ragged_rank) == (tf.int32, 1)


def test_every_mixture_of_texts_works_in_a_graph(tokenizer):
    """A graph that is traced once works for batches without plain texts, without other texts, and without any."""
    signature = [tf.TensorSpec([None], tf.string)]
    traced = tf.function(tokenizer.tokenize_with_offsets, input_signature=signature)
    for texts in (TEXTS[:2], TEXTS[2:], [], ["", ""], ["a"], ["\u0301"]):
        expected = [as_lists(tokenizer.tokenize_with_offsets([text])) for text in texts]
        columns = [[row for rows in column for row in rows] for column in zip(*expected, strict=True)] or [[]] * 4
        assert as_lists(traced(tf.constant(texts, tf.string))) == columns
        assert as_lists(tokenizer.tokenize_with_offsets(texts)) == columns


def test_an_empty_batch_and_an_empty_string_have_no_tokens(tokenizer):
    for texts, rows in (([], []), ([""], [[]]), (["", b""], [[], []]), (np.array([], object), [])):
        assert tokenizer.tokenize(texts).to_list() == rows
        assert as_lists(tokenizer.tokenize_with_offsets(texts)) == [rows] * 4


@pytest.mark.slow
def test_a_tokenizer_created_in_a_traced_function_works_outside_it(tiny_tokenizer):
    made = []

    @tf.function
    def trace():
        made.append(BertTokenizer(tiny_tokenizer.vocabulary))
        return made[0].tokenize(TEXTS).flat_values

    expected = tiny_tokenizer.tokenize(TEXTS).to_list()
    assert trace().numpy().tolist() == [index for row in expected for index in row]
    assert made[0].tokenize(TEXTS).to_list() == expected


def test_a_tokenizer_first_called_in_a_graph_works_outside_it(tiny_tokenizer):
    tokenizer = BertTokenizer(tiny_tokenizer.vocabulary)
    dataset = tf.data.Dataset.from_tensors(TEXTS).map(tokenizer.tokenize)
    assert next(iter(dataset)).to_list() == tokenizer.tokenize(TEXTS).to_list()


def test_threads_can_share_a_tokenizer(tiny_tokenizer):
    tokenizer = BertTokenizer(tiny_tokenizer.vocabulary)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda text: tokenizer.tokenize([text]).to_list()[0], TEXTS * 4))
    assert rows == tiny_tokenizer.tokenize(TEXTS).to_list() * 4


def assert_as_one_by_one(tokenizer, texts):
    """Ids and offsets of a batch equal those of its texts one by one."""
    together = tokenizer.tokenize_with_offsets(texts)
    ids = tokenizer.tokenize(texts)
    known = {}
    for place, text in enumerate(texts):
        if text not in known:
            known[text] = [column[0].numpy() for column in tokenizer.tokenize_with_offsets([text])]
        for column, expected in zip(together, known[text], strict=True):
            np.testing.assert_array_equal(column[place].numpy(), expected)
        np.testing.assert_array_equal(ids[place].numpy(), known[text][0])
    assert ids.shape[0] == len(texts)


@pytest.mark.parametrize(
    "sizes",
    [[CHUNK, 0, 0, CHUNK - 1, 1, 2], *slow([0, CHUNK + 1, 0, 3], [1, CHUNK // 2, CHUNK // 2, 0, CHUNK // 2])],
    ids=str,
)
def test_a_batch_of_several_chunks_equals_its_texts_one_by_one(sizes):
    texts = ["é"[: size % 2] + "the play " * (size // 9) + "x" * (size % 9) for size in sizes]
    assert_as_one_by_one(rich_tokenizer(lowercase=True), texts)


@pytest.mark.slow
def test_many_small_texts_fill_several_chunks():
    texts = [*random_texts(300, seed=18), "", "plain", "éa", b"\xff"]
    tokenizer = rich_tokenizer(lowercase=True)
    expected = as_lists(tokenizer.tokenize_with_offsets(texts))
    times = 1 + 3 * CHUNK // sum(len(text.encode()) for text in texts if isinstance(text, str))
    assert as_lists(tokenizer.tokenize_with_offsets(texts * times)) == [rows * times for rows in expected]
    assert tokenizer.tokenize(texts * times).to_list() == expected[0] * times


@pytest.mark.parametrize("number", [300_000, *slow(3_000_000)])
def test_many_empty_strings(number):
    tokens = rich_tokenizer(lowercase=True).tokenize_with_offsets(tf.fill([number], ""))
    assert tokens.starts.shape[0] == number
    assert tokens.token_ids.flat_values.shape[0] == 0


@pytest.mark.parametrize("megabytes", [1, *slow(10)])  # ten take half a gigabyte of memory
@pytest.mark.parametrize("unit", [*slow("the play, "), "é中 각\u0301. "], ids=ascii)
def test_megabytes_in_one_string(unit, megabytes):
    tokenizer, google = rich_pair(lowercase=True)
    times = megabytes * 1_000_000 // len(unit.encode())
    tokens = tokenizer.tokenize_with_offsets(["a", unit * times])
    np.testing.assert_array_equal(tokens.token_ids[1].numpy(), np.tile(google.ids(unit), times))
    one = tokenizer.tokenize_with_offsets([unit])
    shifts = len(unit) * np.arange(times)[:, np.newaxis]
    np.testing.assert_array_equal(tokens.starts[1].numpy(), (shifts + one.starts[0].numpy()).reshape(-1))
    np.testing.assert_array_equal(tokens.ends[1].numpy(), (shifts + one.ends[0].numpy()).reshape(-1))


@pytest.mark.parametrize("letter", slow_except(["x", "中", "\u0301", "\x00"], quick=["x"]), ids=ascii)
@pytest.mark.parametrize("megabytes", [1, *slow(10)])
def test_megabytes_of_one_letter(letter, megabytes):
    """One endless word, one word per letter, or no word."""
    tokenizer, google = rich_pair(lowercase=True)
    times = megabytes * 1_000_000 // len(letter.encode())
    ids = tokenizer.tokenize([letter * times])[0].numpy()
    expected = {"x": [tokenizer.unk_id], "中": np.tile(google.ids("中"), times)}.get(letter, [])
    np.testing.assert_array_equal(ids, expected)


class TextToTokens(tf.Module):
    """A module with the tokenizer and a string signature, as in an export."""

    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def __call__(self, text):
        tokens = self.tokenizer.tokenize_with_offsets(text)
        in_bytes = self.tokenizer.tokenize_with_offsets(text, unit="bytes", keep_special_tokens=True)
        columns = {f"characters_{name}": column for name, column in tokens._asdict().items()}
        columns |= {f"bytes_{name}": column for name, column in in_bytes._asdict().items()}
        columns["ids"] = self.tokenizer.tokenize(text)
        padded = {name: column.to_tensor(default_value=-1) for name, column in columns.items()}
        return {**padded, "text": self.tokenizer.detokenize(columns["ids"])}


LOADER = """
import json, sys
import tensorflow as tf, tensorflow_text
texts = [bytes.fromhex(text) for text in json.loads(sys.argv[2])]
out = tf.saved_model.load(sys.argv[1]).signatures["serving_default"](text=tf.constant(texts))
text = [text.decode() for text in out.pop("text").numpy()]
lists = {name: column.numpy().tolist() for name, column in out.items()}
rows = {name: [[value for value in row if value >= 0] for row in column] for name, column in lists.items()}
print(json.dumps([rows, text, any(name.startswith("bert_keras") for name in sys.modules)]))
"""


@pytest.mark.slow  # the quick tests of tests/export also reload SavedModels with a tokenizer
@pytest.mark.parametrize("text_rules", ["bert", "mediapipe"])
def test_a_saved_model_contains_the_tokenizer(tmp_path, text_rules):
    """It is loaded by a process with only TensorFlow and tensorflow-text, without our files."""
    tokenizer = rich_tokenizer(lowercase=True, text_rules=text_rules)
    module = TextToTokens(tokenizer)
    tf.saved_model.save(module, str(tmp_path / "here"), signatures=module.__call__)
    shutil.move(tmp_path / "here", tmp_path / "elsewhere")
    texts = [*TEXTS, *random_texts(300, seed=19), *random_bytes(100, seed=20)]
    as_hex = [(text if isinstance(text, bytes) else text.encode()).hex() for text in texts]
    command = [sys.executable, "-c", LOADER, str(tmp_path / "elsewhere"), json.dumps(as_hex)]
    run = subprocess.run(command, capture_output=True, check=True, cwd=tmp_path)
    rows, text, has_ours = json.loads(run.stdout)
    assert not has_ours
    assert rows["ids"] == rows["characters_token_ids"]
    for prefix, options in (("characters", {}), ("bytes", {"unit": "bytes", "keep_special_tokens": True})):
        for name, column in tokenizer.tokenize_with_offsets(texts, **options)._asdict().items():
            assert rows[f"{prefix}_{name}"] == column.to_list()
    assert text == [row.decode() for row in tokenizer.detokenize(tokenizer.tokenize(texts)).numpy()]
    if text_rules == "bert":
        google = GoogleTokenizer(rich_vocabulary())
        assert rows["ids"][: len(TEXTS)] == [google.ids(text) for text in TEXTS]
