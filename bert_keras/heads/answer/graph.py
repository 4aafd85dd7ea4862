"""Answers extracted from contexts, in the graph."""

from typing import NamedTuple

import tensorflow as tf

from bert_keras.heads.answer.task import NUM_LOGITS, QuestionAnswering
from bert_keras.heads.text_function import (
    RunModel,
    TextCharacters,
    TextFunction,
    count_per_example,
    group_by_example,
)
from bert_keras.pipelines.batches.packing import EncodedBatch, encode_in_graph, has_most_context_in_graph
from bert_keras.pipelines.text.tokenizer import BertTokenizer

_IMPOSSIBLE = -1e30
# `QuestionAnswering` ranks all spans, 50,000 in a context of 100 kB; the best 256 contain five different texts
_MAX_SPANS = 256


class _Spans(NamedTuple):
    """K candidate answers to B questions, grouped by question.

    Attributes:
        examples: `(K,)` int32, ascending: the question that each span answers.
        scores: `(K,)` float64, the sum of the start and the end logit.
        starts: `(K,)` int32, the first token of each span; after `_extend_to_words` its first character.
        ends: `(K,)` int32, the last token of each span; after `_extend_to_words` the end of its last character.
    """

    examples: tf.Tensor
    scores: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor

    def select(self, mask: tf.Tensor) -> "_Spans":
        """Return the spans for which `mask` `(K,)` is True."""
        return _Spans(*(tf.boolean_mask(x, mask) for x in self))


def build_question_answerer(
    run: RunModel, tokenizer: BertTokenizer, task: QuestionAnswering, length: int
) -> TextFunction:
    """Build the function from `question` and `context` to the answers of `QuestionAnswering`.

    Its outputs, for B questions, are `answer` (B,), "" for no answer; `start` and `end` (B,), its character range in
    the context, -1 for no answer; `score` (B,), the sum of its two logits; `null_score` (B,), the score of no answer;
    and the best answers (B, N), the best first: `best_answers`, `best_scores`, `best_probabilities`, `best_starts` and
    `best_ends`, of which the first `num_best` (B,) are valid.
    """

    def answer(question: tf.Tensor, context: tf.Tensor) -> dict[str, tf.Tensor]:
        tokenized = tokenizer.tokenize_with_offsets(context)
        question_tokens = tokenizer.tokenize(question)
        batch = encode_in_graph(
            tokenizer,
            [question_tokens, tokenized.token_ids],
            max_sequence_length=task.max_sequence_length,
            window_overlap=task.window_overlap,
            max_first_length=task.max_question_length,
        )
        outputs = run(batch.features)
        logits = [tf.cast(outputs[name], tf.float64) for name in ("start_logits", "end_logits")]
        null_scores = tf.math.segment_min(logits[0][:, 0] + logits[1][:, 0], batch.examples)
        spans = _extend_to_words(_find_spans(task, batch, *logits), tokenized, tf.size(question_tokens.flat_values))
        num_questions = tf.size(context)
        spans = _select_best_ranges(spans, num_questions)
        spans, texts = _select_best_texts(spans, context, num_questions, task.num_best)
        return _build_answers(task, spans, texts, null_scores, num_questions)

    return TextFunction(task.input_names, answer)


def _find_spans(task: QuestionAnswering, batch: EncodedBatch, starts: tf.Tensor, ends: tf.Tensor) -> _Spans:
    """Pair the best starts with the best ends of each window; `starts` and `ends` are logits `(R, S)`."""
    width = tf.minimum(NUM_LOGITS, tf.shape(starts)[1])
    mask = tf.where(batch.windowed, tf.zeros_like(starts), _IMPOSSIBLE)
    (start_scores, firsts), (end_scores, lasts) = (tf.math.top_k(x + mask, width) for x in (starts, ends))  # (R, L)
    scores = start_scores[:, :, tf.newaxis] + end_scores[:, tf.newaxis, :]  # (R, L, L)
    length = lasts[:, tf.newaxis, :] - firsts[:, :, tf.newaxis]
    has_most_context = tf.gather(has_most_context_in_graph(batch), firsts, batch_dims=1)[:, :, tf.newaxis]
    is_valid = (length >= 0) & (length < task.max_answer_length) & has_most_context & (scores > _IMPOSSIBLE / 2)
    first_tokens, last_tokens = (tf.gather(batch.tokens, positions, batch_dims=1) for positions in (firsts, lasts))
    columns = (
        batch.examples[:, tf.newaxis, tf.newaxis],
        scores,
        first_tokens[:, :, tf.newaxis],
        last_tokens[:, tf.newaxis, :],
    )
    return _Spans(*(tf.boolean_mask(tf.broadcast_to(x, tf.shape(scores)), is_valid) for x in columns))


def _extend_to_words(spans: _Spans, tokenized, num_question_tokens: tf.Tensor) -> _Spans:
    """Return spans of characters that begin and end with whole words, instead of spans of tokens."""
    words = tokenized.word_ids.flat_values
    num_words = tf.reduce_max(tf.concat([words, [0]], axis=0)) + 1
    words += tf.cast(tokenized.word_ids.value_rowids(), words.dtype) * num_words  # ascending across all texts
    word_starts = tf.gather(tf.math.segment_min(tokenized.starts.flat_values, words), words)  # (P,)
    word_ends = tf.gather(tf.math.segment_max(tokenized.ends.flat_values, words), words)
    return spans._replace(
        starts=tf.gather(word_starts, spans.starts - num_question_tokens),
        ends=tf.gather(word_ends, spans.ends - num_question_tokens),
    )


def _select_best_ranges(spans: _Spans, num_questions: tf.Tensor) -> _Spans:
    """Sort the spans of each question, best first; keep the best of equal ranges, and at most `_MAX_SPANS`."""
    order = _sort_descending(-spans.examples, spans.scores, spans.starts, spans.ends)
    spans = _Spans(*(tf.gather(x, order) for x in spans))
    length = tf.cast(tf.reduce_max(tf.concat([spans.ends, [0]], axis=0)) + 1, tf.int64)
    examples, starts, ends = (tf.cast(x, tf.int64) for x in (spans.examples, spans.starts, spans.ends))
    spans = spans.select(_is_first_occurrence((examples * length + starts) * length + ends))
    return spans.select(_rank_in_example(spans.examples, num_questions) < _MAX_SPANS)


def _select_best_texts(
    spans: _Spans, contexts: tf.Tensor, num_questions: tf.Tensor, num_best: int
) -> tuple[_Spans, tf.Tensor]:
    """Return the best `num_best` spans of each question with different texts, and these texts `(K,)`."""
    texts = TextCharacters.decode(contexts).cut(spans.examples, spans.starts, spans.ends)
    is_first = _is_first_occurrence(tf.strings.join([tf.strings.as_string(spans.examples), texts], " "))
    spans, texts = spans.select(is_first), tf.boolean_mask(texts, is_first)
    is_best = _rank_in_example(spans.examples, num_questions) < num_best
    return spans.select(is_best), tf.boolean_mask(texts, is_best)


def _build_answers(
    task: QuestionAnswering, spans: _Spans, texts: tf.Tensor, null_scores: tf.Tensor, num_questions: tf.Tensor
) -> dict[str, tf.Tensor]:
    def group(values: tf.Tensor, padding: object) -> tf.Tensor:
        """Return `(B, N)`, N at least 1."""
        grouped = group_by_example(values, spans.examples, num_questions, padding)
        return tf.pad(grouped, [[0, 0], [0, tf.maximum(0, 1 - tf.shape(grouped)[1])]], constant_values=padding)

    num_best = count_per_example(spans.examples, num_questions)
    scores = group(spans.scores, tf.constant(_IMPOSSIBLE, tf.float64))
    is_valid = scores > _IMPOSSIBLE / 2
    best = {
        "best_answers": group(texts, ""),
        "best_scores": tf.where(is_valid, scores, 0),
        "best_probabilities": tf.where(is_valid, tf.nn.softmax(scores), 0),
        "best_starts": group(spans.starts, -1),
        "best_ends": group(spans.ends, -1),
    }
    is_null = num_best == 0
    if task.allows_null:
        is_null |= null_scores - scores[:, 0] > task.null_threshold
    answers = {
        "answer": tf.where(is_null, "", best["best_answers"][:, 0]),
        "start": tf.where(is_null, -1, best["best_starts"][:, 0]),
        "end": tf.where(is_null, -1, best["best_ends"][:, 0]),
        "score": tf.where(is_null, null_scores, scores[:, 0]),
        "null_score": null_scores,
        **best,
        "num_best": num_best,
    }
    return {name: tf.cast(x, tf.float32) if x.dtype == tf.float64 else x for name, x in answers.items()}


def _is_first_occurrence(keys: tf.Tensor) -> tf.Tensor:
    """Return for each key `(K,)` whether no key before it is equal."""
    _, numbers = tf.unique(keys)  # numbered in the order of their first occurrence
    indices = tf.range(tf.size(numbers))
    firsts = tf.math.unsorted_segment_min(indices, numbers, tf.size(numbers))
    return tf.gather(firsts, numbers) == indices


def _rank_in_example(examples: tf.Tensor, num_examples: tf.Tensor) -> tf.Tensor:
    """Return the position of each value within its example, from 0; `examples` `(K,)` is ascending."""
    indices = tf.range(tf.size(examples))
    return indices - tf.gather(tf.math.unsorted_segment_min(indices, examples, num_examples), examples)


def _sort_descending(*keys: tf.Tensor) -> tf.Tensor:
    """Return the indices `(K,)` that sort by the first key, highest first; equal keys are sorted by the next key."""
    order = tf.range(tf.size(keys[0]))
    for key in reversed(keys):
        order = tf.gather(order, tf.argsort(tf.gather(key, order), stable=True, direction="DESCENDING"))
    return order
