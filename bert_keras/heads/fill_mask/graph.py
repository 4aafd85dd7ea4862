"""Proposals for each [MASK] of a text, in the graph."""

import tensorflow as tf

from bert_keras.heads.task import Task
from bert_keras.heads.text_function import (
    RunModel,
    TextCharacters,
    TextFunction,
    count_per_example,
    group_by_example,
    group_outputs,
)
from bert_keras.pipelines.batches.packing import encode_in_graph
from bert_keras.pipelines.text.tokenizer import BertTokenizer

NUM_FILLINGS = 5


def build_mask_filler(run: RunModel, tokenizer: BertTokenizer, task: Task | None, length: int) -> TextFunction:
    """Build the function from `text` that contains [MASK] to the proposals of `fill_mask`.

    Its outputs, for B texts with at most M masks and K = 5 proposals, the most probable first, are `tokens` (B, M, K),
    padded with "" for texts with fewer masks; `token_ids`; `probabilities`; `texts`, the text with the mask replaced by
    the token; and `num_masks` (B,). Texts are cut to `length` tokens; masks after that get no proposals.
    """
    tokens = list(tokenizer.vocabulary)
    is_suffix = [token.startswith("##") for token in tokens]
    strings = [token.removeprefix("##") for token in tokens]

    def answer(text: tf.Tensor) -> dict[str, tf.Tensor]:
        tokenized = tokenizer.tokenize_with_offsets(text, keep_special_tokens=True)
        batch = encode_in_graph(tokenizer, [tokenized.token_ids], max_sequence_length=length)
        masks = tf.cast(tf.where(batch.features["token_ids"] == tokenizer.mask_id), tf.int32)  # (masks, 2)
        examples, num_texts = masks[:, 0], tf.size(text)
        positions = group_by_example(masks[:, 1], examples, num_texts, 0)
        logits = run({**batch.features, "mask_positions": positions})["mlm_logits"]  # (B, M, V)
        num_masks = count_per_example(examples, num_texts)
        is_mask = tf.range(tf.shape(positions)[1]) < num_masks[:, tf.newaxis]  # (B, M)
        probabilities = tf.nn.softmax(tf.boolean_mask(logits, is_mask))  # (masks, V)
        probabilities = probabilities[:, : len(tokens)]  # a padded embedding table has more rows than tokens
        values, ids = tf.math.top_k(probabilities, min(NUM_FILLINGS, len(tokens)))
        mask_tokens = tf.gather_nd(batch.tokens, masks)
        starts, ends = (tf.gather(x.flat_values, mask_tokens) for x in (tokenized.starts, tokenized.ends))
        proposals = {
            "tokens": (tf.gather(tf.constant(tokens), ids), ""),
            "token_ids": (ids, 0),
            "probabilities": (values, 0.0),
            "texts": (_replace_masks(TextCharacters.decode(text), examples, starts, ends, ids), ""),
        }
        return {**group_outputs(proposals, examples, num_texts), "num_masks": num_masks}

    def _replace_masks(
        characters: TextCharacters, examples: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor, ids: tf.Tensor
    ) -> tf.Tensor:
        """Return the texts (masks, K) with each mask replaced by a token; suffixes follow the word without a space."""
        before = characters.cut(examples, tf.zeros_like(starts), starts)[:, tf.newaxis]
        stripped = tf.strings.regex_replace(before, r"[\s\p{Z}]+$", "")
        before = tf.where(tf.gather(tf.constant(is_suffix), ids), stripped, before)
        after = tf.broadcast_to(characters.cut_to_end(examples, ends)[:, tf.newaxis], tf.shape(ids))
        return tf.strings.join([before, tf.gather(tf.constant(strings), ids), after])

    return TextFunction(("text",), answer)
