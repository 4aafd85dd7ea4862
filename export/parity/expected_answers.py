"""The answers that a SavedModel should give to texts: those of `Task.decode` and `fill_mask`, keyed by output name."""

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bert_keras.engines.mask_filling import Filling, fill_mask
from bert_keras.export.parity.comparison import TIE, Comparison
from bert_keras.export.parity.probe_inputs import IdSequence, split_into_batches
from bert_keras.export.parity.reference import Reference
from bert_keras.heads.fill_mask.graph import NUM_FILLINGS
from bert_keras.heads.task import Task
from bert_keras.pipelines.text.tokenizer import BertTokenizer

Answer = Mapping[str, np.ndarray]  # the artifact's outputs for one text, keyed by name
CompareAnswers = Callable[[Comparison, Sequence[Answer]], None]  # collects the differences of the answers to all texts


def expect_text_answers(reference: Reference, texts: Sequence[tuple[str, ...]]) -> CompareAnswers:
    """Compute the checkpoint's answers to texts and return the function that compares an artifact's answers with them.

    Args:
        reference: the checkpoint.
        texts: N tuples of one or two texts.
    """
    return reference.head.load("comparison")(reference, texts)


class CheckpointRun:
    """The checkpoint's outputs for texts, as examples of its task, and what decodes them.

    Args:
        reference: the checkpoint.
        texts: N tuples of one or two texts.
    """

    def __init__(self, reference: Reference, texts: Sequence[tuple[str, ...]]):
        self.task, self.tokenizer = reference.task, reference.tokenizer
        self.examples = [self.task.make_example(*parts) for parts in texts]
        self.encoded = self.task.encode(self.tokenizer, self.examples)
        self.outputs = reference.compute_task_outputs(self.encoded)

    def decode(self) -> list[dict]:
        """Return the answers to the examples, as `Task.decode`."""
        return self.task.decode(self.encoded, self.outputs, self.examples)


def expect_encoder_outputs(reference: Reference, texts: Sequence[tuple[str, ...]]) -> CompareAnswers:
    """Return the comparison with the outputs of an encoder; see `expect_text_answers`."""
    return functools.partial(_compare_encoder_outputs, reference, [text for (text,) in texts])


def expect_embeddings(reference: Reference, texts: Sequence[tuple[str, ...]]) -> CompareAnswers:
    """Compute the vectors of an embedder; see `expect_text_answers`."""
    return functools.partial(_compare_embeddings, CheckpointRun(reference, texts))


def _compare_embeddings(run: CheckpointRun, comparison: Comparison, answers: Sequence[Answer]) -> None:
    for vector, answer in zip(run.outputs["embedding"], answers, strict=True):
        comparison.compare_floats("embedding", vector, answer.get("embedding"))


def expect_classes(reference: Reference, texts: Sequence[tuple[str, ...]]) -> CompareAnswers:
    """Compute the classes or values of a classifier; see `expect_text_answers`."""
    return functools.partial(_compare_classes, CheckpointRun(reference, texts))


def _compare_classes(run: CheckpointRun, comparison: Comparison, answers: Sequence[Answer]) -> None:
    task = run.task
    all_logits = task.average_logits(run.encoded, run.outputs, len(run.examples))
    for logits, expected, answer in zip(all_logits, run.decode(), answers, strict=True):
        comparison.compare_floats("scores", logits, answer.get("scores"))
        if task.problem == "regression":
            comparison.compare_floats("value", expected["value"], answer.get("value"))
            continue
        comparison.compare_floats("probabilities", expected["probabilities"], answer.get("probabilities"))
        if task.problem == "multi_label":
            _compare_label_sets(comparison, task.labels, logits, expected["labels"], answer)
            continue
        is_tie = comparison.is_tie(logits)
        label = answer.get("label")
        comparison.compare_labels("label", expected["label"], label if label is None else label.decode(), is_tie)
        comparison.compare_labels("label_id", task.labels.index(expected["label"]), answer.get("label_id"), is_tie)


def _compare_label_sets(
    comparison: Comparison, labels: Sequence[str], logits: np.ndarray, expected: Sequence[str], answer: Answer
) -> None:
    names = [name.decode() for name in answer.get("labels", ())[: answer.get("num_labels", 0)]]
    is_tie = np.abs(logits) <= TIE * comparison.tolerance
    got, wanted = ([label in chosen for label in labels] for chosen in (names, expected))
    comparison.compare_labels("labels", wanted, got, is_tie)
    comparison.compare_labels("num_labels", sum(got), int(answer.get("num_labels", -1)))


def expect_tags(reference: Reference, texts: Sequence[tuple[str, ...]]) -> CompareAnswers:
    """Compute the tags of words; see `expect_text_answers`."""
    return functools.partial(_compare_tags, CheckpointRun(reference, texts))


def _compare_tags(run: CheckpointRun, comparison: Comparison, answers: Sequence[Answer]) -> None:
    task = run.task
    probabilities = task.compute_word_probabilities(run.encoded, run.outputs, run.examples)
    for example, word_probabilities, answer in zip(run.examples, probabilities, answers, strict=True):
        has_tokens = word_probabilities.any(axis=1)
        expected = word_probabilities[has_tokens]
        num_words = int(answer.get("num_words", -1))
        comparison.compare_labels("num_words", len(expected), num_words)
        if num_words != len(expected):
            continue
        got = {name: values[:num_words] for name, values in answer.items() if name != "num_words"}
        is_tie = comparison.is_tie(expected) if num_words else False
        comparison.compare_floats("probabilities", expected.max(axis=1, initial=0), got.get("probabilities"))
        comparison.compare_labels("label_ids", expected.argmax(axis=1), got.get("label_ids"), is_tie)
        names = [name.decode() for name in got.get("labels", ())]
        comparison.compare_labels("labels", [task.labels[tag] for tag in expected.argmax(axis=1)], names, is_tie)
        word_numbers = np.flatnonzero(has_tokens)
        comparison.compare_labels("words", [True] * num_words, _match_words(run.tokenizer, example, word_numbers, got))


def _match_words(tokenizer: BertTokenizer, example: object, word_numbers: np.ndarray, got: Answer) -> list[bool]:
    """Return whether each served word is the example's word, apart from characters at its edges that have no token."""
    words = [word.decode() for word in got.get("words", ())]
    ranges = list(zip(got.get("starts", ()), got.get("ends", ()), strict=True))
    if not len(words) == len(ranges) == len(word_numbers):
        return []
    tokens = tokenizer.tokenize([*words, *(example.words[n] for n in word_numbers)]).to_list() if words else []
    return [
        word == example.text[start:end]
        and example.starts[number] <= start <= end <= example.ends[number]
        and got_tokens == expected_tokens
        for word, (start, end), number, got_tokens, expected_tokens in zip(
            words, ranges, word_numbers, tokens[: len(words)], tokens[len(words) :], strict=True
        )
    ]


def expect_spans(reference: Reference, texts: Sequence[tuple[str, ...]]) -> CompareAnswers:
    """Compute the answers to questions; see `expect_text_answers`."""
    return functools.partial(_compare_spans, CheckpointRun(reference, texts))


def _compare_spans(run: CheckpointRun, comparison: Comparison, answers: Sequence[Answer]) -> None:
    for expected, answer in zip(run.decode(), answers, strict=True):
        best, number = expected["best"], int(answer.get("num_best", -1))
        comparison.compare_floats("score", expected["score"], answer.get("score"))
        comparison.compare_floats("null_score", expected["null_score"], answer.get("null_score"))
        comparison.compare_labels("num_best", len(best), number)
        if number != len(best):
            continue
        scores = np.array([span["score"] for span in best])
        spans = [(span["answer"], span["start"], span["end"]) for span in best]
        texts = [text.decode() for text in answer.get("best_answers", ())[:number]]
        got = list(zip(texts, answer["best_starts"].tolist(), answer["best_ends"].tolist(), strict=False))
        for name, values in (("best_scores", scores), ("best_probabilities", [span["probability"] for span in best])):
            comparison.compare_floats(name, values, answer.get(name, np.zeros(0))[:number])
        _compare_ranked(comparison, "best_answers", scores, spans, got)
        _compare_chosen_span(comparison, run.task, expected, scores, answer)


def _compare_chosen_span(
    comparison: Comparison, task: Task, expected: Mapping, scores: np.ndarray, answer: Answer
) -> None:
    chosen = (expected["answer"], *(-1 if expected[side] is None else expected[side] for side in ("start", "end")))
    got = (answer["answer"].decode(), int(answer["start"]), int(answer["end"]))
    margins = [abs(expected["null_score"] - expected["score"] - task.null_threshold) if task.allows_null else np.inf]
    margins += [scores[0] - scores[1]] if len(scores) > 1 else []
    comparison.compare_labels("answer", True, chosen == got, min(margins) <= TIE * comparison.tolerance)


def _compare_ranked(comparison: Comparison, name: str, scores: np.ndarray, expected: list, got: list) -> None:
    """Compare the item at each rank. Items whose scores are closer than the tolerance allows may swap places."""
    gaps = np.abs(np.diff(scores)) <= TIE * comparison.tolerance
    # the last item always counts as tied: it may swap with one that is not listed
    is_tie = np.concatenate([gaps, [True]]) | np.concatenate([[False], gaps])
    is_equal = [one == other for one, other in zip(expected, got, strict=True)]
    comparison.compare_labels(name, [True] * len(expected), is_equal, is_tie)


def _compare_encoder_outputs(
    reference: Reference, texts: Sequence[str], comparison: Comparison, answers: Sequence[Answer]
) -> None:
    tokenizer = reference.tokenizer
    for ids, answer in zip(tokenizer.tokenize(texts).to_list(), answers, strict=True):
        ids = [tokenizer.cls_id, *ids[: reference.text_length - 2], tokenizer.sep_id]
        sequence = IdSequence(np.array(ids, np.int32), np.zeros(len(ids), np.int32))
        length = int(answer.get("attention_mask", np.zeros(0)).sum())
        comparison.compare_labels("input_ids", ids, answer.get("input_ids", np.zeros(0))[:length])
        for name, values in reference.compute_outputs(sequence).items():
            got = answer.get(name)
            if name in reference.token_outputs and got is not None:
                values = np.pad(values, [(0, len(got) - length), (0, 0)])  # zeros in padding
            comparison.compare_floats(name, values, got)


def expect_fillings(reference: Reference, texts: Sequence[tuple[str, ...]]) -> CompareAnswers:
    """Compute the proposals for masks; see `expect_text_answers`."""
    texts = [text for (text,) in texts]
    model, tokenizer, length = reference.model, reference.tokenizer, reference.text_length
    fits = tokenizer.tokenize(texts, keep_special_tokens=True).row_lengths().numpy() + 2 <= length
    numbers = [number for number, text in enumerate(texts) if fits[number] and "[MASK]" in text]
    top_k = min(NUM_FILLINGS, tokenizer.vocabulary_size)
    fillings = {}
    for batch in split_into_batches(len(numbers)):  # small batches, because each is as long as its longest text
        chosen = [numbers[index] for index in batch]
        filled = fill_mask(model, tokenizer, [texts[number] for number in chosen], top_k=top_k)
        fillings.update(zip(chosen, filled, strict=True))
    return functools.partial(_compare_fillings, fillings)


def _compare_fillings(
    fillings: Mapping[int, list[list[Filling]]], comparison: Comparison, answers: Sequence[Answer]
) -> None:
    for number, masks in fillings.items():
        answer = answers[number]
        comparison.compare_labels("num_masks", len(masks), answer.get("num_masks"))
        for mask, proposals in enumerate(masks[: int(answer.get("num_masks", 0))]):
            scores = np.array([filling.probability for filling in proposals])
            comparison.compare_floats("probabilities", scores, answer["probabilities"][mask])
            expected = [(filling.token, filling.token_id, filling.text) for filling in proposals]
            columns = [answer[name][mask] for name in ("tokens", "token_ids", "texts")]
            got = [(token.decode(), int(id_), text.decode()) for token, id_, text in zip(*columns, strict=True)]
            _compare_ranked(comparison, "tokens", scores, expected, got)
