"""`run_forward_pass`: run a model on a text or a pair, and return its attention, queries, keys and hidden states."""

import dataclasses
from collections.abc import Mapping

import keras
import numpy as np
from keras import ops

from bert_keras.checkpoints.building import get_encoder
from bert_keras.checkpoints.checkpoint import check_finite_outputs
from bert_keras.checkpoints.vocabulary_file import check_tokenizer_size
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.pipelines.text.tokenizer import BertTokenizer

NUM_BINS = 60
_PER_LAYER = ("hidden_states", "attention_scores")
_NAMES = ("the text", "the second text")


@dataclasses.dataclass(frozen=True, eq=False)
class InputSequence:
    """`[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`: S tokens, without padding.

    Attributes:
        texts: one text or two.
        tokens: the S tokens, as in the vocabulary ("##s" continues a word).
        token_ids: `(S,)` int32.
        segment_ids: `(S,)` int32, 0 = first text, 1 = second text.
        starts, ends: `(S,)` int32, the characters of a token in its text, `text[start:end]`; -1 for [CLS] and [SEP].
        word_ids: `(S,)` int32, index of a token's word in its text; -1 for [CLS] and [SEP].
    """

    texts: tuple[str, ...]
    tokens: tuple[str, ...]
    token_ids: np.ndarray
    segment_ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    word_ids: np.ndarray

    def __len__(self) -> int:
        return len(self.tokens)

    def features(self) -> dict[str, np.ndarray]:
        """Return the inputs of a model, `(1, S)` each; `padding_mask`: 1 = real token, 0 = padding."""
        return {
            "token_ids": self.token_ids[np.newaxis],
            "segment_ids": self.segment_ids[np.newaxis],
            "padding_mask": np.ones((1, len(self)), np.int32),
        }


def make_input_sequence(
    tokenizer: BertTokenizer, config: BertConfig, *texts: str, keep_special_tokens: bool = False
) -> InputSequence:
    """Tokenize a text or a pair of texts without truncation.

    Args:
        tokenizer: tokenizer of the model.
        config: configuration of the model's encoder.
        *texts: one text or two.
        keep_special_tokens: whether "[MASK]" and other special tokens in a text become these tokens.

    Raises:
        InputError: the tokenizer belongs to another model, a text has no tokens, or the model does not accept a
            sequence of this length or a second text.
    """
    check_tokenizer_size(tokenizer, config)
    tokenized = tokenizer.tokenize_with_offsets(list(texts), keep_special_tokens=keep_special_tokens)
    columns = [[np.array(values, np.int32) for values in ragged.to_list()] for ragged in tokenized]
    _check_texts(columns[0], config)
    at_special = [(tokenizer.cls_id, tokenizer.sep_id), *[(-1, -1)] * 3]
    token_ids, starts, ends, word_ids = (_join(column, *at) for column, at in zip(columns, at_special, strict=True))
    lengths = [len(token_ids) + (2 if index == 0 else 1) for index, token_ids in enumerate(columns[0])]
    segment_ids = np.repeat(np.arange(len(texts), dtype=np.int32), lengths)
    tokens = tuple(tokenizer.vocabulary[token_id] for token_id in token_ids)
    return InputSequence(tuple(texts), tokens, token_ids, segment_ids, starts, ends, word_ids)


def _join(column: list[np.ndarray], at_cls: int, at_sep: int) -> np.ndarray:
    """Join the values of all texts, with one value for [CLS] and one for each [SEP]."""
    parts = [[at_cls]]
    for values in column:
        parts += [values, [at_sep]]
    return np.concatenate(parts).astype(np.int32)


def _check_texts(token_ids: list[np.ndarray], config: BertConfig) -> None:
    for name, ids in zip(_NAMES, token_ids, strict=False):
        if not len(ids):
            raise InputError(f"{name} has no tokens; expected at least one word: add some text")
    if len(token_ids) > config.type_vocabulary_size:
        raise InputError(
            "two texts were given, but the model accepts only one (type_vocabulary_size is 1): leave the second out"
        )
    length = 1 + sum(len(ids) + 1 for ids in token_ids)
    if length > config.max_sequence_length:
        subject = "the text has" if len(token_ids) == 1 else "the two texts have"
        raise InputError(
            f"{subject} {length:,} tokens with [CLS] and [SEP]; the model accepts at most "
            f"{config.max_sequence_length:,} (max_sequence_length): shorten the text"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class ForwardPass:
    """The intermediate results of a model on one sequence.

    L layers, N heads of width H, S tokens, hidden size D.

    Attributes:
        sequence: the input.
        attention: `(L, N, S, S)` float32, attention probabilities; axis -2 is the query, axis -1 the key.
        queries, keys: `(L, N, S, H)` float32, not scaled: Q and K of Vaswani et al. (2017), 3.2.1.
        hidden_states: `(L + 1, S, D)` float32: the embeddings, then the output of each block.
        outputs: the other outputs of the model, keyed by name: `(S, ...)` per token, `(...)` per sequence.
    """

    sequence: InputSequence
    attention: np.ndarray
    queries: np.ndarray
    keys: np.ndarray
    hidden_states: np.ndarray
    outputs: Mapping[str, np.ndarray]

    def compute_raw_scores(self, layer: int) -> np.ndarray:
        """Compute Q K^T of a layer, `(N, S, S)`: the scores before scaling."""
        return self.queries[layer] @ self.keys[layer].transpose(0, 2, 1)

    def compute_scaled_scores(self, layer: int) -> np.ndarray:
        """Compute Q K^T / sqrt(H) of a layer, `(N, S, S)`: the input of the softmax."""
        return self.compute_raw_scores(layer) / np.float32(np.sqrt(self.queries.shape[-1]))


@dataclasses.dataclass(frozen=True, eq=False)
class ScoreHistograms:
    """Histograms of the scores of each layer, over all heads, in 60 bins that all layers share.

    Attributes:
        raw_edges, scaled_edges: `(61,)` bin edges, before and after the division by sqrt(H).
        counts: `(L, 60)`, the same before and after, because the edges are divided like the scores.
        raw_spread, scaled_spread: `(L,)` standard deviations.
        raw_peak, scaled_peak: `(L,)` largest attention probability of a query, averaged over all queries and heads;
            `raw_peak` is that of a softmax over the scores before scaling.
    """

    raw_edges: np.ndarray
    scaled_edges: np.ndarray
    counts: np.ndarray
    raw_spread: np.ndarray
    scaled_spread: np.ndarray
    raw_peak: np.ndarray
    scaled_peak: np.ndarray


def run_forward_pass(model: keras.Model, sequence: InputSequence) -> ForwardPass:
    """Run a model on a sequence, without dropout, and return its intermediate results.

    Args:
        model: an encoder, or a model with one.
        sequence: a sequence from the model's own tokenizer.

    Raises:
        InputError: the outputs contain NaN or infinity.
    """
    outputs = model(sequence.features(), training=False, return_hidden_states=True, return_attention_scores=True)
    outputs = keras.tree.map_structure(lambda tensor: ops.convert_to_numpy(tensor)[0], outputs)
    hidden_states = np.stack(outputs["hidden_states"]).astype(np.float32)
    other_outputs = {name: value for name, value in outputs.items() if name not in _PER_LAYER}
    check_finite_outputs(model, hidden_states, *other_outputs.values())
    encoder = get_encoder(model)
    layers = list(zip(encoder.blocks, hidden_states[:-1], strict=True))
    queries, keys = (
        np.stack([_project(getattr(block.attention, name), x, encoder.config.num_heads) for block, x in layers])
        for name in ("query", "key")
    )
    return ForwardPass(sequence, np.stack(outputs["attention_scores"]), queries, keys, hidden_states, other_outputs)


def count_scores(forward_pass: ForwardPass) -> ScoreHistograms:
    """Count the scores of all heads, layer by layer."""
    layers = range(len(forward_pass.queries))
    lows, highs = zip(*((raw.min(), raw.max()) for raw in map(forward_pass.compute_raw_scores, layers)), strict=True)
    # float64 represents the float32 scores exactly
    raw_edges = np.linspace(float(min(lows)), float(max(highs)) + 1e-6, NUM_BINS + 1)
    statistics = []
    for layer in layers:  # one at a time, because the scores of all layers can take hundreds of megabytes
        raw, scaled = forward_pass.compute_raw_scores(layer), forward_pass.compute_scaled_scores(layer)
        counts, _ = np.histogram(raw.astype(np.float64), raw_edges)
        statistics.append((counts, raw.std(), scaled.std(), _average_peak(raw), _average_peak(scaled)))
    scaled_edges = raw_edges / np.sqrt(forward_pass.queries.shape[-1])
    by_name = map(np.array, zip(*statistics, strict=True))  # (L, ...) each
    return ScoreHistograms(raw_edges, scaled_edges, *by_name)


def _project(layer: keras.layers.Dense, x: np.ndarray, num_heads: int) -> np.ndarray:
    """Apply a query or key projection to the input of a block (S, D), and split the heads (N, S, H)."""
    projected = ops.convert_to_numpy(layer(ops.convert_to_tensor(x))).astype(np.float32)
    return projected.reshape(len(x), num_heads, -1).transpose(1, 0, 2)


def _average_peak(scores: np.ndarray) -> float:
    """Return the largest softmax probability, 1 / sum(exp(score - maximum)), averaged over all queries."""
    return float((1 / np.exp(scores - scores.max(-1, keepdims=True)).sum(-1)).mean())
