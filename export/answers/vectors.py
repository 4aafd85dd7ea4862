"""Vectors of texts: one a text from an embedder, one a piece from an encoder."""

from collections.abc import Callable

from bert_keras.export.answers.served import TextFunction
from bert_keras.features import FEATURES, border_outputs
from bert_keras.pipelines.graph_rows import graph_rows
from bert_keras.pipelines.tokenizer import BertTokenizer


def embedding(run: Callable, tokenizer: BertTokenizer, length: int) -> TextFunction:
    """Returns the function from `text` to `embedding` (B, D). Texts are cut to `length` pieces."""

    def answer(text):
        rows = graph_rows(tokenizer, [tokenizer.tokenize(text)], max_sequence_length=length)
        return {"embedding": run(rows.features)["embedding"]}

    return TextFunction(("text",), answer)


def encoding(run: Callable, tokenizer: BertTokenizer, length: int) -> TextFunction:
    """Returns the function from `text` to an encoder's vectors.

    Its answers: `last_hidden_state` (B, S, D), zeros in padding; `pooler_output` (B, D) where there is a pooler;
    `input_ids` (B, S); `attention_mask` (B, S), 1 = real token, 0 = padding.
    """

    def answer(text):
        rows = graph_rows(tokenizer, [tokenizer.tokenize(text)], max_sequence_length=length)
        outputs = border_outputs(run(rows.features))
        inputs = {FEATURES[name].border_name: rows.features[name] for name in ("token_ids", "padding_mask")}
        return {**outputs, **inputs}

    return TextFunction(("text",), answer)
