"""A tag for each word of a text, in the graph."""

import tensorflow as tf

from bert_keras.heads.tag.task import TokenClassification
from bert_keras.heads.text_function import (
    RunModel,
    TextCharacters,
    TextFunction,
    count_per_example,
    group_outputs,
)
from bert_keras.pipelines.batches.packing import encode_in_graph, has_most_context_in_graph
from bert_keras.pipelines.text.tokenizer import BertTokenizer


def build_tagger(run: RunModel, tokenizer: BertTokenizer, task: TokenClassification, length: int) -> TextFunction:
    """Build the function from `text` to the tags of its words. Words are BERT's: a punctuation mark is a word.

    Its outputs, for B texts of at most W words, are `words` and `labels` (B, W), strings, padded with ""; `label_ids`
    (B, W), padded with -1; `probabilities` (B, W); `starts` and `ends` (B, W), the character range of each word; and
    `num_words` (B,). Long texts are split into windows, and each word is tagged in the window with the most context
    around it. The range of a word excludes accents and control characters at its edges that the tokenizer drops.
    """

    def answer(text: tf.Tensor) -> dict[str, tf.Tensor]:
        tokenized = tokenizer.tokenize_with_offsets(text)
        settings = {"max_sequence_length": task.max_sequence_length, "window_overlap": task.window_overlap}
        batch = encode_in_graph(tokenizer, [tokenized.token_ids], **settings)
        is_first, last_tokens = _find_word_boundaries(tokenized.word_ids)
        is_tagged = has_most_context_in_graph(batch)
        is_tagged &= tf.gather(tf.concat([[False], is_first], axis=0), tf.maximum(batch.tokens, -1) + 1)
        logits = tf.boolean_mask(run(batch.features)["logits"], is_tagged)  # (words, C)
        tokens = tf.boolean_mask(batch.tokens, is_tagged)  # ascending: later words are tagged in later windows
        num_texts = tf.size(text)
        examples = tf.cast(tf.gather(tokenized.token_ids.value_rowids(), tokens), tf.int32)
        starts = tf.gather(tokenized.starts.flat_values, tokens)
        ends = tf.gather(tokenized.ends.flat_values, tf.gather(last_tokens, tokens))
        probabilities = tf.nn.softmax(tf.cast(logits, tf.float64))
        label_ids = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        words = {
            "words": (TextCharacters.decode(text).cut(examples, starts, ends), ""),
            "labels": (tf.gather(tf.constant(list(task.labels)), label_ids), ""),
            "label_ids": (label_ids, -1),
            "probabilities": (tf.cast(tf.reduce_max(probabilities, axis=-1), tf.float32), 0.0),
            "starts": (starts, 0),
            "ends": (ends, 0),
        }
        return {**group_outputs(words, examples, num_texts), "num_words": count_per_example(examples, num_texts)}

    return TextFunction(task.input_names, answer)


def _find_word_boundaries(word_ids: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return for each of P tokens whether it is the first of its word, and the index of its word's last token."""
    flat, texts = word_ids.flat_values, tf.cast(word_ids.value_rowids(), tf.int32)
    changes = (flat[1:] != flat[:-1]) | (texts[1:] != texts[:-1])
    is_first = tf.concat([tf.ones_like(flat[:1], tf.bool), changes], axis=0)
    words = tf.cumsum(tf.cast(is_first, tf.int32)) - 1  # numbered across all texts
    last_tokens = tf.math.unsorted_segment_max(tf.range(tf.size(flat)), words, tf.size(flat))
    return is_first, tf.gather(last_tokens, words)
