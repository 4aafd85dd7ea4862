"""Encoded rows are cut as `pack` cuts them, or in the windows of Hugging Face, and every token knows its place."""

import itertools

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.batches import encoding
from bert_keras.pipelines.batches.encoding import encode, has_most_context
from bert_keras.pipelines.batches.packing import pack
from bert_keras.pipelines.text.tokenizer import BertTokenizer

# special tokens in unusual places, [PAD] not the first
TOKENS = ("[UNK]", "un", "[SEP]", "##aff", "##able", "play", "##ing", "the", "[PAD]", "a", "b", "c", "[CLS]", "d", ",")
TOKENS = (*TOKENS, ".", "##s", "-", "caf", "##e", "\u4e2d", "[MASK]", "so")
PAD, CLS, SEP = 8, 12, 2
# one to four tokens each; accents, case, unknown words, words without a space between
WORDS = ("unaffable", "playing", "The", "a", "B", "c,", "d.", "zzz", "caf\u00e9", "\u4e2d\u4e2d", "so-so", "\U0001f600")
WINDOWS = [(6, 0), (6, 1), (6, 3), (9, 0), (9, 4), (17, 0), (17, 5), (17, 14)]  # longest row, overlap
PAIR_WINDOWS = [(10, 0), (10, 2), (16, 0), (16, 3), (16, 7)]

single_and_pair = pytest.mark.parametrize("pair", [False, True], ids=["single", "pair"])


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer(TOKENS)


@pytest.fixture(scope="module")
def hugging_face(tmp_path_factory):
    """Hugging Face's tokenizer of the same tokens."""
    from transformers import BertTokenizerFast

    folder = tmp_path_factory.mktemp("tokens")
    (folder / "vocab.txt").write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
    return BertTokenizerFast.from_pretrained(folder)


def random_texts(num_words, seed):
    """A text for each number of words, with one to three spaces between."""
    rng = np.random.default_rng(seed)
    return ["".join(f"{word}{' ' * rng.integers(1, 4)}" for word in rng.choice(WORDS, count)) for count in num_words]


def split(rows, values):
    """The values of tokens as a list a row."""
    return [part.tolist() for part in np.split(values, rows.row_splits[1:-1])] if len(rows) else []


def hugging_face_rows(twin, *texts, max_sequence_length, window_overlap):
    return twin(
        *texts,
        truncation="only_second" if len(texts) == 2 else True,
        max_length=max_sequence_length,
        stride=window_overlap,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )


def assert_rows_are_hugging_faces(rows, theirs):
    assert rows.examples.tolist() == theirs["overflow_to_sample_mapping"]
    assert split(rows, rows.token_ids) == theirs["input_ids"]
    assert split(rows, rows.is_second.astype(int)) == theirs["token_type_ids"]
    for row, (starts, ends) in enumerate(zip(split(rows, rows.starts), split(rows, rows.ends), strict=True)):
        is_special = [of_text is None for of_text in theirs.sequence_ids(row)]
        offsets = [
            (-1, -1) if special else pair
            for special, pair in zip(is_special, theirs["offset_mapping"][row], strict=True)
        ]
        assert list(zip(starts, ends, strict=True)) == offsets


@single_and_pair
@pytest.mark.parametrize("max_sequence_length", [5, 8, 13, 60])
def test_whole_texts_are_cut_exactly_as_pack_cuts_them(pair, max_sequence_length, tokenizer):
    columns = [random_texts([0, 1, *range(14), 0, 5], seed) for seed in range(1 + pair)]
    if pair:
        columns[1] = columns[1][::-1]
    rows = encode(tokenizer, *columns, max_sequence_length=max_sequence_length)
    expected = {
        name: values.numpy()
        for name, values in pack(tokenizer, *columns, max_sequence_length=max_sequence_length).items()
    }
    is_real = expected["padding_mask"] == 1
    assert rows.lengths.tolist() == is_real.sum(axis=1).tolist()
    assert rows.token_ids.tolist() == expected["token_ids"][is_real].tolist()
    assert rows.is_second.tolist() == (expected["segment_ids"][is_real] == 1).tolist()
    assert rows.examples.tolist() == list(range(len(columns[0])))
    assert (rows.pad_id, rows.starts, rows.ends) == (PAD, None, None)


@pytest.mark.parametrize(("max_sequence_length", "window_overlap"), WINDOWS)
def test_windows_of_texts_are_hugging_faces(max_sequence_length, window_overlap, tokenizer, hugging_face):
    texts = random_texts([0, *range(30), 0, 1, 60], seed=max_sequence_length)
    settings = {"max_sequence_length": max_sequence_length, "window_overlap": window_overlap}
    rows = encode(tokenizer, texts, **settings, with_offsets=True)
    assert rows.lengths.max() == max_sequence_length
    assert_rows_are_hugging_faces(rows, hugging_face_rows(hugging_face, texts, **settings))


@pytest.mark.parametrize(("max_sequence_length", "window_overlap"), PAIR_WINDOWS)
def test_windows_of_pairs_are_hugging_faces(max_sequence_length, window_overlap, tokenizer, hugging_face):
    rng = np.random.default_rng(window_overlap)
    first = [" ".join(rng.choice(["a", "zzz", "the"], count)) for count in rng.integers(0, 5, 40)]
    second = random_texts([0, *range(36), 0, 1, 60], seed=max_sequence_length)
    settings = {"max_sequence_length": max_sequence_length, "window_overlap": window_overlap}
    rows = encode(tokenizer, first, second, **settings, with_offsets=True)
    assert len(rows) > 60
    assert_rows_are_hugging_faces(rows, hugging_face_rows(hugging_face, first, second, **settings))


@single_and_pair
@pytest.mark.parametrize("window_overlap", [0, 2])
def test_a_text_that_just_fills_a_window_makes_no_other(pair, window_overlap, tokenizer, hugging_face):
    """Six tokens fit into each window; each new window brings `step` more."""
    step = 6 - window_overlap
    num_tokens = [0, 1, 5, 6, 7, 6 + step - 1, 6 + step, 6 + step + 1, 6 + 7 * step, 6 + 7 * step + 1]
    texts = [" ".join("abcd"[place % 4] for place in range(count)) for count in num_tokens]
    columns = [["the zzz"] * len(texts), texts] if pair else [texts]
    settings = {"max_sequence_length": 11 if pair else 8, "window_overlap": window_overlap}
    rows = encode(tokenizer, *columns, **settings, with_offsets=True)
    assert np.bincount(rows.examples).tolist() == [1, 1, 1, 1, 2, 2, 2, 3, 8, 9]
    assert_rows_are_hugging_faces(rows, hugging_face_rows(hugging_face, *columns, **settings))


def test_windows_share_the_overlap_and_lose_no_token(tokenizer):
    (text,) = random_texts([40], seed=3)
    num_tokens = len(tokenizer.tokenize([text])[0])
    rows = encode(tokenizer, [text], max_sequence_length=11, window_overlap=4)
    windows = [numbers[1:-1] for numbers in split(rows, rows.text_positions)]  # without [CLS] and [SEP]
    assert len(windows) > 9
    for before, after in itertools.pairwise(windows):
        assert before[-4:] == after[:4]
    assert sorted(set(itertools.chain(*windows))) == list(range(num_tokens))


def test_a_first_text_is_cut_to_its_own_length_and_stands_in_every_window(tokenizer):
    first, second = ["a b c d, the a b c", "a", ""], random_texts([30, 9, 12], seed=4)
    settings = {"max_sequence_length": 12, "window_overlap": 2, "with_offsets": True}
    rows = encode(tokenizer, first, second, max_first_length=3, **settings)
    cut = encode(tokenizer, ["a b c", "a", ""], second, **settings)
    for name in ("token_ids", "row_splits", "second_starts", "examples", "text_positions", "starts", "ends"):
        assert getattr(rows, name).tolist() == getattr(cut, name).tolist(), name


@pytest.mark.parametrize(("overlap", "num_kept"), [(1, 4), (2, 4), (6, 2), (8, 0)])
def test_a_long_first_text_is_cut_where_the_second_needs_windows(overlap, num_kept, tokenizer):
    settings = {"max_sequence_length": 12, "window_overlap": overlap}
    first, second = "a b c d a b c d", "the a b c d the a b c d"
    rows = encode(tokenizer, [first], [second], **settings)
    cut = encode(tokenizer, [first[: max(0, 2 * num_kept - 1)]], [second], **settings)
    assert len(rows) > 1
    assert rows.token_ids.tolist() == cut.token_ids.tolist()
    assert rows.text_positions[rows.is_second].max() == 9  # all of the second text is there


def test_a_pair_that_fits_is_one_row_whatever_its_first_text(tokenizer):
    for first, second in [("a b c d a b c d", "a"), ("a b c d a b c d a", ""), ("", "a b c d a b c d a")]:
        rows = encode(tokenizer, [first], [second], max_sequence_length=12, window_overlap=4)
        whole = encode(tokenizer, [first], [second], max_sequence_length=12)
        assert rows.token_ids.tolist() == whole.token_ids.tolist()
        assert rows.second_starts.tolist() == whole.second_starts.tolist()


def google_max_context_windows(windows, position):
    """Google's `_check_is_max_context` for (start, length) of every window: the number of the one that it accepts."""
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
def test_the_window_with_the_most_context_is_googles(pair, max_sequence_length, window_overlap, tokenizer):
    """Also where a window is above a hundred tokens longer than the next, so that its length counts more than one."""
    texts = random_texts([0, 3, 8, 9, 17, 41, 5, *([240, 250, 270] if max_sequence_length > 17 else [])], seed=1)
    firsts = ["the", "a b c", "", "a", "the, b.", "zzz a", "so", "", "a", "so"][: len(texts)]
    columns = [firsts, texts] if pair else [texts]
    rows = encode(tokenizer, *columns, max_sequence_length=max_sequence_length, window_overlap=window_overlap)
    best = split(rows, has_most_context(rows))
    numbers = [
        [number if second == pair else -1 for number, second in zip(of_row, is_second, strict=True)]
        for of_row, is_second in zip(split(rows, rows.text_positions), split(rows, rows.is_second), strict=True)
    ]
    tokens = tokenizer.tokenize(texts).row_lengths().numpy()
    assert len(rows) > len(texts)
    for example in range(len(texts)):
        own = np.flatnonzero(rows.examples == example)
        inside = [[number for number in numbers[row] if number >= 0] for row in own]
        windows = [(min(window, default=0), len(window)) for window in inside]
        chosen = [google_max_context_windows(windows, token) for token in range(tokens[example])]
        for place, row in enumerate(own):
            expected = [number >= 0 and chosen[number] == place for number in numbers[row]]
            assert best[row] == expected


@pytest.mark.parametrize("window_overlap", [None, 0, 3])
@single_and_pair
def test_every_token_has_one_window_with_the_most_context(pair, window_overlap, tokenizer):
    texts = random_texts([*range(25), 0], seed=1)
    columns = [["the a"] * len(texts), texts] if pair else [texts]
    rows = encode(tokenizer, *columns, max_sequence_length=13, window_overlap=window_overlap)
    best = has_most_context(rows)
    assert (rows.text_positions[best] >= 0).all()
    assert (rows.is_second[best] == pair).all()
    found = list(zip(rows.examples[rows.sequence_indices][best], rows.text_positions[best], strict=True))
    cut_to = np.inf if window_overlap is not None else 8 if pair else 11
    lengths = tokenizer.tokenize(texts).row_lengths().numpy()
    everything = [(text, token) for text, length in enumerate(lengths) for token in range(int(min(length, cut_to)))]
    assert sorted(found) == everything
    assert len(everything) > 150


@pytest.mark.parametrize("window_overlap", [None, 2])
def test_places_are_those_of_the_text_that_a_token_is_of(window_overlap, tokenizer):
    columns = [random_texts([3, 0, 1, 2], seed=5), random_texts([1, 4, 0, 20], seed=6)]
    settings = {"max_sequence_length": 19, "window_overlap": window_overlap, "with_offsets": True}
    rows = encode(tokenizer, *columns, **settings)
    row_of, is_second = rows.sequence_indices, rows.is_second
    texts = [columns[second][rows.examples[row]] for row, second in zip(row_of, is_second.astype(int), strict=True)]
    kinds = [TOKENS[index] for index in rows.token_ids]
    is_special = np.isin(rows.token_ids, [CLS, SEP])
    for name in ("text_positions", "starts", "ends"):
        assert (getattr(rows, name) == -1).tolist() == is_special.tolist(), name
    for text, kind, start, end in zip(texts, kinds, rows.starts, rows.ends, strict=True):
        source = text[start:end].lower().replace("\u00e9", "e")
        if kind == "[UNK]":
            assert source in ("zzz", "\U0001f600")
        elif kind not in ("[CLS]", "[SEP]"):
            assert source == kind.removeprefix("##")
    places = [tokenizer.tokenize_with_offsets(column).starts.to_list() for column in columns]
    for row, second, number, start in zip(row_of, is_second.astype(int), rows.text_positions, rows.starts, strict=True):
        assert number == -1 or places[second][rows.examples[row]][number] == start


@single_and_pair
@pytest.mark.parametrize("window_overlap", [None, 2])
def test_rows_are_the_same_however_many_are_packed_at_once(pair, window_overlap, tokenizer, monkeypatch):
    columns = [["a the"] * 31, random_texts(range(31), seed=2)][1 - pair :]
    settings = {"max_sequence_length": 11, "window_overlap": window_overlap, "with_offsets": True}
    at_once = encode(tokenizer, *columns, **settings)
    monkeypatch.setattr(encoding, "_SEQUENCES_PER_CHUNK", 7)
    in_chunks = encode(tokenizer, *columns, **settings)
    assert len(at_once) % 7 > 0  # the last ones are fewer
    for name, values in vars(at_once).items():
        assert np.array_equal(values, getattr(in_chunks, name)), name


def test_numbers_have_the_types_that_the_batches_need(tokenizer):
    rows = encode(tokenizer, ["a b", "c"], ["d", "the"], max_sequence_length=9, window_overlap=1, with_offsets=True)
    types = {name: values.dtype.name for name, values in vars(rows).items() if isinstance(values, np.ndarray)}
    of_rows = {"row_splits": "int64", "second_starts": "int32", "examples": "int64"}
    assert types == {
        **dict.fromkeys(("token_ids", "text_positions", "starts", "ends", "word_starts", "word_ends"), "int32"),
        **of_rows,
    }
    assert rows.token_ids.tolist() == [CLS, 9, 10, SEP, 13, SEP, CLS, 11, SEP, 7, SEP]
    assert rows.row_splits.tolist() == [0, 6, 11]
    assert rows.second_starts.tolist() == [4, 3]
    assert rows.sequence_indices.tolist() == [0] * 6 + [1] * 5
    assert len(rows) == 2


@single_and_pair
@pytest.mark.parametrize("window_overlap", [None, 3])
def test_no_texts_make_no_rows(pair, window_overlap, tokenizer):
    columns = [[]] * (1 + pair)
    rows = encode(tokenizer, *columns, max_sequence_length=9, window_overlap=window_overlap, with_offsets=True)
    assert len(rows) == 0
    assert rows.row_splits.tolist() == [0]
    for values in (
        rows.token_ids,
        rows.starts,
        rows.lengths,
        rows.is_second,
        rows.sequence_indices,
        has_most_context(rows),
    ):
        assert len(values) == 0


FAULTS = {
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
    "a negative overlap": ({"window_overlap": -1}, "window_overlap is -1; expected an integer >= 0"),
    "no first text": (
        {"second_texts": ["b"], "window_overlap": 1, "max_first_length": 0},
        "max_first_length is 0; expected an integer >= 1",
    ),
    "a second text is missing": (
        {"texts": ["a", "b"], "second_texts": ["c"]},
        "there are 2 texts and 1 second texts; expected a second text for each",
    ),
    "a first text is missing": (
        {"second_texts": ["b", "c", "d"], "window_overlap": 1},
        "there are 1 texts and 3 second texts",
    ),
    "a number": ({"texts": ["a", 7]}, "text 1 is 7, a int"),
    "one text": ({"texts": "a b"}, "was given one text; expected a batch of texts"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_texts_and_lengths_that_cannot_be_used_are_refused(fault, tokenizer):
    changes, message = FAULTS[fault]
    with pytest.raises(InputError, match=message):
        encode(tokenizer, **{"texts": ["a"], "max_sequence_length": 9, **changes})


@single_and_pair
def test_the_largest_overlap_brings_one_new_token_a_window(pair, tokenizer):
    columns = [["zzz"], ["a b c d a b c d"]][1 - pair :]
    rows = encode(tokenizer, *columns, max_sequence_length=9 if pair else 7, window_overlap=4)
    assert len(rows) == 4  # of five tokens each, one more each time
