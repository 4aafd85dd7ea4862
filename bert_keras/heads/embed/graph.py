"""Vectors of texts, in the graph: one per text from an embedder, one per token from an encoder."""

import tensorflow as tf

from bert_keras.features import FEATURES, to_huggingface_names
from bert_keras.heads.embed.task import SentenceEmbedding, count_prompt_tokens
from bert_keras.heads.task import Task
from bert_keras.heads.text_function import RunModel, TextFunction
from bert_keras.pipelines.batches.packing import encode_in_graph
from bert_keras.pipelines.text.tokenizer import BertTokenizer


def build_embedder(run: RunModel, tokenizer: BertTokenizer, task: SentenceEmbedding, length: int) -> TextFunction:
    """Build the function from `text` to `embedding` (B, D). The task's prompt is put before each text."""
    prompt = task.prompt_text
    num_unpooled = 0 if task.include_prompt or not prompt else count_prompt_tokens(tokenizer, prompt)

    def answer(text: tf.Tensor) -> dict[str, tf.Tensor]:
        text = tf.strings.join([prompt, text]) if prompt else text
        batch = encode_in_graph(tokenizer, [tokenizer.tokenize(text)], max_sequence_length=task.max_sequence_length)
        features, padding_mask = dict(batch.features), batch.features["padding_mask"]
        if num_unpooled:
            is_pooled = tf.range(tf.shape(padding_mask)[1]) >= num_unpooled
            features["pooling_mask"] = padding_mask * tf.cast(is_pooled, tf.int32)
        return {"embedding": run(features)["embedding"]}

    return TextFunction(("text",), answer)


def build_encoder(run: RunModel, tokenizer: BertTokenizer, task: Task | None, length: int) -> TextFunction:
    """Build the function from `text` to an encoder's outputs.

    They are `last_hidden_state` (B, S, D), zeros in padding; `pooler_output` (B, D) if there is a pooler; `input_ids`
    (B, S); and `attention_mask` (B, S), 1 = real token, 0 = padding.
    """

    def answer(text: tf.Tensor) -> dict[str, tf.Tensor]:
        batch = encode_in_graph(tokenizer, [tokenizer.tokenize(text)], max_sequence_length=length)
        outputs = to_huggingface_names(run(batch.features))
        inputs = {FEATURES[name].huggingface_name: batch.features[name] for name in ("token_ids", "padding_mask")}
        return {**outputs, **inputs}

    return TextFunction(("text",), answer)
