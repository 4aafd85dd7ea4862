"""Answers cut from contexts."""

from collections.abc import Callable

import tensorflow as tf

from bert_keras.export.saved_model.answers.served import TextFunction, counts_of, padded
from bert_keras.export.saved_model.answers.substrings import TextCharacters
from bert_keras.pipelines.batches.graph_encoding import EncodedBatch, encode_in_graph, has_most_context_in_graph
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.tasks.answer_extraction import NUM_LOGITS, QuestionAnswering

_IMPOSSIBLE = -1e30
# Python looks at all spans, of which a context of 100 kB has 50,000. These many are enough for five different texts
_SPANS_OF_CONTEXT = 256


def answering(run: Callable, tokenizer: BertTokenizer, task: QuestionAnswering) -> TextFunction:
    """Returns the function from `question` and `context` to the answer, as `QuestionAnswering` finds it.

    Its answers, for B questions: `answer` (B,), "" where there is none; `start` and `end` (B,), its characters in the
    context, -1 where there is none; `score` (B,), the sum of its two logits; `null_score` (B,), that of there being no
    answer; and the best ones (B, N), the best first: `best_answers`, `best_scores`, `best_probabilities`,
    `best_starts`, `best_ends`; `num_best` (B,) of them count.
    """

    def answer(question, context):
        tokenized = tokenizer.tokenize_with_offsets(context)
        first = tokenizer.tokenize(question)
        rows = encode_in_graph(
            tokenizer,
            [first, tokenized.token_ids],
            max_sequence_length=task.max_sequence_length,
            window_overlap=task.window_overlap,
            max_first_length=task.max_question_length,
        )
        outputs = run(rows.features)
        logits = [tf.cast(outputs[name], tf.float64) for name in ("start_logits", "end_logits")]
        null_scores = tf.math.segment_min(logits[0][:, 0] + logits[1][:, 0], rows.examples)
        spans = _spans(task, rows, *logits)
        best = _Best.of(task, context, tokenized, tf.size(first.flat_values), spans, tf.size(context))
        return best.answers(task, null_scores)

    return TextFunction(task.input_names, answer)


def _spans(task: QuestionAnswering, rows: EncodedBatch, starts: tf.Tensor, ends: tf.Tensor):
    """Returns the possible spans `(K,)`: of which text, their scores, their first and last tokens."""
    width = tf.minimum(NUM_LOGITS, tf.shape(starts)[1])
    hidden = tf.where(rows.windowed, tf.zeros_like(starts), _IMPOSSIBLE)
    (first_scores, firsts), (last_scores, lasts) = (tf.math.top_k(x + hidden, width) for x in (starts, ends))  # (R, L)
    scores = first_scores[:, :, tf.newaxis] + last_scores[:, tf.newaxis, :]  # (R, L, L)
    length = lasts[:, tf.newaxis, :] - firsts[:, :, tf.newaxis]
    in_best_window = tf.gather(has_most_context_in_graph(rows), firsts, batch_dims=1)[:, :, tf.newaxis]
    fits = (length >= 0) & (length < task.max_answer_length) & in_best_window & (scores > _IMPOSSIBLE / 2)
    first_tokens, last_tokens = (tf.gather(rows.tokens, at, batch_dims=1) for at in (firsts, lasts))
    values = (
        rows.examples[:, tf.newaxis, tf.newaxis],
        scores,
        first_tokens[:, :, tf.newaxis],
        last_tokens[:, tf.newaxis, :],
    )
    return tuple(tf.boolean_mask(tf.broadcast_to(x, tf.shape(scores)), fits) for x in values)


def _ranges_of_words(tokenized) -> tuple[tf.Tensor, tf.Tensor]:
    """Return where the word of each token begins and ends in its text, `(P,)` each."""
    words = tokenized.word_ids.flat_values
    longest = tf.reduce_max(tf.concat([words, [0]], axis=0)) + 1
    words += tf.cast(tokenized.word_ids.value_rowids(), words.dtype) * longest  # of all texts, ascending
    starts = tf.math.segment_min(tokenized.starts.flat_values, words)
    ends = tf.math.segment_max(tokenized.ends.flat_values, words)
    return tf.gather(starts, words), tf.gather(ends, words)


class _Best:
    """The best different answers of each question, one after the other."""

    def __init__(self, examples, texts, scores, starts, ends, num_examples):
        self.examples, self.texts, self.scores = examples, texts, scores
        self.starts, self.ends, self.num_examples = starts, ends, num_examples

    @classmethod
    def of(cls, task, context, tokenized, num_questions, spans, num_examples) -> "_Best":
        """Of equal texts the best stays, and of those `task.num_best` of each question. `num_questions`: in tokens."""
        examples, scores, firsts, lasts = spans
        word_starts, word_ends = _ranges_of_words(tokenized)
        starts, ends = tf.gather(word_starts, firsts - num_questions), tf.gather(word_ends, lasts - num_questions)
        order = _descending_order(-examples, scores, starts, ends)
        longest = tf.cast(tf.reduce_max(tf.concat([ends, [0]], axis=0)) + 1, tf.int64)
        places = [tf.cast(tf.gather(x, order), tf.int64) for x in (examples, starts, ends)]
        order = tf.boolean_mask(order, _are_first((places[0] * longest + places[1]) * longest + places[2]))
        order = tf.gather(order, tf.where(_ranks(tf.gather(examples, order), num_examples) < _SPANS_OF_CONTEXT)[:, 0])
        examples, scores, starts, ends = (tf.gather(x, order) for x in (examples, scores, starts, ends))
        texts = TextCharacters.of(context).cut(examples, starts, ends)
        is_first = _are_first(tf.strings.join([tf.strings.as_string(examples), texts], " "))
        values = [tf.boolean_mask(x, is_first) for x in (examples, texts, scores, starts, ends)]
        kept = _ranks(values[0], num_examples) < task.num_best
        return cls(*(tf.boolean_mask(x, kept) for x in values), num_examples)

    def answers(self, task: QuestionAnswering, null_scores: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the answers by name; `null_scores` (B,)."""
        counts = counts_of(self.examples, self.num_examples)
        scores = self._padded(self.scores, tf.constant(_IMPOSSIBLE, tf.float64))
        probabilities = tf.where(scores > _IMPOSSIBLE / 2, tf.nn.softmax(scores), 0)
        best = {
            "best_answers": self._padded(self.texts, ""),
            "best_scores": tf.where(scores > _IMPOSSIBLE / 2, scores, 0),
            "best_probabilities": probabilities,
            "best_starts": self._padded(self.starts, -1),
            "best_ends": self._padded(self.ends, -1),
        }
        is_none = counts == 0
        if task.allows_null:
            is_none |= null_scores - scores[:, 0] > task.null_threshold
        chosen = {
            "answer": tf.where(is_none, "", best["best_answers"][:, 0]),
            "start": tf.where(is_none, -1, best["best_starts"][:, 0]),
            "end": tf.where(is_none, -1, best["best_ends"][:, 0]),
            "score": tf.where(is_none, null_scores, scores[:, 0]),
            "null_score": null_scores,
        }
        answers = {**chosen, **best, "num_best": counts}
        return {name: tf.cast(x, tf.float32) if x.dtype == tf.float64 else x for name, x in answers.items()}

    def _padded(self, values: tf.Tensor, padding) -> tf.Tensor:
        """Returns (B, N), N at least 1."""
        rows = padded(values, self.examples, self.num_examples, padding)
        missing = tf.maximum(0, 1 - tf.shape(rows)[1])
        return tf.pad(rows, [[0, 0], [0, missing]], constant_values=padding)


def _are_first(keys: tf.Tensor) -> tf.Tensor:
    """Return for each key `(K,)` whether none before it is the same."""
    _, numbers = tf.unique(keys)  # numbered as they appear
    places = tf.range(tf.size(numbers))
    firsts = tf.math.unsorted_segment_min(places, numbers, tf.size(numbers))
    return tf.gather(firsts, numbers) == places


def _ranks(examples: tf.Tensor, num_examples: tf.Tensor) -> tf.Tensor:
    """Returns which one of its example each value is, from 0; `examples` `(K,)` ascending."""
    places = tf.range(tf.size(examples))
    return places - tf.gather(tf.math.unsorted_segment_min(places, examples, num_examples), examples)


def _descending_order(*keys: tf.Tensor) -> tf.Tensor:
    """Returns the order `(K,)` from the highest to the lowest of the first key; of equals by the next one."""
    order = tf.range(tf.size(keys[0]))
    for key in reversed(keys):
        order = tf.gather(order, tf.argsort(tf.gather(key, order), stable=True, direction="DESCENDING"))
    return order
