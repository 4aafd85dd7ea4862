"""Sequences are truncated like in `pack`, windows equal those of Hugging Face, and offsets are correct."""

import itertools

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.batches.encoding import encode, has_most_context
from bert_keras.pipelines.batches.packing import pack
from bert_keras.pipelines.text.tokenizer import BertTokenizer

# special tokens in unusual positions; [PAD] is not first
TOKENS = ("[UNK]", "un", "[SEP]", "##aff", "##able", "play", "##ing", "the", "[PAD]", "a", "b", "c", "[CLS]", "d", ",")
TOKENS = (*TOKENS, ".", "##s", "-", "caf", "##e", "\u4e2d", "[MASK]", "so")
PAD, CLS, SEP = 8, 12, 2
# words of one to four tokens: accents, case, unknown words, words without spaces in between
WORDS = ("unaffable", "playing", "The", "a", "B", "c,", "d.", "zzz", "caf\u00e9", "\u4e2d\u4e2d", "so-so", "\U0001f600")
WINDOWS = [(6, 0), (6, 1), (6, 3), (9, 0), (9, 4), (17, 0), (17, 5), (17, 14)]  # max_sequence_length, window_overlap
PAIR_WINDOWS = [(10, 0), (10, 2), (16, 0), (16, 3), (16, 7)]

single_and_pair = pytest.mark.parametrize("pair", [False, True], ids=["single", "pair"])


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer(TOKENS)


@pytest.fixture(scope="module")
def hugging_face(tmp_path_factory):
    """Tokenizer of Hugging Face with the same vocabulary."""
    from transformers import BertTokenizerFast

    folder = tmp_path_factory.mktemp("tokens")
    (folder / "vocab.txt").write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
    return BertTokenizerFast.from_pretrained(folder)


def random_texts(num_words, seed):
    """Return a text for each number of words, with one to three spaces between words."""
    rng = np.random.default_rng(seed)
    return ["".join(f"{word}{' ' * rng.integers(1, 4)}" for word in rng.choice(WORDS, count)) for count in num_words]


def split(sequences, values):
    """Split an array over tokens into one list per sequence."""
    return [part.tolist() for part in np.split(values, sequences.row_splits[1:-1])] if len(sequences) else []


def encode_with_hugging_face(twin, *texts, max_sequence_length, window_overlap):
    return twin(
        *texts,
        truncation="only_second" if len(texts) == 2 else True,
        max_length=max_sequence_length,
        stride=window_overlap,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )


def assert_equal_hugging_face(sequences, theirs):
    assert sequences.examples.tolist() == theirs["overflow_to_sample_mapping"]
    assert split(sequences, sequences.token_ids) == theirs["input_ids"]
    assert split(sequences, sequences.is_second.astype(int)) == theirs["token_type_ids"]
    for sequence, (starts, ends) in enumerate(
        zip(split(sequences, sequences.starts), split(sequences, sequences.ends), strict=True)
    ):
        is_special = [text_index is None for text_index in theirs.sequence_ids(sequence)]
        offsets = [
            (-1, -1) if special else pair
            for special, pair in zip(is_special, theirs["offset_mapping"][sequence], strict=True)
        ]
        assert list(zip(starts, ends, strict=True)) == offsets


@single_and_pair
@pytest.mark.parametrize("max_sequence_length", [5, 8, 13, 60])
def test_encode_truncates_like_pack(pair, max_sequence_length, tokenizer):
    columns = [random_texts([0, 1, *range(14), 0, 5], seed) for seed in range(1 + pair)]
    if pair:
        columns[1] = columns[1][::-1]
    sequences = encode(tokenizer, *columns, max_sequence_length=max_sequence_length)
    expected = {
        name: values.numpy()
        for name, values in pack(tokenizer, *columns, max_sequence_length=max_sequence_length).items()
    }
    is_real = expected["padding_mask"] == 1
    assert sequences.lengths.tolist() == is_real.sum(axis=1).tolist()
    assert sequences.token_ids.tolist() == expected["token_ids"][is_real].tolist()
    assert sequences.is_second.tolist() == (expected["segment_ids"][is_real] == 1).tolist()
    assert sequences.examples.tolist() == list(range(len(columns[0])))
    assert (sequences.pad_id, sequences.starts, sequences.ends) == (PAD, None, None)


@pytest.mark.parametrize(("max_sequence_length", "window_overlap"), WINDOWS)
def test_windows_of_texts_equal_hugging_face(max_sequence_length, window_overlap, tokenizer, hugging_face):
    texts = random_texts([0, *range(30), 0, 1, 60], seed=max_sequence_length)
    settings = {"max_sequence_length": max_sequence_length, "window_overlap": window_overlap}
    sequences = encode(tokenizer, texts, **settings, with_offsets=True)
    assert sequences.lengths.max() == max_sequence_length
    assert_equal_hugging_face(sequences, encode_with_hugging_face(hugging_face, texts, **settings))


@pytest.mark.parametrize(("max_sequence_length", "window_overlap"), PAIR_WINDOWS)
def test_windows_of_pairs_equal_hugging_face(max_sequence_length, window_overlap, tokenizer, hugging_face):
    rng = np.random.default_rng(window_overlap)
    first = [" ".join(rng.choice(["a", "zzz", "the"], count)) for count in rng.integers(0, 5, 40)]
    second = random_texts([0, *range(36), 0, 1, 60], seed=max_sequence_length)
    settings = {"max_sequence_length": max_sequence_length, "window_overlap": window_overlap}
    sequences = encode(tokenizer, first, second, **settings, with_offsets=True)
    assert len(sequences) > 60
    assert_equal_hugging_face(sequences, encode_with_hugging_face(hugging_face, first, second, **settings))


@single_and_pair
@pytest.mark.parametrize("window_overlap", [0, 2])
def test_text_that_exactly_fills_a_window_has_one_window(pair, window_overlap, tokenizer, hugging_face):
    """Each window has room for six tokens; each window after the first adds `step` tokens."""
    step = 6 - window_overlap
    num_tokens = [0, 1, 5, 6, 7, 6 + step - 1, 6 + step, 6 + step + 1, 6 + 7 * step, 6 + 7 * step + 1]
    texts = [" ".join("abcd"[index % 4] for index in range(count)) for count in num_tokens]
    columns = [["the zzz"] * len(texts), texts] if pair else [texts]
    settings = {"max_sequence_length": 11 if pair else 8, "window_overlap": window_overlap}
    sequences = encode(tokenizer, *columns, **settings, with_offsets=True)
    assert np.bincount(sequences.examples).tolist() == [1, 1, 1, 1, 2, 2, 2, 3, 8, 9]
    assert_equal_hugging_face(sequences, encode_with_hugging_face(hugging_face, *columns, **settings))


def test_windows_share_the_overlap_and_lose_no_token(tokenizer):
    (text,) = random_texts([40], seed=3)
    num_tokens = len(tokenizer.tokenize([text])[0])
    sequences = encode(tokenizer, [text], max_sequence_length=11, window_overlap=4)
    windows = [numbers[1:-1] for numbers in split(sequences, sequences.text_positions)]  # without [CLS] and [SEP]
    assert len(windows) > 9
    for previous, current in itertools.pairwise(windows):
        assert previous[-4:] == current[:4]
    assert sorted(set(itertools.chain(*windows))) == list(range(num_tokens))


def test_first_text_is_truncated_and_repeated_in_every_window(tokenizer):
    first, second = ["a b c d, the a b c", "a", ""], random_texts([30, 9, 12], seed=4)
    settings = {"max_sequence_length": 12, "window_overlap": 2, "with_offsets": True}
    sequences = encode(tokenizer, first, second, max_first_length=3, **settings)
    truncated = encode(tokenizer, ["a b c", "a", ""], second, **settings)
    for name in ("token_ids", "row_splits", "second_starts", "examples", "text_positions", "starts", "ends"):
        assert getattr(sequences, name).tolist() == getattr(truncated, name).tolist(), name


@pytest.mark.parametrize(("overlap", "num_remaining"), [(1, 4), (2, 4), (6, 2), (8, 0)])
def test_long_first_text_is_truncated_if_the_second_needs_windows(overlap, num_remaining, tokenizer):
    settings = {"max_sequence_length": 12, "window_overlap": overlap}
    first, second = "a b c d a b c d", "the a b c d the a b c d"
    sequences = encode(tokenizer, [first], [second], **settings)
    truncated = encode(tokenizer, [first[: max(0, 2 * num_remaining - 1)]], [second], **settings)
    assert len(sequences) > 1
    assert sequences.token_ids.tolist() == truncated.token_ids.tolist()
    assert sequences.text_positions[sequences.is_second].max() == 9  # the second text is complete


def test_pair_that_fits_is_one_sequence(tokenizer):
    for first, second in [("a b c d a b c d", "a"), ("a b c d a b c d a", ""), ("", "a b c d a b c d a")]:
        sequences = encode(tokenizer, [first], [second], max_sequence_length=12, window_overlap=4)
        truncated = encode(tokenizer, [first], [second], max_sequence_length=12)
        assert sequences.token_ids.tolist() == truncated.token_ids.tolist()
        assert sequences.second_starts.tolist() == truncated.second_starts.tolist()


def find_google_max_context_windows(windows, position):
    """Return the index of the window of (start, length) that Google's `_check_is_max_context` accepts."""
    best_score, best_window = None, None
    for number, (start, length) in enumerate(windows):
        end = start + length - 1
        if not start <= position <= end:
            continue
        score = min(position - start, end - position) + 0.01 * length
        if best_score is None or score > best_score:
            best_score, best_window = score, number
    return best_window


@single_and_pair
@pytest.mark.parametrize(("max_sequence_length", "window_overlap"), [(17, 0), (17, 1), (17, 4), (17, 7), (402, 150)])
def test_window_with_most_context_equals_google(pair, max_sequence_length, window_overlap, tokenizer):
    """Some windows are over 100 tokens longer than the next one, so that 0.01 times the length difference exceeds 1."""
    texts = random_texts([0, 3, 8, 9, 17, 41, 5, *([240, 250, 270] if max_sequence_length > 17 else [])], seed=1)
    firsts = ["the", "a b c", "", "a", "the, b.", "zzz a", "so", "", "a", "so"][: len(texts)]
    columns = [firsts, texts] if pair else [texts]
    sequences = encode(tokenizer, *columns, max_sequence_length=max_sequence_length, window_overlap=window_overlap)
    best = split(sequences, has_most_context(sequences))
    numbers = [
        [number if second == pair else -1 for number, second in zip(positions, is_second, strict=True)]
        for positions, is_second in zip(
            split(sequences, sequences.text_positions), split(sequences, sequences.is_second), strict=True
        )
    ]
    tokens = tokenizer.tokenize(texts).row_lengths().numpy()
    assert len(sequences) > len(texts)
    for example in range(len(texts)):
        own = np.flatnonzero(sequences.examples == example)
        inside = [[number for number in numbers[sequence] if number >= 0] for sequence in own]
        windows = [(min(window, default=0), len(window)) for window in inside]
        chosen = [find_google_max_context_windows(windows, token) for token in range(tokens[example])]
        for index, sequence in enumerate(own):
            expected = [number >= 0 and chosen[number] == index for number in numbers[sequence]]
            assert best[sequence] == expected


@pytest.mark.parametrize("window_overlap", [None, 0, 3])
@single_and_pair
def test_every_token_has_one_window_with_the_most_context(pair, window_overlap, tokenizer):
    texts = random_texts([*range(25), 0], seed=1)
    columns = [["the a"] * len(texts), texts] if pair else [texts]
    sequences = encode(tokenizer, *columns, max_sequence_length=13, window_overlap=window_overlap)
    best = has_most_context(sequences)
    assert (sequences.text_positions[best] >= 0).all()
    assert (sequences.is_second[best] == pair).all()
    chosen = list(
        zip(sequences.examples[sequences.sequence_indices][best], sequences.text_positions[best], strict=True)
    )
    max_tokens = np.inf if window_overlap is not None else 8 if pair else 11
    lengths = tokenizer.tokenize(texts).row_lengths().numpy()
    all_tokens = [(text, token) for text, length in enumerate(lengths) for token in range(int(min(length, max_tokens)))]
    assert sorted(chosen) == all_tokens
    assert len(all_tokens) > 150


@pytest.mark.parametrize("window_overlap", [None, 2])
def test_offsets_give_the_text_of_their_token(window_overlap, tokenizer):
    columns = [random_texts([3, 0, 1, 2], seed=5), random_texts([1, 4, 0, 20], seed=6)]
    settings = {"max_sequence_length": 19, "window_overlap": window_overlap, "with_offsets": True}
    sequences = encode(tokenizer, *columns, **settings)
    sequence_of, is_second = sequences.sequence_indices, sequences.is_second
    texts = [
        columns[second][sequences.examples[sequence]]
        for sequence, second in zip(sequence_of, is_second.astype(int), strict=True)
    ]
    tokens = [TOKENS[index] for index in sequences.token_ids]
    is_special = np.isin(sequences.token_ids, [CLS, SEP])
    for name in ("text_positions", "starts", "ends"):
        assert (getattr(sequences, name) == -1).tolist() == is_special.tolist(), name
    for text, token, start, end in zip(texts, tokens, sequences.starts, sequences.ends, strict=True):
        source = text[start:end].lower().replace("\u00e9", "e")
        if token == "[UNK]":
            assert source in ("zzz", "\U0001f600")
        elif token not in ("[CLS]", "[SEP]"):
            assert source == token.removeprefix("##")
    expected_starts = [tokenizer.tokenize_with_offsets(column).starts.to_list() for column in columns]
    for sequence, second, number, start in zip(
        sequence_of, is_second.astype(int), sequences.text_positions, sequences.starts, strict=True
    ):
        assert number == -1 or expected_starts[second][sequences.examples[sequence]][number] == start


def test_arrays_have_the_types_that_batches_need(tokenizer):
    sequences = encode(
        tokenizer, ["a b", "c"], ["d", "the"], max_sequence_length=9, window_overlap=1, with_offsets=True
    )
    types = {name: values.dtype.name for name, values in vars(sequences).items() if isinstance(values, np.ndarray)}
    sequence_types = {"row_splits": "int64", "second_starts": "int32", "examples": "int64"}
    assert types == {
        **dict.fromkeys(("token_ids", "text_positions", "starts", "ends", "word_starts", "word_ends"), "int32"),
        **sequence_types,
    }
    assert sequences.token_ids.tolist() == [CLS, 9, 10, SEP, 13, SEP, CLS, 11, SEP, 7, SEP]
    assert sequences.row_splits.tolist() == [0, 6, 11]
    assert sequences.second_starts.tolist() == [4, 3]
    assert sequences.sequence_indices.tolist() == [0] * 6 + [1] * 5
    assert len(sequences) == 2


@single_and_pair
@pytest.mark.parametrize("window_overlap", [None, 3])
def test_no_texts_give_no_sequences(pair, window_overlap, tokenizer):
    columns = [[]] * (1 + pair)
    sequences = encode(tokenizer, *columns, max_sequence_length=9, window_overlap=window_overlap, with_offsets=True)
    assert len(sequences) == 0
    assert sequences.row_splits.tolist() == [0]
    for values in (
        sequences.token_ids,
        sequences.starts,
        sequences.lengths,
        sequences.is_second,
        sequences.sequence_indices,
        has_most_context(sequences),
    ):
        assert len(values) == 0


ERRORS = {
    "too short": ({"max_sequence_length": 2}, "max_sequence_length is 2; expected an integer >= 3"),
    "too short for a pair": ({"second_texts": ["b"], "max_sequence_length": 4}, "is 4; expected an integer >= 5"),
    "overlap of a whole window": (
        {"window_overlap": 7},
        r"^window_overlap is 7, and a window holds 7 tokens; expected fewer, .* lower window_overlap, or raise "
        "max_sequence_length$",
    ),
    "overlap of a whole window of a pair": (
        {"second_texts": ["b"], "window_overlap": 6},
        "window_overlap is 6, and a window holds 6 tokens; expected fewer",
    ),
    "negative overlap": ({"window_overlap": -1}, "window_overlap is -1; expected an integer >= 0"),
    "no first text": (
        {"second_texts": ["b"], "window_overlap": 1, "max_first_length": 0},
        "max_first_length is 0; expected an integer >= 1",
    ),
    "missing second text": (
        {"texts": ["a", "b"], "second_texts": ["c"]},
        "there are 2 texts and 1 second texts; expected a second text for each",
    ),
    "missing first text": (
        {"second_texts": ["b", "c", "d"], "window_overlap": 1},
        "there are 1 texts and 3 second texts",
    ),
    "number": ({"texts": ["a", 7]}, "text 1 is 7, a int"),
    "string instead of a list": ({"texts": "a b"}, "received one text; expected a batch of texts"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_invalid_texts_and_lengths_are_rejected(case, tokenizer):
    changes, message = ERRORS[case]
    with pytest.raises(InputError, match=message):
        encode(tokenizer, **{"texts": ["a"], "max_sequence_length": 9, **changes})


@single_and_pair
def test_largest_overlap_gives_one_new_token_per_window(pair, tokenizer):
    columns = [["zzz"], ["a b c d a b c d"]][1 - pair :]
    sequences = encode(tokenizer, *columns, max_sequence_length=9 if pair else 7, window_overlap=4)
    assert len(sequences) == 4  # each has five tokens, and adds one after the first window
