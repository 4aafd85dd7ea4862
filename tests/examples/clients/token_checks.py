"""Compare a client's tokens with those of `BertTokenizer`."""

import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from bert_keras.export.client_bundle.client_description import build_client_description
from bert_keras.pipelines.text.tokenizer import BertTokenizer

from .client_process import ClientProcess
from .text_units import find_places, replace_surrogates

_NAMES = ("ids", "starts", "ends", "wordStarts", "wordEnds")
_TEXTS_PER_CALL = 256


def write_tokenizer_folder(tokenizer: BertTokenizer, folder: pathlib.Path) -> pathlib.Path:
    """Write `model.json` and the vocabulary of a model that has no file and no task."""
    folder.mkdir(parents=True, exist_ok=True)
    description = build_client_description(
        "tokens", "tflite", files=[], inputs=[], outputs=[], tokenizer=tokenizer, task=None, probes=[]
    )
    (folder / "model.json").write_text(json.dumps(description), encoding="utf-8")
    (folder / "vocab.txt").write_bytes("".join(f"{token}\n" for token in tokenizer.vocabulary).encode())
    return folder


def check_tokens(client: ClientProcess, tokenizer: BertTokenizer, texts: Sequence[str]) -> int:
    """Check the ids and both ranges of every token; return the number of tokens.

    Args:
        client: the client, with the same tokenizer.
        tokenizer: the tokenizer.
        texts: B texts. Those with a lone surrogate are compared with the text that has U+FFFD in its place.
    """
    num_tokens = 0
    for start in range(0, len(texts), _TEXTS_PER_CALL):
        batch = texts[start : start + _TEXTS_PER_CALL]
        answers = client.ask_all([{"tokenize": text} for text in batch])
        for text, expected, answer in zip(batch, _tokenize(client, tokenizer, batch), answers, strict=True):
            got = np.array([answer[name] for name in _NAMES], np.int64).reshape(len(_NAMES), -1)
            if not np.array_equal(got, expected):
                raise AssertionError(_describe_difference(client, text, got, expected))
            num_tokens += expected.shape[1]
    return num_tokens


def pack_texts(texts: Iterable[str], length: int = 4000) -> Iterator[str]:
    """Yield texts joined by newlines, of about `length` characters. No rule of the tokenizer crosses a newline."""
    parts, size = [], 0
    for text in texts:
        parts.append(text)
        size += len(text) + 1
        if size >= length:
            yield "\n".join(parts)
            parts, size = [], 0
    if parts:
        yield "\n".join(parts)


def _tokenize(client: ClientProcess, tokenizer: BertTokenizer, texts: Sequence[str]) -> Iterator[np.ndarray]:
    """Yield `_NAMES` of each text, `(5, S)`, with the client's units."""
    texts = [replace_surrogates(text) for text in texts]
    arrays = tokenizer.tokenize_to_arrays(texts, with_offsets=True)
    ranges = (arrays.starts, arrays.ends, arrays.word_starts, arrays.word_ends)
    for text, start, end in zip(texts, arrays.row_splits[:-1], arrays.row_splits[1:], strict=True):
        places = find_places(text, is_utf16=client.is_utf16)
        yield np.stack([arrays.token_ids[start:end], *(places[column[start:end]] for column in ranges)])


def _describe_difference(client: ClientProcess, text: str, got: np.ndarray, expected: np.ndarray) -> str:
    """Return the first token that differs and the text around it."""
    size = min(got.shape[1], expected.shape[1])
    places = np.flatnonzero((got[:, :size] != expected[:, :size]).any(axis=0))
    place = int(places[0]) if len(places) else size
    units = find_places(text, is_utf16=client.is_utf16)
    near = expected if place < expected.shape[1] else got
    begin = np.searchsorted(units, near[3, place])
    return (
        f"token {place} of {got.shape[1]} tokens differs; expected {expected.shape[1]} tokens with "
        f"{dict(zip(_NAMES, expected[:, place : place + 1].tolist(), strict=True))}, got "
        f"{dict(zip(_NAMES, got[:, place : place + 1].tolist(), strict=True))}, near "
        f"{text[max(begin - 8, 0) : begin + 60]!a}"
    )
