"""`ElectraPretrainer`: replaced token detection (Clark et al. 2020)."""

from typing import Any

import keras
import numpy as np
from keras import ops

from bert_keras.architectures.base import INPUT_SHAPES
from bert_keras.architectures.encoder import BertEncoder
from bert_keras.architectures.head_model import HeadModel, make_output_layer, select_extra_outputs
from bert_keras.architectures.layers import ACTIVATIONS, draw_bits, make_dense
from bert_keras.architectures.losses import CrossEntropy, GlobalBatchMean, TopAccuracy
from bert_keras.config import BertConfig
from bert_keras.distribution import salted_step
from bert_keras.errors import InputError
from bert_keras.features import Features, Tensor
from bert_keras.heads.fill_mask.model import BertMaskedLM, check_no_sample_weight

DISCRIMINATOR_WEIGHT = 50.0  # lambda in the paper, because its loss per token is much smaller
_GENERATOR_SALT = 1
ID_BLOCK = 128  # ids per block of the two-level search that draws an id
_UNIFORM_SHIFT = np.uint32(8)  # keep 24 of 32 random bits, the precision of float32
_SHARED_FIELDS = (  # fields that determine the shared embeddings layer
    "vocabulary_size",
    "embedding_dim",
    "max_sequence_length",
    "type_vocabulary_size",
    "position_type",
    "layer_norm_epsilon",
)


@keras.saving.register_keras_serializable(package="bert_keras")
class ElectraPretrainer(HeadModel):
    """ELECTRA: a small generator fills in masked tokens, the discriminator detects which tokens were replaced.

    Args:
        encoder: the discriminator, a `BertEncoder` without a pooler; the part that is fine-tuned later.
        generator_config: config of the generator. It shares the discriminator's embeddings, so the fields that
            determine them must be equal. None: discriminator only.

    Call arguments:
        inputs: the features of `BertEncoder` with [MASK] in `token_ids`, and `mask_positions` `(B, M)`. Without
            `mask_positions` or without a generator, the discriminator classifies `token_ids` as they are.

    Returns:
        A dict with `replaced_logits` `(B, S)`, float32, above 0 = replaced; with a generator and `mask_positions` also
        `mlm_logits` `(B, M, V)` and `sampled_ids` `(B, M)`, the ids filled in: sampled from the generator during
        training, its most probable ids otherwise.

    Labels for `fit`: as in `BertMaskedLM`. The loss is the generator's plus 50 times the discriminator's.

    Raises:
        InputError: the encoder has a pooler, or the two embeddings would differ.

    Example:
        >>> config = bk.BertConfig.from_preset("tiny", vocabulary_size=100)
        >>> model = bk.ElectraPretrainer(bk.BertEncoder(config, pooler=False), generator_config=config)
        >>> model.compile("adam")  # the losses and accuracies of generator and discriminator
        >>> ids = np.array([[2, 4, 30, 3]])
        >>> features = {"token_ids": ids, "padding_mask": np.ones_like(ids), "mask_positions": np.array([[1]])}
        >>> tuple(model(features)["replaced_logits"].shape)
        (1, 4)
    """

    extra_inputs = ("mask_positions",)

    def __init__(self, encoder: BertEncoder, generator_config: BertConfig | None = None, **kwargs):
        _check_generator(encoder, generator_config)
        super().__init__(encoder, **kwargs)
        self.generator_config = generator_config
        self.generator = None
        if generator_config is not None:
            generator_encoder = BertEncoder(
                generator_config, pooler=False, embeddings=encoder.embeddings, name="generator_encoder"
            )
            self.generator = BertMaskedLM(generator_encoder, head_act="gelu", name="generator")
        self.head_dense = make_dense(encoder.config, encoder.config.hidden_dim, "head_dense", dtype=self.dtype_policy)
        self.head_dense.build((None, encoder.config.hidden_dim))
        self.replaced = make_output_layer(encoder.config, 1, "replaced")
        self.sampler = keras.random.SeedGenerator()
        self.build(INPUT_SHAPES)

    def call(self, inputs: Features, training: bool | None = None, **returns):
        """Run generator and discriminator, see the class."""
        if self.generator is None or inputs.get("mask_positions") is None:
            return self.discriminate(inputs, training, **returns)
        with salted_step(_GENERATOR_SALT):  # the shared embeddings layer draws another dropout mask here
            mlm_logits = self.generator(inputs, training=training)["mlm_logits"]
        sampled_ids = ops.stop_gradient(self.sample(mlm_logits, training))
        corrupted = {**inputs, "token_ids": put_at(inputs["token_ids"], inputs["mask_positions"], sampled_ids)}
        discriminated = self.discriminate(corrupted, training, **returns)
        return {**discriminated, "mlm_logits": mlm_logits, "sampled_ids": sampled_ids}

    def encoders(self):
        """Return all encoders that a training step runs."""
        return [self.encoder] if self.generator is None else [self.encoder, self.generator.encoder]

    def discriminate(self, inputs: Features, training: bool | None = None, **returns):
        """Run the discriminator: `replaced_logits` `(B, S)`."""
        encoded = self.encode(inputs, training, **returns)
        hidden = ACTIVATIONS[self.encoder.config.hidden_act](self.head_dense(encoded["sequence_output"]))
        return {"replaced_logits": self.replaced(hidden)[:, :, 0], **select_extra_outputs(encoded)}

    def sample(self, logits: Tensor, training: bool | None):
        """Return ids `(B, M)`: sampled during training, otherwise the most probable."""
        if training:
            return sample_ids(logits, draw_bits(self.sampler, ops.shape(logits)[:2]))
        return ops.cast(ops.argmax(logits, axis=-1), "int32")

    def default_loss(self):
        """Return the default loss, keyed by output name."""
        if self.generator is None:
            raise InputError(
                "this ElectraPretrainer has no generator, so no token is replaced and there is nothing to learn: pass "
                "generator_config to its constructor"
            )
        replaced = keras.losses.BinaryCrossentropy(from_logits=True, reduction="none", name="replaced")
        return {
            "replaced_logits": GlobalBatchMean(replaced, "replaced_logits"),
            "mlm_logits": GlobalBatchMean(CrossEntropy("mlm"), "mlm_logits"),
        }

    def default_loss_weights(self):
        """Return the weights of the losses, keyed by output name."""
        return {"replaced_logits": DISCRIMINATOR_WEIGHT, "mlm_logits": 1.0}

    def default_metrics(self):
        """Return new metrics, keyed by output name."""
        return {
            "replaced_logits": [keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0)],
            "mlm_logits": [TopAccuracy()],
        }

    def match_labels(self, x: Tensor, y: Any, outputs: dict):
        """Label a token as replaced where the generator's id differs from the original id."""
        outputs = {name: outputs[name][..., None] if name == "replaced_logits" else outputs[name] for name in outputs}
        sampled_ids = outputs.pop("sampled_ids")
        differs = ops.cast(ops.not_equal(sampled_ids, ops.cast(y["mask_ids"], "int32")), "float32") * y["mask_weights"]
        replaced = put_at(ops.zeros_like(outputs["replaced_logits"][..., 0]), x["mask_positions"], differs)
        return {"replaced_logits": replaced[..., None], "mlm_logits": y["mask_ids"]}, outputs

    def label_weights(self, x: Tensor, y: Any, sample_weight: Tensor | None):
        """Return the weight of each label, keyed by output name."""
        check_no_sample_weight(self, sample_weight)
        return {"replaced_logits": ops.cast(x["padding_mask"], "float32"), "mlm_logits": y["mask_weights"]}

    def get_config(self):
        """Return the constructor arguments as plain values."""
        generator = self.generator_config
        return {**super().get_config(), "generator_config": generator.to_dict() if generator else None}

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None):
        """Create an instance from `get_config`."""
        generator = config["generator_config"]
        generator = None if generator is None else BertConfig.from_dict(generator)
        return super().from_config({**config, "generator_config": generator}, custom_objects)


def sample_ids(logits: Tensor, bits: Tensor):
    """Sample ids `(B, M)` int32 from the softmax of `logits` `(B, M, V)` with random `bits` `(B, M)` uint32.

    Inverse transform sampling: one random number per masked position is located in the cumulative sum of the
    probabilities, first among blocks, then within the block. The Gumbel trick would need one random number and one
    logarithm per logit, 20 million per step.
    """
    batch, num_positions, size = ops.shape(logits)
    weights = ops.exp(logits - ops.max(logits, axis=-1, keepdims=True))  # probabilities, not normalized
    weights = ops.reshape(weights, (-1, size))
    num_blocks = -(-size // ID_BLOCK)
    weights = ops.pad(weights, [[0, 0], [0, num_blocks * ID_BLOCK - size]])
    weights = ops.reshape(weights, (-1, num_blocks, ID_BLOCK))
    block_weights = ops.sum(weights, axis=-1)  # (B*M, num_blocks)
    uniform = ops.cast(ops.right_shift(ops.reshape(bits, (-1,)), _UNIFORM_SHIFT), "float32") * 2.0**-24
    target = uniform * ops.sum(block_weights, axis=-1)
    block, sum_before = _search_cumulative(block_weights, target)
    weights_in_block = ops.take_along_axis(weights, block[:, None, None], axis=1)[:, 0]  # (B*M, ID_BLOCK)
    within, _ = _search_cumulative(weights_in_block, target - sum_before)
    return ops.reshape(ops.minimum(block * ID_BLOCK + within, size - 1), (batch, num_positions))


def _search_cumulative(weights: Tensor, target: Tensor):
    """Return where the cumulative sum of `weights` `(R, W)` exceeds `target` `(R,)`, and the sum before that index."""
    width = weights.shape[-1]
    cumulative = ops.matmul(weights, ops.triu(ops.ones((width, width), "float32")))
    index = ops.sum(ops.cast(cumulative <= target[:, None], "int32"), axis=-1)
    index = ops.minimum(index, width - 1)
    return index, ops.take_along_axis(cumulative - weights, index[:, None], axis=-1)[:, 0]


def put_at(sequences: Tensor, positions: Tensor, values: Tensor):
    """Return `sequences` `(B, S)` with `values` `(B, M)` at `positions` `(B, M)`; position 0 ([CLS]) means unused."""
    length = ops.shape(sequences)[1]
    is_target = ops.equal(positions[:, :, None], ops.arange(length)[None, None, :])  # (B, M, S)
    is_target = ops.logical_and(is_target, ops.not_equal(positions, 0)[:, :, None])
    new_values = ops.sum(ops.where(is_target, ops.cast(values, sequences.dtype)[:, :, None], 0), axis=1)
    return ops.where(ops.any(is_target, axis=1), new_values, sequences)


def _check_generator(encoder: BertEncoder, generator_config: BertConfig | None) -> None:
    if encoder.pooler is not None:
        raise InputError("ElectraPretrainer needs an encoder without a pooler: build BertEncoder(pooler=False)")
    if generator_config is None:
        return
    for name in _SHARED_FIELDS:
        value, generator_value = getattr(encoder.config, name), getattr(generator_config, name)
        if value != generator_value:
            raise InputError(
                f"the generator's {name} is {generator_value!r} and the discriminator's {value!r}; the two share one "
                "embeddings layer: make them equal"
            )
