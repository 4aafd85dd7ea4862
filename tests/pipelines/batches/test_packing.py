"""Packed sequences have the right tokens at the right positions for every truncation and padding."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.features import FEATURES
from bert_keras.pipelines.batches.packing import TRUNCATIONS, pack, pack_tokens
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS
from tests.marks import slow, slow_except

IDS = {"special_ids": (2, 3, 9)}
PADDINGS = {
    "longest": {},
    "fixed": {"pad_to_length": 11},
    "multiple": {"pad_to_multiple": 4},
    "buckets": {"pad_to_buckets": (6, 10)},
}
# ops that packing may use; all are much older than TensorFlow Serving 2.13
OPS = set(
    "AddV2 Cast ConcatV2 Const Equal FloorDiv GatherV2 Greater Identity Less LogicalAnd Max Maximum Minimum Mul Pack "
    "Placeholder Range Reshape SelectV2 Size Split StridedSlice Sub Sum ZerosLike".split()
)
WORDS = "abcdefghijklmnopqrs"  # one token each

every_truncation = pytest.mark.parametrize("truncation", TRUNCATIONS)
every_padding = pytest.mark.parametrize("padding", PADDINGS.values(), ids=PADDINGS)


def ragged(sequences):
    return tf.ragged.constant(sequences, dtype=tf.int32, ragged_rank=1)


def as_lists(features):
    return {name: tensor.numpy().tolist() for name, tensor in features.items()}


def pack_as_google(first, second, max_sequence_length, length):
    """Pack one list at a time with Google's `_truncate_seq_pair` (always from the end)."""
    first, second, pair = list(first), list(second or []), second is not None
    while len(first) + len(second) > max_sequence_length - (3 if pair else 2):
        (first if len(first) > len(second) else second).pop()
    ids, segments = [2, *first, 3], [0] * (len(first) + 2)
    if pair:
        ids, segments = [*ids, *second, 3], [*segments, *[1] * (len(second) + 1)]
    padding = length - len(ids)
    return ids + [9] * padding, segments + [0] * padding, [1] * len(ids) + [0] * padding


@pytest.mark.parametrize("pair", [False, True], ids=["single", "pair"])
@pytest.mark.parametrize("max_sequence_length", [5, 8, 13, 50])
@pytest.mark.parametrize("fixed", [False, True], ids=["longest", "fixed"])
def test_sequences_equal_the_packing_of_google(pair, max_sequence_length, fixed):
    rng = np.random.default_rng(max_sequence_length)
    first, second = ([rng.integers(10, 99, rng.integers(0, 17)).tolist() for _ in range(23)] for _ in range(2))
    length = max_sequence_length + 4 if fixed else None
    features = pack_tokens(
        ragged(first),
        ragged(second) if pair else None,
        **IDS,
        max_sequence_length=max_sequence_length,
        pad_to_length=length,
    )
    special = 3 if pair else 2
    sizes = [len(a) + (len(b) if pair else 0) + special for a, b in zip(first, second, strict=True)]
    length = length or min(max(sizes), max_sequence_length)
    sequences = [
        pack_as_google(a, b if pair else None, max_sequence_length, length) for a, b in zip(first, second, strict=True)
    ]
    for name, expected in zip(("token_ids", "segment_ids", "padding_mask"), zip(*sequences, strict=True), strict=True):
        assert features[name].numpy().tolist() == list(expected), name


def test_names_and_types_match_the_table_of_features(tiny_tokenizer):
    features = pack(tiny_tokenizer, ["the a", "b"], max_sequence_length=7)
    assert set(features) == {"token_ids", "segment_ids", "padding_mask"}
    for name, tensor in features.items():
        assert tensor.dtype.name == FEATURES[name].dtype


def test_tokens_and_special_tokens_have_the_right_positions(tiny_tokenizer):
    first, second = ["the unaffable a", "", "b, c."], ["playing", "the a b c d", "c"]
    assert as_lists(pack(tiny_tokenizer, first, second, max_sequence_length=9))["token_ids"] == [
        [2, 10, 5, 6, 7, 3, 8, 9, 3],
        [2, 3, 10, 11, 12, 13, 14, 3, 0],
        [2, 12, 15, 13, 16, 3, 13, 3, 0],
    ]


@pytest.mark.parametrize("padding", ["buckets", *slow("longest", "fixed", "multiple")])
def test_tokens_are_packed_equally_in_tf_function_and_tf_data(padding):
    first, second = ragged([[11, 12, 13], [], [14, 15]]), ragged([[16], [17, 18, 19, 20, 21, 22, 23, 24], [25]])

    def pack_pairs(a, b):
        return pack_tokens(a, b, **IDS, max_sequence_length=9, **PADDINGS[padding])

    expected = as_lists(pack_pairs(first, second))
    spec = tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1)
    assert as_lists(tf.function(pack_pairs, input_signature=[spec, spec])(first, second)) == expected
    dataset = tf.data.Dataset.from_tensor_slices((first, second)).batch(3, drop_remainder=True).map(pack_pairs)
    assert as_lists(next(iter(dataset))) == expected
    length = PADDINGS[padding].get("pad_to_length")
    assert {tuple(spec.shape) for spec in dataset.element_spec.values()} == {(3, length)}


@pytest.mark.slow
@pytest.mark.parametrize("padding", PADDINGS)
@every_truncation
@pytest.mark.parametrize("length", [5, 9])  # truncates all sequences, or some
def test_eager_tf_function_and_tf_data_agree(tiny_tokenizer, truncation, padding, length):
    first, second = ["the unaffable a", "", "b, c."], ["playing", "the a b c d b a the", "c"]

    def pack_pairs(a, b):
        options = {"truncation": truncation, **PADDINGS[padding]}
        return pack(tiny_tokenizer, a, b, max_sequence_length=length, **options)

    expected = as_lists(pack_pairs(first, second))
    spec = tf.TensorSpec([None], tf.string)
    assert as_lists(tf.function(pack_pairs, input_signature=[spec, spec])(first, second)) == expected
    dataset = tf.data.Dataset.from_tensor_slices((first, second)).batch(3).map(pack_pairs)
    assert as_lists(next(iter(dataset))) == expected


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    """Our tokenizer and Hugging Face's for `WORDS`; a text with n words has n tokens."""
    from transformers import BertTokenizerFast

    folder = tmp_path_factory.mktemp("letters")
    vocabulary = [*SPECIAL_TOKENS, *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    return BertTokenizer(vocabulary), BertTokenizerFast.from_pretrained(folder)


def encode_with_hugging_face(twin, first, second, **options):
    """Return Hugging Face's ids and segments of a pair, or None if it raises because a text would become empty."""
    try:
        sequence = twin([first], [second], truncation=options["truncation"], max_length=options["max_sequence_length"])
    except Exception as error:  # `tokenizers` raises nothing narrower
        if "Sequence to truncate too short" not in str(error):
            raise
        return None
    return sequence["input_ids"][0], sequence["token_type_ids"][0]


@every_truncation
@pytest.mark.parametrize("max_sequence_length", slow_except(range(5, 15), quick=[5, 8]))
def test_pairs_of_every_length_are_truncated_like_hugging_face(letters, truncation, max_sequence_length):
    ours, twin = letters
    options = {"max_sequence_length": max_sequence_length, "truncation": truncation}
    budget = max_sequence_length - 3
    sizes = list(itertools.product(range(10), range(10)))
    first, second = [" ".join(WORDS[:a]) for a, _ in sizes], [" ".join(WORDS[10:][:b]) for _, b in sizes]
    features = as_lists(pack(ours, first, second, **options))
    for sequence, (a, b) in enumerate(sizes):
        length = sum(features["padding_mask"][sequence])
        actual = features["token_ids"][sequence][:length], features["segment_ids"][sequence][:length]
        tokens = range(5, 5 + a), range(15, 15 + b)
        expected = encode_with_hugging_face(twin, first[sequence], second[sequence], **options)
        remaining = tokens[1 if truncation == "only_first" else 0]
        # where Hugging Face raises, we remove the text, and truncate the other text if necessary
        assert (expected is None) == (truncation != "longest_first" and a + b > budget and len(remaining) >= budget)
        if expected is None:
            tokens = ([], remaining[:budget]) if truncation == "only_first" else (remaining[:budget], [])
            expected = pack_as_google(*tokens, max_sequence_length, length)[:2]
        # Google gives an odd token to the first text, Hugging Face to the longer or the second text
        if truncation == "longest_first" and budget % 2 and budget // 2 < a <= b:
            assert actual != expected
            expected = pack_as_google(*tokens, max_sequence_length, length)[:2]
        assert actual == expected, (a, b)


@pytest.mark.parametrize("truncation", ["longest_first", "only_first"])
@pytest.mark.parametrize("max_sequence_length", range(3, 9))
def test_single_texts_are_truncated_like_hugging_face(letters, truncation, max_sequence_length):
    ours, twin = letters
    texts = [" ".join(WORDS[:size]) for size in range(10)]
    features = as_lists(pack(ours, texts, max_sequence_length=max_sequence_length, truncation=truncation))
    expected = twin(texts, truncation=truncation, max_length=max_sequence_length, padding=True)
    assert features["token_ids"] == expected["input_ids"]
    assert features["padding_mask"] == expected["attention_mask"]


@pytest.mark.parametrize(
    ("padding", "lengths"),
    [
        ({"pad_to_multiple": 4}, {2: 4, 3: 4, 4: 4, 5: 8, 8: 8, 9: 11, 11: 11, 20: 11}),
        ({"pad_to_multiple": 1}, {2: 2, 7: 7, 20: 11}),
        ({"pad_to_multiple": 64}, {2: 11, 20: 11}),
        ({"pad_to_buckets": (4, 7, 12)}, {2: 4, 3: 4, 4: 4, 5: 7, 7: 7, 8: 12, 11: 12, 20: 12}),
        ({"pad_to_buckets": [11]}, {2: 11, 11: 11, 20: 11}),
        ({"pad_to_length": 13}, {2: 13, 11: 13, 20: 13}),
    ],
)
def test_batches_are_padded_to_the_requested_length(padding, lengths):
    for longest, expected in lengths.items():
        sequences = ragged([[], range(10, 8 + longest), [7]][: 1 if longest == 2 else 3])
        features = as_lists(pack_tokens(sequences, **IDS, max_sequence_length=11, **padding))
        short = as_lists(pack_tokens(sequences, **IDS, max_sequence_length=11))
        for name, pad in {"token_ids": 9, "segment_ids": 0, "padding_mask": 0}.items():
            width = len(short[name][0])
            assert features[name] == [sequence + [pad] * (expected - width) for sequence in short[name]], (
                longest,
                name,
            )


@pytest.mark.slow
@pytest.mark.parametrize("kind", PADDINGS)
def test_known_sizes_give_static_shapes(tiny_tokenizer, kind):
    padding = PADDINGS[kind]

    def shapes(dataset, **options):
        dataset = dataset.map(lambda *texts: pack(tiny_tokenizer, *texts, max_sequence_length=8, **options))
        return {tuple(spec.shape) for spec in dataset.element_spec.values()}

    texts = ["a", "b", "the a"]
    length = padding.get("pad_to_length")
    for columns in ((texts,), (texts, texts)):
        dataset = tf.data.Dataset.from_tensor_slices(columns)
        assert shapes(dataset.batch(2, drop_remainder=True), **padding) == {(2, length)}
        assert shapes(dataset.batch(2), **padding) == {(None, length)}


@every_truncation
@every_padding
def test_only_ops_of_old_servers_are_used(truncation, padding):
    spec = tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1)

    @tf.function
    def pack_texts(*texts):
        return pack_tokens(*texts, **IDS, max_sequence_length=9, truncation=truncation, **padding)

    for num_texts in (2,) if truncation == "only_second" else (1, 2):
        graph = pack_texts.get_concrete_function(*[spec] * num_texts).graph.as_graph_def()
        assert {node.op for node in graph.node} - OPS == set()
        assert not graph.library.function


def test_keep_special_tokens_is_passed_to_the_tokenizer(tiny_tokenizer, monkeypatch):
    calls = []

    def tokenize(texts, keep_special_tokens=False):
        calls.append(keep_special_tokens)
        return ragged([[7]])

    monkeypatch.setattr(tiny_tokenizer, "tokenize", tokenize)
    for keep in (False, True):
        pack(tiny_tokenizer, ["a"], ["b"], max_sequence_length=5, keep_special_tokens=keep)
    assert calls == [False, False, True, True]


@pytest.mark.parametrize(
    ("padding", "length"),
    [({}, 3), ({"pad_to_length": 7}, 7), ({"pad_to_multiple": 4}, 4), ({"pad_to_buckets": (2, 5, 6)}, 5)],
)
@pytest.mark.parametrize("texts", [[], ["", ""]], ids=["no sequences", "empty sequences"])
def test_empty_texts_give_special_tokens_only(tiny_tokenizer, texts, padding, length):
    for truncation in TRUNCATIONS:
        features = pack(tiny_tokenizer, texts, texts, max_sequence_length=6, truncation=truncation, **padding)
        assert features["token_ids"].numpy().tolist() == [[2, 3, 3] + [0] * (length - 3)] * len(texts)
        assert features["token_ids"].shape == (len(texts), length)


@pytest.mark.parametrize(
    ("second", "lengths", "message"),
    [
        (None, {"max_sequence_length": 2}, "max_sequence_length is 2; expected an integer >= 3"),
        ([[7]], {"max_sequence_length": 4}, "max_sequence_length is 4; expected an integer >= 5"),
        (None, {"max_sequence_length": 7, "pad_to_length": 6}, "pad_to_length is 6, below max_sequence_length 7"),
        (None, {"max_sequence_length": 7, "pad_to_buckets": (4, 6)}, "ends with 6, below max_sequence_length 7"),
    ],
)
def test_lengths_without_room_are_rejected(second, lengths, message):
    with pytest.raises(InputError, match=message):
        pack_tokens(ragged([[7, 8]]), None if second is None else ragged(second), **IDS, **lengths)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"truncation": "longest"}, "truncation is 'longest'; expected one of longest_first, only_first, only_second"),
        ({"truncation": "only_second"}, "truncation is 'only_second', but there is no second text"),
        ({"pad_to_multiple": 0}, "pad_to_multiple is 0; expected an integer >= 1"),
        ({"pad_to_multiple": 8.0}, "pad_to_multiple is 8.0; expected an integer"),
        ({"pad_to_length": True}, "pad_to_length is True; expected an integer"),
        ({"max_sequence_length": "12"}, "max_sequence_length is '12'; expected an integer"),
        ({"pad_to_buckets": ()}, r"pad_to_buckets is \(\); expected distinct lengths in ascending order"),
        ({"pad_to_buckets": 64}, "pad_to_buckets is 64; expected distinct lengths in ascending order"),
        ({"pad_to_buckets": [[8, 16]]}, "expected distinct lengths in ascending order"),
        ({"pad_to_buckets": "128"}, "pad_to_buckets is '128'; expected distinct lengths in ascending order"),
        (
            {"pad_to_buckets": (8, 8, 16)},
            r"pad_to_buckets is \(8, 8, 16\); expected distinct lengths in ascending order",
        ),
        ({"pad_to_buckets": (16, 8)}, "expected distinct lengths in ascending order"),
        ({"pad_to_buckets": (0, 16)}, "expected distinct lengths in ascending order"),
        ({"pad_to_buckets": (8, 16.0)}, "expected distinct lengths in ascending order"),
        ({"pad_to_buckets": (8, "16")}, "expected distinct lengths in ascending order"),
        (
            {"pad_to_length": 16, "pad_to_multiple": 8},
            "pad_to_length and pad_to_multiple are given together; expected at most one of them",
        ),
        ({"pad_to_multiple": 8, "pad_to_buckets": (16,)}, "pad_to_multiple and pad_to_buckets are given together"),
    ],
)
def test_contradictory_settings_are_rejected(options, message):
    with pytest.raises(InputError, match=message):
        pack_tokens(ragged([[7, 8]]), **IDS, **{"max_sequence_length": 12, **options})


def test_single_second_text_is_not_broadcast_over_a_batch():
    with pytest.raises(tf.errors.InvalidArgumentError):
        pack_tokens(ragged([[7], [8], [7]]), ragged([[8]]), **IDS, max_sequence_length=9)
