"""`BertEncoder`: token ids to one vector a token and one a text."""

import keras
from keras import ops

from bert_keras.config import BertConfig
from bert_keras.distribution import RealRows, current_step, within_step
from bert_keras.modeling.all_rows import ALL_ROWS
from bert_keras.modeling.base import INPUT_SHAPES, BertModel
from bert_keras.modeling.layers import (
    BertEmbeddings,
    TransformerBlock,
    bias_of_readers,
    check_length,
    dense,
    flat_rows,
    packed_layout,
    padding_bias,
)


@keras.saving.register_keras_serializable(package="bert_keras")
class BertEncoder(BertModel):
    """The bidirectional transformer encoder of Devlin et al. (2018), post-norm, with the tanh pooler.

    Its weights exist as soon as it is constructed.

    Args:
        config: the shape of the encoder.
        pooler: whether to end in the pooler, a tanh layer over the first token ([CLS]). The
            masked-LM, tagging and question-answering models of BERT have none, nor has ELECTRA.
        embeddings: an embeddings layer to share with another encoder (ELECTRA's generator).

    Attributes:
        gradient_checkpointing: in training keep only what goes into each block and compute its inside again for the
            gradients (Chen et al. 2016): a block's worth of activations instead of all, for a third more work.
        skips_padding: in training compute real tokens alone, but for the scores of attention. Their vectors are the
            same, those of padding are 0. Not for XLA, since how many tokens are real is known only as it runs.
        skips_padding_in_inference: the same in inference.

    Call arguments:
        inputs: a dict of int tensors (B, S): `token_ids`; `padding_mask`, 1 = real token,
            0 = padding; `segment_ids`, all 0 when absent; `pack_ids`, which of several
            examples in one row a token belongs to (from 1; 0 = padding): each example
            then sees itself alone and its positions restart at 0.
        training: whether dropout is on.
        return_hidden_states: also return `hidden_states`, a tuple of `num_layers` + 1
            tensors (B, S, D), the first one out of the embeddings.
        return_attention_scores: also return `attention_scores`, a tuple of `num_layers`
            float32 tensors (B, N, S, S), softmaxed: row = who looks, column = at whom.
        read_positions: int (B, R), the only positions whose vectors will be read. The last block
            computes just them: the same vectors for less work. Not together with the two above.

    Returns:
        A dict: `sequence_output` (B, S, D), `pooled_output` (B, D) if there is a pooler,
        and what was asked for. With `read_positions`: `sequence_output` (B, R, D) alone.

    Raises:
        InputError: a feature is missing or extra, or the batch is longer than the positions.

    Example:
        >>> encoder = BertEncoder(BertConfig.from_preset("tiny", vocabulary_size=100))
        >>> ids = np.array([[2, 17, 30, 3]])
        >>> encoder({"token_ids": ids, "padding_mask": np.ones_like(ids)})["pooled_output"].shape
        TensorShape([1, 128])
    """

    def __init__(self, config: BertConfig, *, pooler: bool = True, embeddings=None, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.gradient_checkpointing = False
        self.skips_padding = False
        self.skips_padding_in_inference = False
        self.embeddings = embeddings or BertEmbeddings(config, name="embeddings", dtype=self.dtype_policy)
        narrow = config.embedding_dim != config.hidden_dim
        self.embedding_projection = (
            dense(config, config.hidden_dim, "embedding_projection", dtype=self.dtype_policy) if narrow else None
        )
        self.blocks = [
            TransformerBlock(config, name=f"block_{i}", dtype=self.dtype_policy) for i in range(config.num_layers)
        ]
        self.pooler = dense(config, config.hidden_dim, "pooler", dtype=self.dtype_policy) if pooler else None
        self.build(INPUT_SHAPES)

    def build(self, input_shape=None):
        if self.built:
            return
        if not self.embeddings.built:
            self.embeddings.build((None, None))
        if self.embedding_projection is not None:
            self.embedding_projection.build((None, self.config.embedding_dim))
        for block in self.blocks:
            block.build((None, self.config.hidden_dim))
        if self.pooler is not None:
            self.pooler.build((None, self.config.hidden_dim))

    def call(
        self,
        inputs,
        training=None,
        return_hidden_states=False,
        return_attention_scores=False,
        read_positions=None,
    ):
        token_ids = ops.cast(inputs["token_ids"], "int32")
        batch, length = ops.shape(token_ids)
        check_length(length, self.config.max_sequence_length)
        positions, attention_bias = self._layout(inputs, length)
        segment_ids, rows = self._segment_ids(inputs), ALL_ROWS
        if self.skips_padding if training else self.skips_padding_in_inference:
            rows = RealRows(inputs["padding_mask"])
            whole = (token_ids, segment_ids, ops.broadcast_to(positions, (batch, length)))
            token_ids, segment_ids, positions = (rows.only(ops.reshape(one, (-1,))) for one in whole)

        x = self.embeddings(token_ids, segment_ids, positions, training=training, rows=rows)
        if self.embedding_projection is not None:
            x = self.embedding_projection(x)
        if read_positions is not None:
            return {"sequence_output": self._vectors_at(read_positions, x, attention_bias, training, rows)}
        hidden_states, attention_scores = [x], []
        for block in self.blocks:
            if return_attention_scores:
                x, scores = block(x, attention_bias, training=training, rows=rows)
                attention_scores.append(scores)
            else:
                x = self._rows_of(block, x, attention_bias, training, rows=rows)
            hidden_states.append(x)

        def unflatten(x):
            return ops.reshape(rows.spread(x), (batch, length, self.config.hidden_dim))

        outputs = {"sequence_output": unflatten(x)}
        if self.pooler is not None:
            outputs["pooled_output"] = self.pool(outputs["sequence_output"][:, 0, :])
        if return_hidden_states:
            outputs["hidden_states"] = tuple(map(unflatten, hidden_states))
        if return_attention_scores:
            outputs["attention_scores"] = tuple(attention_scores)
        return outputs

    def pool(self, vectors):
        """Returns the pooler's view (..., D) of the vectors (..., D) of [CLS]."""
        return ops.tanh(self.pooler(vectors))

    def _vectors_at(self, positions, x, attention_bias, training, rows):
        """Runs the blocks, the last one for the rows at `positions` (B, R) only: (B, R, D)."""
        batch, num_readers = ops.shape(positions)
        length = ops.shape(attention_bias)[-1]
        *blocks, last_block = self.blocks
        for block in blocks:
            x = self._rows_of(block, x, attention_bias, training, rows=rows)
        bias = bias_of_readers(attention_bias, positions)
        read_rows = flat_rows(positions, length)
        x = self._rows_of(last_block, x, bias, training, read_rows=read_rows, rows=rows)
        return ops.reshape(x, (batch, num_readers, self.config.hidden_dim))

    def _rows_of(self, block, x, attention_bias, training, **rows_to_compute):
        """Runs a block, without a word of its attention scores; what it computes inside is not kept, if so wished."""
        step = current_step()  # the one to compute again with, when it is no longer the current one

        def rows(x):
            with within_step(step):
                return block(x, attention_bias, training=training, **rows_to_compute)[0]

        return keras.remat(rows)(x) if training and self.gradient_checkpointing else rows(x)

    def _layout(self, inputs, length):
        """Returns the position of each token and who may see whom, as a bias on the attention scores."""
        if inputs.get("pack_ids") is not None:
            return packed_layout(ops.cast(inputs["pack_ids"], "int32"), inputs["padding_mask"])
        return ops.arange(length), padding_bias(inputs["padding_mask"])

    def _segment_ids(self, inputs):
        if inputs.get("segment_ids") is None:
            return ops.zeros_like(ops.cast(inputs["token_ids"], "int32"))
        return ops.cast(inputs["segment_ids"], "int32")

    def get_config(self):
        return {
            **super().get_config(),
            "config": self.config.to_dict(),
            "pooler": self.pooler is not None,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**{**config, "config": BertConfig.from_dict(config["config"])})
