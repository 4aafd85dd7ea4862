"""A tag for each word of a text."""

from collections.abc import Callable

import tensorflow as tf

from bert_keras.export.saved_model.answers.served import TextFunction, counts_of, padded
from bert_keras.export.saved_model.answers.substrings import TextCharacters
from bert_keras.pipelines.batches.graph_encoding import encode_in_graph, has_most_context_in_graph
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.tasks.token_classification import TokenClassification


def tagging(run: Callable, tokenizer: BertTokenizer, task: TokenClassification) -> TextFunction:
    """Returns the function from `text` to the tags of its words, which are BERT's: a punctuation mark is one, too.

    Its answers, for B texts of W words at most: `words`, `labels` (B, W) strings, "" in padding; `label_ids`, -1 in
    padding; `probabilities` (B, W); `starts` and `ends` (B, W), the characters of each word; `num_words` (B,).
    Texts longer than the task's rows are read in windows; the one with the most context answers for a word.
    A mark or a control character at the edge of a word that the tokenizer drops lies outside of its range.
    """

    def answer(text):
        tokenized = tokenizer.tokenize_with_offsets(text)
        settings = {"max_sequence_length": task.max_sequence_length, "window_overlap": task.window_overlap}
        rows = encode_in_graph(tokenizer, [tokenized.token_ids], **settings)
        first, last = _ends_of_words(tokenized.word_ids)
        answering = has_most_context_in_graph(rows)
        answering &= tf.gather(tf.concat([[False], first], axis=0), tf.maximum(rows.tokens, -1) + 1)
        logits = tf.boolean_mask(run(rows.features)["logits"], answering)  # (K, C)
        tokens = tf.boolean_mask(rows.tokens, answering)  # ascending: later words are answered by later windows
        return _answers(text, tokenized, tokens, last, logits)

    def _answers(text, tokenized, tokens, last, logits):
        num_texts = tf.size(text)
        examples = tf.cast(tf.gather(tokenized.token_ids.value_rowids(), tokens), tf.int32)
        starts = tf.gather(tokenized.starts.flat_values, tokens)
        ends = tf.gather(tokenized.ends.flat_values, tf.gather(last, tokens))
        probabilities = tf.nn.softmax(tf.cast(logits, tf.float64))
        label_ids = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        of_words = {
            "words": (TextCharacters.of(text).cut(examples, starts, ends), ""),
            "labels": (tf.gather(tf.constant(list(task.labels)), label_ids), ""),
            "label_ids": (label_ids, -1),
            "probabilities": (tf.cast(tf.reduce_max(probabilities, axis=-1), tf.float32), 0.0),
            "starts": (starts, 0),
            "ends": (ends, 0),
        }
        answers = {name: padded(values, examples, num_texts, fill) for name, (values, fill) in of_words.items()}
        return {**answers, "num_words": counts_of(examples, num_texts)}

    return TextFunction(task.input_names, answer)


def _ends_of_words(word_ids: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns for each of P tokens whether it is the first of its word `(P,)`, and which is the last of its word."""
    flat, texts = word_ids.flat_values, tf.cast(word_ids.value_rowids(), tf.int32)
    changes = (flat[1:] != flat[:-1]) | (texts[1:] != texts[:-1])
    first = tf.concat([tf.ones_like(flat[:1], tf.bool), changes], axis=0)
    numbers = tf.cumsum(tf.cast(first, tf.int32)) - 1  # of words, through all texts
    lasts = tf.math.unsorted_segment_max(tf.range(tf.size(flat)), numbers, tf.size(flat))
    return first, tf.gather(lasts, numbers)
