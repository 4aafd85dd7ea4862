"""Answer texts with an exported BERT on a device: from text to token ids, through LiteRT, and back to words.

This file and `unicode_tables.txt` need NumPy and `ai-edge-litert` only:

    from bert_client import BertClient

    client = BertClient.load("artifacts/tflite")  # the folder that `bert-keras export --to tflite` wrote
    client.answer("a fine film")  # {"label": "good", "probability": 0.98, ...}
    client.answer("Who wrote Emma?", "Emma was written by Jane Austen.")  # a question and its context

The token ids equal those of `bert_keras.BertTokenizer`, and the answers those of `bert_keras.Predictor`. Ranges count
characters: `text[start:end]`.
"""

import bisect
import functools
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

FORMAT = 1  # of model.json
MIN_PROBABILITY = 1e-30  # so that there is a logarithm

Outputs = Mapping[str, np.ndarray]
Runner = Callable[[Sequence[int], Sequence[int]], Outputs]
"""Takes the token ids and the segment ids of a sequence, S each; returns the file's outputs, without the batch axis."""


class Token(NamedTuple):
    """A token: its id, and the ranges of characters that became it and its word."""

    id: int
    start: int
    end: int
    word_start: int
    word_end: int


class Window(NamedTuple):
    """A sequence for the model: `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`.

    Attributes:
        token_ids: S token ids, without padding.
        segment_ids: S times 0 for A or 1 for B.
        tokens: the tokens of B, or of A without a B, that are in this window.
        first: the index of the first of them in their text.
        offset: the position of the first of them in the sequence.
    """

    token_ids: list[int]
    segment_ids: list[int]
    tokens: Sequence[Token]
    first: int
    offset: int


# ---------------------------------------------------------------------------------------------------------- tokenizer


class Unicode:
    """The properties of characters, from the lines of `unicode_tables.txt`.

    `examples/make_unicode_tables.py` describes the lines.
    """

    def __init__(self, lines: Sequence[str]):
        rows = dict(line.split(" ", 1) for line in lines)
        self.version = rows.pop("version")
        self.lower, self._strip = (dict(_read_map(rows.pop(name))) for name in ("lower", "strip"))
        sets = {name: frozenset(_read_set(items)) for name, items in rows.items()}
        self.ranks = {code: int(name[4:]) for name in sets if name.startswith("rank") for code in sets[name]}
        self.space, self.dropped, self.single, self.chinese = (
            sets[name] for name in ("space", "dropped", "single", "chinese")
        )
        self.mark, self.blocking, self.cased, self.ignorable = (
            sets[name] for name in ("mark", "blocking", "cased", "ignorable")
        )

    def strip(self, code: int) -> tuple[int, ...]:
        """Return the canonical decomposition of a character that is not a mark, without marks."""
        if 0xAC00 <= code <= 0xD7A3:  # Hangul
            lead, rest = divmod(code - 0xAC00, 588)
            vowel, tail = divmod(rest, 28)
            return (0x1100 + lead, 0x1161 + vowel, 0x11A7 + tail)[: 3 if tail else 2]
        return self._strip.get(code, (code,))


def _read_set(items: str) -> Iterator[int]:
    end = 0
    for item in items.split(" "):
        gap, _, length = item.partition(".")
        start = end + int(gap, 36)
        end = start + int(length or "1", 36)
        yield from range(start, end)


def _read_map(items: str) -> Iterator[tuple[int, tuple[int, ...]]]:
    code = 0
    for item in items.split(" "):
        gap, _, values = item.partition(":")
        code += int(gap, 36)
        yield code, tuple(int(value, 36) for value in values.split(","))


@functools.cache
def read_unicode() -> Unicode:
    """Read the tables next to this file."""
    return Unicode(pathlib.Path(__file__).with_name("unicode_tables.txt").read_text(encoding="ascii").splitlines())


class Letter(NamedTuple):
    """A character of the normalized text and its range in the original text; -1 - id stands for a whole token."""

    code: int
    start: int
    end: int


class TokenSearch:
    """Find whole tokens in characters: the leftmost match, and of those the longest."""

    def __init__(self, tokens: Mapping[tuple[int, ...], int]):
        self._tokens: dict[int, list[tuple[tuple[int, ...], int]]] = {}
        for codes in sorted(tokens, key=len, reverse=True):
            self._tokens.setdefault(codes[0], []).append((codes, tokens[codes]))

    def replace(self, letters: list[Letter]) -> list[Letter]:
        """Return the letters with one letter for each token."""
        if not self._tokens:
            return letters
        found, place = [], 0
        while place < len(letters):
            length, letter = 1, letters[place]
            for codes, token_id in self._tokens.get(letter.code, ()):
                end = place + len(codes)
                if tuple(one.code for one in letters[place:end]) == codes:
                    length, letter = len(codes), Letter(-1 - token_id, letter.start, letters[end - 1].end)
                    break
            found.append(letter)
            place += length
        return found


class Tokenizer:
    """BERT's tokenizer, which returns the token ids of `bert_keras.BertTokenizer` for every text.

    Args:
        vocabulary: the tokens in the order of their ids.
        settings: the `tokenizer` of `model.json`.

    Raises:
        ValueError: this client does not have the model's text rules or Unicode version.
    """

    def __init__(self, vocabulary: Sequence[str], settings: Mapping):
        self._unicode = read_unicode()
        if settings["text_rules"] != "bert":
            raise ValueError(
                f"the model's text rules are {settings['text_rules']!r}; this client has 'bert': run it in MediaPipe"
            )
        if settings["unicode_version"] != self._unicode.version:
            raise ValueError(
                f"the model has Unicode {settings['unicode_version']}; this client has {self._unicode.version}: use "
                "the client of the release that exported the model"
            )
        self.pad_id, self._unk_id = settings["pad_id"], settings["unk_id"]
        self.cls_id, self.sep_id = settings["cls_id"], settings["sep_id"]
        self._lowercase, self._strip_accents = settings["lowercase"], settings["strip_accents"]
        self._max_word_length = settings["max_input_chars_per_word"]
        self._single = self._unicode.single
        if settings["tokenize_chinese_chars"]:
            self._single |= self._unicode.chinese
        self._ids = {token: index for index, token in enumerate(vocabulary)}
        self._longest = max(map(len, vocabulary))
        self._special_tokens = TokenSearch(
            {tuple(map(ord, token)): self._ids[token] for token in settings["additional_special_tokens"]}
        )
        self._added_tokens = TokenSearch(
            {
                tuple(letter.code for letter in self._normalize(_read_letters(token), finds_sigma=False)): self._ids[
                    token
                ]
                for token in settings["added_tokens"]
            }
        )

    def tokenize(self, text: str) -> list[Token]:
        """Return the tokens of a text, without [CLS] and [SEP]."""
        letters = self._normalize(self._special_tokens.replace(_read_letters(text)))
        tokens: list[Token] = []
        word: list[Letter] = []
        for letter in self._added_tokens.replace(letters):
            is_alone = letter.code < 0 or letter.code == 0x20 or letter.code in self._single
            if is_alone and word:
                tokens += self._split_word(word)
                word = []
            if letter.code < 0:
                tokens.append(Token(-1 - letter.code, letter.start, letter.end, letter.start, letter.end))
            elif not is_alone:
                word.append(letter)
            elif letter.code != 0x20:
                tokens += self._split_word([letter])
        return [*tokens, *self._split_word(word)] if word else tokens

    def _normalize(self, letters: list[Letter], *, finds_sigma: bool = True) -> list[Letter]:
        """Drop control characters, fold case and strip accents; white space becomes a space."""
        unicode = self._unicode
        found: list[Letter] = []
        groups: list[int] = []  # marks do not move from one group to another
        group = 0
        for place, (code, start, end) in enumerate(letters):
            if code in unicode.dropped:
                continue
            lowered = (code,)
            if code in unicode.space:
                lowered = (0x20,)
            elif self._lowercase:
                is_final = finds_sigma and code == 0x3A3 and self._is_final_sigma(letters, place)
                lowered = (0x3C2,) if is_final else unicode.lower.get(code, lowered)
            for one in lowered:
                if self._strip_accents and one in unicode.mark:
                    group += one in unicode.blocking
                    continue
                for part in unicode.strip(one) if self._strip_accents else (one,):
                    group += part not in unicode.ranks
                    found.append(Letter(part, start, end))
                    groups.append(group)
        return self._sort_marks(found, groups) if self._strip_accents else found

    def _is_final_sigma(self, letters: list[Letter], place: int) -> bool:
        """Return whether the capital sigma at `place` ends a word, by Unicode's rule Final_Sigma."""
        before, after = range(place - 1, -1, -1), range(place + 1, len(letters))
        return self._is_next_cased(letters, before) and not self._is_next_cased(letters, after)

    def _is_next_cased(self, letters: list[Letter], places: range) -> bool:
        for place in places:
            code = letters[place].code
            if code not in self._unicode.ignorable and code not in self._unicode.dropped:
                return code in self._unicode.cased
        return False

    def _sort_marks(self, letters: list[Letter], groups: list[int]) -> list[Letter]:
        """Sort the few marks that are not stripped by their class, as NFD does; those that move share one range."""
        ranks = [self._unicode.ranks.get(letter.code, 0) for letter in letters]
        start = 0
        while start < len(letters):
            end = start + 1
            while end < len(letters) and ranks[start] and ranks[end] and groups[end] == groups[start]:
                end += 1
            order = sorted(range(start, end), key=ranks.__getitem__)
            moved = [place for place, other in enumerate(order, start) if place != other]
            if moved:
                first, last = min(letters[place].start for place in moved), max(letters[place].end for place in moved)
                ordered = [letters[place] for place in order]
                letters[start:end] = ordered
                for place in moved:
                    letters[place] = Letter(letters[place].code, first, last)
            start = end
        return letters

    def _split_word(self, word: list[Letter]) -> list[Token]:
        """Return the WordPiece tokens of a word: each the longest in the vocabulary; [UNK] if there is none."""
        text = "".join(chr(letter.code) for letter in word)
        word_range = (word[0].start, word[-1].end)
        tokens: list[Token] = []
        start = 0 if len(word) <= self._max_word_length else len(word)
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                if (token_id := self._ids.get(prefix + text[start:end])) is not None:
                    break
            else:
                tokens = []
                break
            tokens.append(Token(token_id, word[start].start, word[end - 1].end, *word_range))
            start = end
        return tokens or [Token(self._unk_id, *word_range, *word_range)]


def _read_letters(text: str) -> list[Letter]:
    """Return the characters of a text; half a surrogate pair is U+FFFD, which is dropped."""
    codes = (0xFFFD if 0xD800 <= code <= 0xDFFF else code for code in map(ord, text))
    return [Letter(code, place, place + 1) for place, code in enumerate(codes)]


def split_words(text: str) -> list[tuple[int, int]]:
    """Return the ranges of a text's words: white space ends a word, each punctuation or Chinese character is one."""
    unicode = read_unicode()
    words: list[tuple[int, int]] = []
    start = 0
    is_visible = False  # whether the word has a character that is not dropped
    for place, code in enumerate([*(letter.code for letter in _read_letters(text)), 0x20]):
        is_space, is_single = code in unicode.space, code in unicode.single or code in unicode.chinese
        if is_space or is_single:
            if is_visible:
                words.append((start, place))
            if is_single:
                words.append((place, place + 1))
            start, is_visible = place + 1, False
        else:
            is_visible |= code not in unicode.dropped
    return words


# -------------------------------------------------------------------------------------------------------------- windows


def make_windows(
    tokenizer: Tokenizer,
    text: str,
    second_text: str | None = None,
    *,
    length: int,
    overlap: int | None = None,
    max_first_length: int | None = None,
) -> list[Window]:
    """Tokenize a text or a pair of texts, and cut it to sequences of at most `length` tokens.

    Args:
        tokenizer: the tokenizer.
        text: the text.
        second_text: the second text of a pair.
        length: the maximum length of a sequence, including [CLS] and [SEP].
        overlap: number of tokens that consecutive windows share; of a pair, the second text is cut into windows. None:
            a long text is truncated, of a pair the longer one first.
        max_first_length: with windows of a pair, the maximum length of the first text.
    """
    first = tokenizer.tokenize(text)
    if second_text is None:
        budget = length - 2
        return [_make_window(tokenizer, [], first, *cut) for cut in _cut(len(first), budget, overlap)]
    second = tokenizer.tokenize(second_text)
    budget = length - 3
    if overlap is None:
        num_second = min(len(second), max(budget // 2, budget - len(first)))
        return [_make_window(tokenizer, first[: budget - num_second], second, 0, num_second, is_pair=True)]
    if max_first_length is not None:
        first = first[:max_first_length]
    if len(first) + len(second) > budget and len(first) + overlap >= budget:
        first = first[: min(budget // 2, budget - overlap - 1)]
    cuts = _cut(len(second), budget - len(first), overlap)
    return [_make_window(tokenizer, first, second, *cut, is_pair=True) for cut in cuts]


def _cut(num_tokens: int, room: int, overlap: int | None) -> list[tuple[int, int]]:
    """Return the ranges of tokens of the windows of a text."""
    if overlap is None:
        return [(0, min(num_tokens, room))]
    step = max(room - overlap, 1)
    num_windows = 1 + max(0, -((room - num_tokens) // step))  # rounded up
    return [(index * step, min(index * step + room, num_tokens)) for index in range(num_windows)]


def _make_window(
    tokenizer: Tokenizer, first: list[Token], second: list[Token], begin: int, end: int, *, is_pair: bool = False
) -> Window:
    tokens = second[begin:end]
    head = [tokenizer.cls_id, *(token.id for token in first), tokenizer.sep_id] if is_pair else [tokenizer.cls_id]
    tail = [*(token.id for token in tokens), tokenizer.sep_id]
    return Window(head + tail, [0] * len(head) + [int(is_pair)] * len(tail), tokens, begin, len(head))


def find_best_windows(windows: Sequence[Window]) -> list[int]:
    """Return, for each token of the text that was cut, the index of the window in which it has the most context.

    Context is the number of tokens on the shorter side, plus 0.01 times the length of the window, as in Google's code.
    """
    best: dict[int, tuple[float, int]] = {}
    for index, window in enumerate(windows):
        num_tokens = len(window.tokens)
        for place in range(num_tokens):
            context = min(place, num_tokens - 1 - place) + 0.01 * num_tokens
            token = window.first + place
            if token not in best or context > best[token][0]:
                best[token] = context, index
    return [best[token][1] for token in range(len(best))]


# ---------------------------------------------------------------------------------------------------------------- tasks


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return the softmax over the last axis, in float64."""
    exponentials = np.exp(np.asarray(logits, np.float64) - np.max(logits, axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def classify(windows: Sequence[Window], outputs: Sequence[Outputs], task: Mapping) -> dict:
    """Return the label, the labels or the value of a text, whose windows are averaged."""
    problem, labels = task["problem"], task["labels"]
    logits = np.mean([_get_logits(one, problem) for one in outputs], axis=0)
    if problem == "regression":
        return {"value": float(logits[0])}
    if problem == "multi_label":
        probabilities = 1 / (1 + np.exp(-logits))
        chosen = [label for label, value in zip(labels, probabilities, strict=True) if value >= task["threshold"]]
        return {"labels": chosen, "probabilities": probabilities.tolist()}
    probabilities = softmax(logits)
    best = int(probabilities.argmax())
    return {"label": labels[best], "probability": float(probabilities[best]), "probabilities": probabilities.tolist()}


def _get_logits(outputs: Outputs, problem: str) -> np.ndarray:
    """Return a classifier's logits; a TFLite file has probabilities, from which they follow up to a constant."""
    if "logits" in outputs:
        return outputs["logits"].astype(np.float64)
    if problem == "regression":
        return outputs["scores"].astype(np.float64)
    probabilities = np.maximum(outputs["probabilities"].astype(np.float64), MIN_PROBABILITY)
    if problem == "multi_label":
        return np.log(probabilities) - np.log(np.maximum(1 - probabilities, MIN_PROBABILITY))
    return np.log(probabilities)


def tag(
    text: str, words: Sequence[tuple[int, int]], windows: Sequence[Window], outputs: Sequence[Outputs], task: Mapping
) -> dict:
    """Return the tag of each word, predicted at its first token, and the entities."""
    labels = task["labels"]
    outside = labels.index("O") if "O" in labels else 0
    lengths = [end - start + 1 for start, end in words]
    starts = np.cumsum([0, *lengths])[:-1].tolist()  # of the words joined by spaces
    tags, probabilities = [labels[outside]] * len(words), [0.0] * len(words)
    tagged = set()
    best = find_best_windows(windows)
    for token, index in enumerate(best):
        window = windows[index]
        place = token - window.first
        word = bisect.bisect_right(starts, window.tokens[place].start) - 1
        if word not in tagged:
            tagged.add(word)
            scores = softmax(outputs[index]["logits"][window.offset + place])
            tags[word], probabilities[word] = labels[int(scores.argmax())], float(scores.max())
    if task["scheme"] == "none":
        spans = [(label, place, place + 1) for place, label in enumerate(tags)]
    else:
        spans = find_entities(tags)
    found = []
    for label, first, last in spans:
        start, end = words[first][0], words[last - 1][1]
        probability = float(np.mean(probabilities[first:last]))
        found.append({"label": label, "text": text[start:end], "start": start, "end": end, "probability": probability})
    return {"tags": tags, "words" if task["scheme"] == "none" else "entities": found}


def find_entities(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the label and the range of words of each entity, with the leniency of `conlleval`."""
    entities: list[tuple[str, int, int]] = []
    open_label = ""  # the label of the entity that the next word may continue
    for place, name in enumerate(tags):
        letter = {"L": "E", "U": "S"}.get(name[0], name[0])
        label = "" if letter == "O" else name[2:] or "_"
        if letter in "IE" and open_label == label:
            entities[-1] = (label, entities[-1][1], place + 1)
        elif letter != "O":
            entities.append((label, place, place + 1))
        open_label = label if letter in "BI" else ""
    return entities


def extract_answer(context: str, windows: Sequence[Window], outputs: Sequence[Outputs], task: Mapping) -> dict:
    """Return the best answers in a context, under `best`, and the chosen one."""
    spans = []
    best_windows = find_best_windows(windows)
    for index, (window, one) in enumerate(zip(windows, outputs, strict=True)):
        tokens = slice(window.offset, window.offset + len(window.tokens))
        starts, ends = (one[name][tokens].astype(np.float64) for name in ("start_logits", "end_logits"))
        top_starts, top_ends = (np.argsort(-logits, kind="stable")[: task["num_logits"]] for logits in (starts, ends))
        for first in top_starts.tolist():
            if best_windows[window.first + first] != index:
                continue
            for last in top_ends.tolist():
                if first <= last < first + task["max_answer_length"]:
                    score = float(starts[first] + ends[last])
                    spans.append((score, window.tokens[first].word_start, window.tokens[last].word_end))
    null_score = min(float(np.float64(one["start_logits"][0]) + np.float64(one["end_logits"][0])) for one in outputs)
    best: dict[str, dict] = {}
    for score, start, end in sorted(spans, reverse=True):
        answer = context[start:end]
        best.setdefault(answer, {"answer": answer, "score": score, "start": start, "end": end})
        if len(best) == task["num_best"]:
            break
    found = list(best.values())
    for answer, probability in zip(found, softmax([answer["score"] for answer in found]) if found else (), strict=True):
        answer["probability"] = float(probability)
    chosen = {"answer": "", "score": null_score, "start": None, "end": None, "probability": None}
    if found and not (task["allows_null"] and null_score - found[0]["score"] > task["null_threshold"]):
        chosen = found[0]
    return {**chosen, "null_score": null_score, "best": found}


# --------------------------------------------------------------------------------------------------------------- client


class BertClient:
    """Answers texts with a model.

    Args:
        description: the content of `model.json`.
        vocabulary: the tokens in the order of their ids.
        run: runs the model on a sequence.

    Raises:
        ValueError: this client cannot run the model.
    """

    def __init__(self, description: Mapping, vocabulary: Sequence[str], run: Runner):
        if description["format"] != FORMAT:
            raise ValueError(
                f"model.json has the format {description['format']}; this client reads {FORMAT}: use the client of the "
                "release that exported the model"
            )
        self.tokenizer = Tokenizer(vocabulary, description["tokenizer"])
        self.task, self._run = description["task"], run

    @classmethod
    def load(
        cls, folder: str | os.PathLike, file: str | None = None, *, num_threads: int | None = None
    ) -> "BertClient":
        """Load a model from a folder with `model.json`.

        Args:
            folder: the `tflite/` folder that `bert-keras export` wrote.
            file: the name of the file to run; None: the smallest one.
            num_threads: number of LiteRT's threads; None: its default, one.

        Raises:
            ValueError: there is no such file, or this client cannot run the model.
        """
        folder = pathlib.Path(folder)
        description = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        names = [entry["path"] for entry in description["files"]]
        if file is not None and file not in names:
            raise ValueError(
                f"model.json has no file {file!r}; expected one of {', '.join(names)}: choose one of these"
            )
        vocabulary = (folder / description["tokenizer"]["vocabulary"]).read_bytes().decode().split("\n")[:-1]
        run = LiteRtRunner(folder / (file or names[0]), description["tokenizer"]["pad_id"], num_threads)
        return cls(description, vocabulary, run)

    def answer(self, text: str, second_text: str | None = None) -> dict:
        """Answer a text, or a pair of texts: for a model that answers questions, a question and its context.

        Raises:
            ValueError: a text is missing or is not wanted, or the model has no task.
        """
        task = self._get_task()
        if task["name"] == "classify":
            windows = self.make_windows(text, second_text)
            return classify(windows, self._run_all(windows), task)
        if task["name"] == "tag":
            words = split_words(text)
            windows = self.make_windows(text, second_text)
            return tag(text, words, windows, self._run_all(windows), task)
        if task["name"] == "answer":
            windows = self.make_windows(text, second_text)
            return extract_answer(second_text, windows, self._run_all(windows), task)
        vectors = [self.embed(one) for one in (text, second_text) if one is not None]
        if len(vectors) == 1:
            return {"embedding": vectors[0].tolist()}
        first, second = (vector.astype(np.float64) for vector in vectors)
        return {"cosine": float(first @ second / max(np.linalg.norm(first) * np.linalg.norm(second), 1e-12))}

    def embed(self, text: str) -> np.ndarray:
        """Return the vector of a text, `(D,)`."""
        (outputs,) = self._run_all(self.make_windows(text))
        return outputs["sentence_embedding"]

    def make_windows(self, text: str, second_text: str | None = None) -> list[Window]:
        """Return the sequences of a text or a pair of texts.

        Raises:
            ValueError: see `answer`.
        """
        task = self._get_task()
        if task["name"] == "answer" and second_text is None:
            raise ValueError("a question needs a context, and there is none; expected a pair of texts: give both")
        if task["name"] == "tag" and second_text is not None:
            raise ValueError("tagging needs single texts, and a second text was given: leave it out")
        if task["name"] == "classify" and task["has_pairs"] and second_text is None:
            raise ValueError("the model classifies pairs of texts, and there is one text: give both")
        if task["name"] == "classify" and not task["has_pairs"] and second_text is not None:
            raise ValueError("the model classifies single texts, and a second text was given: leave it out")
        if task["name"] == "tag":
            text = " ".join(text[start:end] for start, end in split_words(text))
        return make_windows(
            self.tokenizer,
            task.get("prompt", "") + text,
            second_text,
            length=task["max_sequence_length"],
            overlap=task.get("window_overlap"),
            max_first_length=task.get("max_question_length"),
        )

    def _get_task(self) -> Mapping:
        if self.task is None:
            raise ValueError("the model has no task, so there is nothing to answer: use tokenizer and its outputs")
        return self.task

    def _run_all(self, windows: Sequence[Window]) -> list[Outputs]:
        return [self._run(window.token_ids, window.segment_ids) for window in windows]


class LiteRtRunner:
    """Run a TFLite file on one sequence at a time, padded to the length of the file.

    Args:
        path: the file.
        pad_id: the id of [PAD].
        num_threads: number of threads; None: LiteRT's default.
    """

    def __init__(self, path: str | os.PathLike, pad_id: int, num_threads: int | None = None):
        from ai_edge_litert.interpreter import Interpreter

        self._pad_id = pad_id
        self._interpreter = Interpreter(str(path), num_threads=num_threads)
        runners = {
            int(runner.get_input_details()["input_ids"]["shape"][1]): runner
            for runner in map(self._interpreter.get_signature_runner, self._interpreter.get_signature_list())
        }
        self._runners = sorted(runners.items())

    def __call__(self, token_ids: Sequence[int], segment_ids: Sequence[int]) -> Outputs:
        """Return the outputs for a sequence, `(S, ...)` or `(...)`, keyed by name."""
        length, run = next(item for item in self._runners if item[0] >= len(token_ids))
        rows = np.full((3, 1, length), 0, np.int32)
        rows[0] = self._pad_id
        for row, values in zip(rows, (token_ids, [1] * len(token_ids), segment_ids), strict=True):
            row[0, : len(values)] = values
        inputs = dict(zip(("input_ids", "attention_mask", "token_type_ids"), rows, strict=True))
        return {name: values[0] for name, values in run(**inputs).items()}
