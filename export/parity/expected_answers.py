"""What a SavedModel should answer to texts: what `Task.answers` and `fill_mask` say of the checkpoint, by name."""

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bert_keras.export.parity.comparison import TIE, Comparison
from bert_keras.export.parity.probe_inputs import IdRow, batches
from bert_keras.export.parity.reference import Reference
from bert_keras.export.saved_model.answers.fillings import NUM_FILLINGS
from bert_keras.modeling import BertEmbedder
from bert_keras.modeling.masked_lm import MaskedLMModel
from bert_keras.tasks.answer_extraction import QuestionAnswering
from bert_keras.tasks.mask_filling import fill_mask
from bert_keras.tasks.text_classification import TextClassification
from bert_keras.tasks.token_classification import TokenClassification

Answer = Mapping[str, np.ndarray]  # what was served to one text, by name
Compare = Callable[[Comparison, Sequence[Answer]], None]  # collects the differences of what was served to each text


def expect_texts(reference: Reference, texts: Sequence[tuple[str, ...]]) -> Compare:
    """Computes what the checkpoint says to N tuples of a text or two, and returns what compares answers with that."""
    model, tokenizer, task = reference.model, reference.tokenizer, reference.task
    if isinstance(model, MaskedLMModel):
        return _expect_fillings(reference, [text for (text,) in texts])
    if task is None:
        return functools.partial(_compare_vectors, reference, [text for (text,) in texts])
    examples = [task.make_example(*of_text) for of_text in texts]
    rows = task.encode(tokenizer, examples)
    outputs = reference.outputs_of_rows(rows)
    if isinstance(model, BertEmbedder):
        return functools.partial(_compare_embeddings, outputs["embedding"])
    compare = {
        TextClassification: _compare_classes,
        TokenClassification: _compare_tags,
        QuestionAnswering: _compare_spans,
    }[type(task)]
    return lambda comparison, answers: compare(comparison, task, tokenizer, rows, outputs, examples, answers)


def _compare_embeddings(vectors, comparison, answers) -> None:
    for vector, answer in zip(vectors, answers, strict=True):
        comparison.floats("embedding", vector, answer.get("embedding"))


def _compare_classes(comparison, task, _, rows, outputs, examples, answers) -> None:
    expected = task.decode(rows, outputs, examples)
    for logits, right, answer in zip(task.average_logits(rows, outputs, len(examples)), expected, answers, strict=True):
        comparison.floats("scores", logits, answer.get("scores"))
        if task.problem == "regression":
            comparison.floats("value", right["value"], answer.get("value"))
            continue
        comparison.floats("probabilities", right["probabilities"], answer.get("probabilities"))
        if task.problem == "multi_label":
            names = [name.decode() for name in answer.get("labels", ())[: answer.get("num_labels", 0)]]
            is_tie = np.abs(logits) <= TIE * comparison.tolerance
            served, wanted = ([name in given for name in task.labels] for given in (names, right["labels"]))
            comparison.labels("labels", wanted, served, is_tie)
            comparison.labels("num_labels", sum(served), int(answer.get("num_labels", -1)))
            continue
        is_tie = comparison.is_tie(logits)
        label = answer.get("label")
        comparison.labels("label", right["label"], label if label is None else label.decode(), is_tie)
        comparison.labels("label_id", task.labels.index(right["label"]), answer.get("label_id"), is_tie)


def _compare_tags(comparison, task, tokenizer, rows, outputs, examples, answers) -> None:
    probabilities = task.compute_word_probabilities(rows, outputs, examples)
    for example, of_words, answer in zip(examples, probabilities, answers, strict=True):
        has_tokens = of_words.any(axis=1)
        of_words = of_words[has_tokens]
        number = int(answer.get("num_words", -1))
        comparison.labels("num_words", len(of_words), number)
        if number != len(of_words):
            continue
        served = {name: values[:number] for name, values in answer.items() if name != "num_words"}
        is_tie = comparison.is_tie(of_words) if number else False
        comparison.floats("probabilities", of_words.max(axis=1, initial=0), served.get("probabilities"))
        comparison.labels("label_ids", of_words.argmax(axis=1), served.get("label_ids"), is_tie)
        names = [name.decode() for name in served.get("labels", ())]
        comparison.labels("labels", [task.labels[tag] for tag in of_words.argmax(axis=1)], names, is_tie)
        places = np.flatnonzero(has_tokens)
        comparison.labels("words", [True] * number, _same_words(tokenizer, example, places, served))


def _same_words(tokenizer, example, places, served) -> list[bool]:
    """Returns whether each word stands where the example has it, but for marks at its edges that are dropped."""
    words = [word.decode() for word in served.get("words", ())]
    ranges = list(zip(served.get("starts", ()), served.get("ends", ()), strict=True))
    if not len(words) == len(ranges) == len(places):
        return []
    tokens = tokenizer.tokenize([*words, *(example.words[place] for place in places)]).to_list() if words else []
    return [
        word == example.text[start:end]
        and example.starts[place] <= start <= end <= example.ends[place]
        and one == other
        for word, (start, end), place, one, other in zip(
            words, ranges, places, tokens[: len(words)], tokens[len(words) :], strict=True
        )
    ]


def _compare_spans(comparison, task, _, rows, outputs, examples, answers) -> None:
    for right, answer in zip(task.decode(rows, outputs, examples), answers, strict=True):
        number = int(answer.get("num_best", -1))
        comparison.floats("score", right["score"], answer.get("score"))
        comparison.floats("null_score", right["null_score"], answer.get("null_score"))
        comparison.labels("num_best", len(right["best"]), number)
        if number != len(right["best"]):
            continue
        scores = np.array([one["score"] for one in right["best"]])
        keys = [(one["answer"], one["start"], one["end"]) for one in right["best"]]
        texts = [text.decode() for text in answer.get("best_answers", ())[:number]]
        served = list(zip(texts, answer["best_starts"].tolist(), answer["best_ends"].tolist(), strict=False))
        comparison.floats("best_scores", scores, answer.get("best_scores", np.zeros(0))[:number])
        probabilities = [one["probability"] for one in right["best"]]
        comparison.floats("best_probabilities", probabilities, answer.get("best_probabilities", np.zeros(0))[:number])
        _compare_ranked(comparison, "best_answers", scores, keys, served)
        chosen = (right["answer"], *(-1 if right[side] is None else right[side] for side in ("start", "end")))
        given = (answer["answer"].decode(), int(answer["start"]), int(answer["end"]))
        margins = [abs(right["null_score"] - right["score"] - task.null_threshold) if task.allows_null else np.inf]
        margins += [scores[0] - scores[1]] if number > 1 else []
        comparison.labels("answer", True, chosen == given, min(margins) <= TIE * comparison.tolerance)


def _compare_ranked(comparison: Comparison, name: str, scores, keys: list, served: list) -> None:
    """Compares what stands on each rank; of those with scores as close as a difference that passes, either may."""
    close = TIE * comparison.tolerance
    gaps = np.abs(np.diff(scores)) <= close
    is_tie = np.concatenate([gaps, [True]]) | np.concatenate([[False], gaps])  # the last one: with one that is not told
    comparison.labels(name, [True] * len(keys), [one == other for one, other in zip(keys, served, strict=True)], is_tie)


def _compare_vectors(reference, texts, comparison, answers) -> None:
    tokenizer = reference.tokenizer
    for ids, answer in zip(tokenizer.tokenize(texts).to_list(), answers, strict=True):
        ids = [tokenizer.cls_id, *ids[: reference.text_length - 2], tokenizer.sep_id]
        row = IdRow(np.array(ids, np.int32), np.zeros(len(ids), np.int32))
        number = int(answer.get("attention_mask", np.zeros(0)).sum())
        comparison.labels("input_ids", ids, answer.get("input_ids", np.zeros(0))[:number])
        for name, values in reference.outputs(row).items():
            served = answer.get(name)
            if name in reference.of_tokens and served is not None:
                values = np.pad(values, [(0, len(served) - number), (0, 0)])  # zeros in padding
            comparison.floats(name, values, served)


def _expect_fillings(reference: Reference, texts: Sequence[str]) -> Compare:
    model, tokenizer, length = reference.model, reference.tokenizer, reference.text_length
    fits = tokenizer.tokenize(texts, keep_special_tokens=True).row_lengths().numpy() + 2 <= length
    numbers = [number for number, text in enumerate(texts) if fits[number] and "[MASK]" in text]
    top_k = min(NUM_FILLINGS, tokenizer.vocabulary_size)
    filled = {
        number: masks
        for batch in batches(len(numbers))  # small ones: a batch is as long as its longest text
        for number, masks in zip(
            (numbers[place] for place in batch),
            fill_mask(model, tokenizer, [texts[numbers[place]] for place in batch], top_k=top_k),
            strict=True,
        )
    }
    return functools.partial(_compare_fillings, filled)


def _compare_fillings(filled, comparison, answers) -> None:
    for number, masks in filled.items():
        answer = answers[number]
        comparison.labels("num_masks", len(masks), answer.get("num_masks"))
        for place, proposals in enumerate(masks[: int(answer.get("num_masks", 0))]):
            scores = np.array([one.probability for one in proposals])
            comparison.floats("probabilities", scores, answer["probabilities"][place])
            keys = [(one.token, one.token_id, one.text) for one in proposals]
            of_mask = [answer[name][place] for name in ("tokens", "token_ids", "texts")]
            served = [
                (token.decode(), int(token_id), text.decode()) for token, token_id, text in zip(*of_mask, strict=True)
            ]
            _compare_ranked(comparison, "tokens", scores, keys, served)
