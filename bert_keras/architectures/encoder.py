"""`BertEncoder`: token ids to one vector per token and one per sequence."""

import keras
from keras import ops

from bert_keras.architectures.base import INPUT_SHAPES, BertModel
from bert_keras.architectures.known_architectures import check_config
from bert_keras.architectures.layers import BertEmbeddings, TransformerBlock, make_dense
from bert_keras.architectures.sequence_layout import (
    SequenceLayout,
    UnpaddedLayout,
    check_length,
    compute_packed_positions_and_bias,
    make_padding_bias,
)
from bert_keras.config import BertConfig
from bert_keras.distribution import get_current_step, within_step
from bert_keras.features import Features, Tensor


@keras.saving.register_keras_serializable(package="bert_keras")
class BertEncoder(BertModel):
    """The bidirectional transformer encoder of Devlin et al. (2018), post-norm, with the tanh pooler.

    All weights are created by the constructor.

    Args:
        config: sizes and activation of the encoder.
        pooler: whether to add the pooler, a tanh layer on the first token ([CLS]). BERT's masked-LM, tagging and
            question-answering models have none, and neither has ELECTRA.
        embeddings: embeddings layer to share with another encoder (ELECTRA's generator).

    Attributes:
        gradient_checkpointing: keep only the input of each block during training and recompute its inside for the
            gradients (Chen et al. 2016): the activations of one block in memory instead of all, for a third more work.
        unpad_in_training: compute only real tokens during training, except for the attention scores. Real tokens get
            the same vectors, padding gets zeros. TensorFlow without XLA only: the number of real tokens varies.
        unpad_in_inference: the same for inference.
        dropout_in_training: whether dropout is applied during training; the rates in the config stay as they are.

    Call arguments:
        inputs: dict of int tensors `(B, S)`: `token_ids`; `padding_mask`, 1 = real token, 0 = padding; optional
            `segment_ids`, all 0 by default; optional `pack_ids` for packed sequences: the example that each token
            belongs to, from 1 (0 = padding). A packed example attends to itself only and its positions start at 0.
        training: whether to apply dropout, unless `dropout_in_training` is False.
        return_hidden_states: also return `hidden_states`, a tuple of `num_layers` + 1 tensors `(B, S, D)`; the first
            is the output of the embeddings.
        return_attention_scores: also return `attention_scores`, a tuple of `num_layers` float32 tensors
            `(B, N, S, S)`, attention probabilities; axis -2 is the query, axis -1 the key.
        query_positions: int `(B, R)`, the only positions whose vectors are needed. The last block computes only
            these: the same vectors for less work. Cannot be combined with the two options above.

    Returns:
        A dict with `sequence_output` `(B, S, D)`, `pooled_output` `(B, D)` if there is a pooler, and the outputs
        asked for. With `query_positions`: `sequence_output` `(B, R, D)` only.

    Raises:
        InputError: the architecture has no such encoder; or a feature is missing or unknown, or the batch is longer
            than `max_sequence_length`.

    Example:
        >>> encoder = bk.BertEncoder(bk.BertConfig.from_preset("tiny", vocabulary_size=100))
        >>> ids = np.array([[2, 17, 30, 3]])
        >>> outputs = encoder({"token_ids": ids, "padding_mask": np.ones_like(ids)})
        >>> tuple(outputs["sequence_output"].shape), tuple(outputs["pooled_output"].shape)
        ((1, 4, 128), (1, 128))
    """

    def __init__(
        self, config: BertConfig, *, pooler: bool = True, embeddings: keras.layers.Layer | None = None, **kwargs
    ):
        check_config(config, pooler=pooler)
        super().__init__(**kwargs)
        self.config = config
        self.gradient_checkpointing = False
        self.unpad_in_training = False
        self.unpad_in_inference = False
        self.dropout_in_training = True
        self.embeddings = embeddings or BertEmbeddings(config, name="embeddings", dtype=self.dtype_policy)
        self.embedding_projection = None
        if config.embedding_dim != config.hidden_dim:
            self.embedding_projection = self._dense("embedding_projection")
        self.blocks = [
            TransformerBlock(config, name=f"block_{i}", dtype=self.dtype_policy) for i in range(config.num_layers)
        ]
        self.pooler = self._dense("pooler") if pooler else None
        self.build(INPUT_SHAPES)

    def _dense(self, name: str) -> keras.layers.Dense:
        return make_dense(self.config, self.config.hidden_dim, name, dtype=self.dtype_policy)

    def build(self, input_shape: tuple | None = None):
        """Create the weights."""
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
        inputs: Features,
        training: bool | None = None,
        return_hidden_states: bool = False,
        return_attention_scores: bool = False,
        query_positions: Tensor | None = None,
    ):
        """Run the encoder, see the class."""
        batch, length = ops.shape(inputs["token_ids"])
        check_length(length, self.config.max_sequence_length)
        positions, layout = self._positions_and_layout(inputs, training)
        token_ids, segment_ids = ops.cast(inputs["token_ids"], "int32"), inputs.get("segment_ids")
        segment_ids = ops.zeros_like(token_ids) if segment_ids is None else ops.cast(segment_ids, "int32")
        ids = layout.unpad_ids(token_ids, segment_ids, positions)
        x = self.embeddings(*ids, layout=layout, training=self.applies_dropout(training))
        if self.embedding_projection is not None:
            x = self.embedding_projection(x)

        if query_positions is not None:
            for block in self.blocks[:-1]:
                x = self._run_block(block, x, layout, training)
            x = self._run_block(self.blocks[-1], x, layout, training, query_positions=query_positions)
            return {"sequence_output": ops.reshape(x, (*ops.shape(query_positions), self.config.hidden_dim))}

        hidden_states, attention_scores = [x], []
        for block in self.blocks:
            if return_attention_scores:
                x, probabilities = block(x, layout=layout, training=self.applies_dropout(training))
                attention_scores.append(probabilities)
            else:
                x = self._run_block(block, x, layout, training)
            hidden_states.append(x)

        def unflatten(x: Tensor):
            """Return flat vectors as `(B, S, D)`."""
            return ops.reshape(layout.pad(x), (batch, length, self.config.hidden_dim))

        outputs = {"sequence_output": unflatten(x)}
        if self.pooler is not None:
            outputs["pooled_output"] = self.pool(outputs["sequence_output"][:, 0, :])
        if return_hidden_states:
            outputs["hidden_states"] = tuple(map(unflatten, hidden_states))
        if return_attention_scores:
            outputs["attention_scores"] = tuple(attention_scores)
        return outputs

    def applies_dropout(self, training: bool | None) -> bool:
        """Return whether a call with this `training` applies dropout."""
        return bool(training) and self.dropout_in_training

    def pool(self, vectors: Tensor):
        """Apply the pooler to the vectors `(..., D)` of [CLS]."""
        return ops.tanh(self.pooler(vectors))

    def _run_block(self, block: TransformerBlock, x: Tensor, layout: SequenceLayout, training: bool | None, **options):
        """Run a block and return its vectors without the attention scores; recompute it for gradients if asked to."""
        step = get_current_step()  # recomputation runs later, when this is no longer the current step

        def run(x: Tensor):
            """Run the block within the step that called it first."""
            with within_step(step):
                return block(x, layout=layout, training=self.applies_dropout(training), **options)[0]

        return keras.remat(run)(x) if training and self.gradient_checkpointing else run(x)

    def _positions_and_layout(self, inputs: Features, training: bool | None):
        """Return the position of each token, `(S,)` or `(B, S)`, and the layout of the batch."""
        padding_mask, pack_ids = inputs["padding_mask"], inputs.get("pack_ids")
        if pack_ids is None:
            positions, bias = ops.arange(ops.shape(padding_mask)[1]), make_padding_bias(padding_mask)
        else:
            positions, bias = compute_packed_positions_and_bias(ops.cast(pack_ids, "int32"), padding_mask)
        unpads = self.unpad_in_training if training else self.unpad_in_inference
        return positions, UnpaddedLayout(bias, padding_mask) if unpads else SequenceLayout(bias)

    def get_config(self):
        """Return the constructor arguments as plain values."""
        return {**super().get_config(), "config": self.config.to_dict(), "pooler": self.pooler is not None}

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None):
        """Create an instance from `get_config`."""
        return cls(**{**config, "config": BertConfig.from_dict(config["config"])})
