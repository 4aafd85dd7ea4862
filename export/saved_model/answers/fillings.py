"""What stands in the place of each [MASK] of a text."""

from collections.abc import Callable

import tensorflow as tf

from bert_keras.export.saved_model.answers.served import TextFunction, counts_of, padded
from bert_keras.export.saved_model.answers.substrings import TextCharacters
from bert_keras.pipelines.batches.graph_encoding import encode_in_graph
from bert_keras.pipelines.text.tokenizer import BertTokenizer

NUM_FILLINGS = 5


def filling_masks(run: Callable, tokenizer: BertTokenizer, length: int) -> TextFunction:
    """Returns the function from `text` with [MASK] in it to proposals, as `fill_mask` makes them.

    Its answers, for B texts with M masks at most and K = 5 proposals, the likeliest first: `tokens` (B, M, K), "" where
    a text has no such mask; `token_ids`; `probabilities`; `texts`, the text with the token in the place of that mask;
    `num_masks` (B,). Texts are cut to `length` tokens, and masks behind are not answered.
    """
    tokens = list(tokenizer.vocabulary)
    continues = [token.startswith("##") for token in tokens]
    written = [token.removeprefix("##") for token in tokens]

    def answer(text):
        tokenized = tokenizer.tokenize_with_offsets(text, keep_special_tokens=True)
        rows = encode_in_graph(tokenizer, [tokenized.token_ids], max_sequence_length=length)
        places = tf.cast(tf.where(rows.features["token_ids"] == tokenizer.mask_id), tf.int32)  # (K, 2)
        examples, num_texts = places[:, 0], tf.size(text)
        positions = padded(places[:, 1], examples, num_texts, 0)
        logits = run({**rows.features, "mask_positions": positions})["mlm_logits"]  # (B, M, V)
        slots = tf.range(tf.shape(positions)[1])[tf.newaxis] < counts_of(examples, num_texts)[:, tf.newaxis]
        probabilities = tf.nn.softmax(tf.boolean_mask(logits, slots))  # (K, V)
        probabilities = probabilities[:, : len(tokens)]  # rows of a padded table are no tokens
        values, ids = tf.math.top_k(probabilities, min(NUM_FILLINGS, len(tokens)))
        found = tf.gather_nd(rows.tokens, places)
        starts, ends = (tf.gather(x.flat_values, found) for x in (tokenized.starts, tokenized.ends))
        of_masks = {
            "tokens": (tf.gather(tf.constant(tokens), ids), ""),
            "token_ids": (ids, 0),
            "probabilities": (values, 0.0),
            "texts": (_filled(TextCharacters.of(text), examples, starts, ends, ids), ""),
        }
        answers = {name: padded(values, examples, num_texts, fill) for name, (values, fill) in of_masks.items()}
        return {**answers, "num_masks": counts_of(examples, num_texts)}

    def _filled(characters: TextCharacters, examples, starts, ends, ids) -> tf.Tensor:
        """Returns the texts (K, 5) with tokens in the place of masks; one that goes on a word stands close to it."""
        before = characters.cut(examples, tf.zeros_like(starts), starts)[:, tf.newaxis]
        close = tf.strings.regex_replace(before, r"[\s\p{Z}]+$", "")
        before = tf.where(tf.gather(tf.constant(continues), ids), close, before)
        after = tf.broadcast_to(characters.rest(examples, ends)[:, tf.newaxis], tf.shape(ids))
        return tf.strings.join([before, tf.gather(tf.constant(written), ids), after])

    return TextFunction(("text",), answer)
