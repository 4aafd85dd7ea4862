"""Vectors of texts: one a text from an embedder, one a token from an encoder."""

from collections.abc import Callable

import tensorflow as tf

from bert_keras.export.saved_model.answers.served import TextFunction
from bert_keras.features import FEATURES, to_huggingface_names
from bert_keras.pipelines.batches.graph_encoding import encode_in_graph
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.tasks.sentence_embedding import SentenceEmbedding, num_prompt_tokens


def embedding(run: Callable, tokenizer: BertTokenizer, task: SentenceEmbedding) -> TextFunction:
    """Returns the function from `text` to `embedding` (B, D). The task's prompt stands before each text."""
    prompt = task.prompt_text
    num_unpooled = 0 if task.include_prompt or not prompt else num_prompt_tokens(tokenizer, prompt)

    def answer(text):
        text = tf.strings.join([prompt, text]) if prompt else text
        rows = encode_in_graph(tokenizer, [tokenizer.tokenize(text)], max_sequence_length=task.max_sequence_length)
        return {"embedding": run({**rows.features, **pooled(rows.features["padding_mask"])})["embedding"]}

    def pooled(mask):
        places = tf.range(tf.shape(mask)[1])
        return {"pooling_mask": mask * tf.cast(places >= num_unpooled, tf.int32)} if num_unpooled else {}

    return TextFunction(("text",), answer)


def encoding(run: Callable, tokenizer: BertTokenizer, length: int) -> TextFunction:
    """Returns the function from `text` to an encoder's vectors.

    Its answers: `last_hidden_state` (B, S, D), zeros in padding; `pooler_output` (B, D) where there is a pooler;
    `input_ids` (B, S); `attention_mask` (B, S), 1 = real token, 0 = padding.
    """

    def answer(text):
        rows = encode_in_graph(tokenizer, [tokenizer.tokenize(text)], max_sequence_length=length)
        outputs = to_huggingface_names(run(rows.features))
        inputs = {FEATURES[name].huggingface_name: rows.features[name] for name in ("token_ids", "padding_mask")}
        return {**outputs, **inputs}

    return TextFunction(("text",), answer)
