"""Tokenizers with their reference, and checks that hold for every tokenizer and text."""

import functools
import unicodedata
from collections.abc import Sequence

from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.vocabulary import read_vocabulary
from tests.shared_data import shared

from .google_reference import GoogleTokenizer, select_comparable
from .tokenizer_texts import VOCABULARIES, rich_vocabulary


def make_pair(vocabulary: Sequence[str], **settings) -> tuple[BertTokenizer, GoogleTokenizer]:
    """Return our tokenizer and Google's for one vocabulary."""
    return BertTokenizer(vocabulary, **settings), GoogleTokenizer(vocabulary, **settings)


@functools.cache
def rich_tokenizer(**settings) -> BertTokenizer:
    """Return our tokenizer of `rich_vocabulary`, cached, because a tokenizer and its first call take a second."""
    return BertTokenizer(rich_vocabulary(), **settings)


@functools.cache
def rich_pair(**settings) -> tuple[BertTokenizer, GoogleTokenizer]:
    """Return our tokenizer and Google's for `rich_vocabulary`."""
    return rich_tokenizer(**settings), GoogleTokenizer(rich_vocabulary(), **settings)


@functools.cache
def published_pair(name: str) -> tuple[BertTokenizer, GoogleTokenizer]:
    """Return our tokenizer and Google's for a published vocabulary; skip the test if it is missing."""
    return make_pair(published_vocabulary(name), lowercase=VOCABULARIES[name])


def published_vocabulary(name: str) -> list[str]:
    """Return the tokens of a published vocabulary; skip the test if it is missing."""
    return read_vocabulary(shared(f"vocab/{name}_vocab.txt"))


def assert_ids_equal_googles(tokenizer: BertTokenizer, google: GoogleTokenizer, texts: Sequence[str | bytes]) -> int:
    """Check the ids of texts; return the number of texts compared."""
    texts = select_comparable(texts)
    rows = tokenizer.tokenize(texts).to_list()
    wrong = [(text, row, ids) for text, row in zip(texts, rows, strict=True) if row != (ids := google.ids(text))]
    assert not wrong, f"{len(wrong)} of {len(texts)} texts differ; (text, ours, Google's): {[*map(ascii, wrong[:5])]}"
    return len(texts)


def assert_offsets_are_correct(tokenizer: BertTokenizer, google: GoogleTokenizer, texts: Sequence[str | bytes]) -> int:
    """Check the ids, word ids and offsets in both units of every token; return the number of tokens."""
    texts = select_comparable(texts)
    tokens = tokenizer.tokenize_with_offsets(texts)
    in_bytes = tokenizer.tokenize_with_offsets(texts, unit="bytes")
    columns = (*tokens, in_bytes.token_ids, in_bytes.word_ids, in_bytes.starts, in_bytes.ends)
    check = _OffsetCheck(tokenizer, google)
    for text, *row in zip(texts, *(column.to_list() for column in columns), strict=True):
        ids, starts, ends, word_ids, ids_again, word_ids_again, byte_starts, byte_ends = row
        assert ids == ids_again == google.ids(text), ascii(text)
        assert word_ids == word_ids_again == google.word_ids(text), ascii(text)
        check.check_bytes(text, [*zip(starts, ends, strict=True)], [*zip(byte_starts, byte_ends, strict=True)])
        check.check_tokens(text, ids, starts, ends)
    return int(tokens.token_ids.flat_values.shape[0])


class _OffsetCheck:
    """The rules for the range of a token, each checked with Google's code on the range alone."""

    def __init__(self, tokenizer: BertTokenizer, google: GoogleTokenizer):
        self._tokens = [token.removeprefix("##") for token in tokenizer.vocabulary]
        self._unk_id = tokenizer.unk_id
        self._google = google
        self._folded: dict[str, str] = {}

    def check_bytes(self, text: str | bytes, ranges, byte_ranges) -> None:
        """A range in bytes has the same text as the range in characters."""
        raw = text if isinstance(text, bytes) else text.encode()
        text = raw.decode("utf-8", "replace")
        for (start, end), (byte_start, byte_end) in zip(ranges, byte_ranges, strict=True):
            assert raw[:byte_start].decode("utf-8", "replace") == text[:start], ascii((text, start, byte_start))
            assert raw[byte_start:byte_end].decode("utf-8", "replace") == text[start:end], ascii((text, start, end))

    def check_tokens(self, text: str | bytes, ids, starts, ends) -> None:
        """Ranges contain their tokens, are in order, begin and end with a character of the token, skip no letter."""
        text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        is_reordered = any(map(_may_change_places, text))
        covered = [False] * len(text)
        last_end = 0
        for index, start, end in zip(ids, starts, ends, strict=True):
            token = text[start:end]
            place = ascii((token, self._tokens[index], start, end, text))
            assert self._holds(index, token, is_reordered), place
            assert self.folded(token[0]), place
            assert self.folded(token[-1]), place
            if not is_reordered:
                assert start >= last_end or (start == last_end - 1 and self._becomes_several(token[0])), place
            covered[start:end] = [True] * (end - start)
            last_end = end
        left_out = [letter for letter, is_covered in zip(text, covered, strict=True) if not is_covered]
        left_out = [letter for letter in left_out if self.folded(letter) and not _may_change_places(letter)]
        assert not left_out, ascii((left_out, text))

    def folded(self, text: str) -> str:
        """Return a text normalized by Google's code, without spaces."""
        if text not in self._folded:
            self._folded[text] = "".join(self._google.words(text)).replace("\u03c2", "\u03c3")
        return self._folded[text]

    def _becomes_several(self, character: str) -> bool:
        return len(self.folded(character)) > 1

    def _holds(self, index: int, text: str, is_reordered: bool) -> bool:
        if index == self._unk_id:  # a capital sigma alone has another lower case than at the end of a word
            return self._google.ids(text) == [index] or "Σ" in text or is_reordered
        token, folded = self._tokens[index].replace("\u03c2", "\u03c3"), self.folded(text)
        if token == folded:
            return True
        if is_reordered:
            return not set(token) - set(folded)
        return token in folded and (self._becomes_several(text[0]) or self._becomes_several(text[-1]))


def _may_change_places(character: str) -> bool:
    """Whether NFD can move the character, although it is not a mark that BERT strips."""
    return any(
        unicodedata.combining(part) and unicodedata.category(part) != "Mn"
        for part in unicodedata.normalize("NFD", character)
    )
