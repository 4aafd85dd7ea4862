"""`ElectraPretrainer`: replaced token detection (Clark et al. 2020)."""

import keras
import numpy as np
from keras import ops

from bert_keras.config import BertConfig
from bert_keras.distribution import salted_step
from bert_keras.errors import InputError
from bert_keras.modeling.base import INPUT_SHAPES
from bert_keras.modeling.dropout import drawn_bits
from bert_keras.modeling.encoder import BertEncoder
from bert_keras.modeling.heads import HeadModel, handed_on, output_layer
from bert_keras.modeling.layers import ACTIVATIONS, dense
from bert_keras.modeling.losses import CrossEntropy, StepMean, TopAccuracy
from bert_keras.modeling.masked_lm import BertMaskedLM, check_no_sample_weight

DISCRIMINATOR_WEIGHT = 50.0  # lambda in the paper: the discriminator's loss is small and counts on every token
_GENERATOR = 1  # its salt
ID_BLOCK = 128  # ids looked through at once when one is drawn
_UNIFORM_SHIFT = np.uint32(8)  # 24 of 32 random bits, all that float32 can hold
_SHARED_FIELDS = (  # what sizes or computes the one embeddings layer of both
    "vocabulary_size",
    "embedding_dim",
    "max_sequence_length",
    "type_vocabulary_size",
    "position_type",
    "layer_norm_epsilon",
)


@keras.saving.register_keras_serializable(package="bert_keras")
class ElectraPretrainer(HeadModel):
    """A small generator fills masked slots, and the discriminator tells which tokens were replaced.

    Args:
        encoder: the discriminator, a `BertEncoder` without a pooler. It is what one keeps.
        generator_config: the generator's shape; it shares the discriminator's embeddings,
            so the fields that size them must be the same. None: the discriminator alone.

    Call: the encoder's inputs with [MASK] in `token_ids`, and `mask_positions` (B, M). Without
    `mask_positions`, or without a generator, the discriminator judges `token_ids` as they are.
    Returns: `replaced_logits` (B, S), float32, above 0 = replaced; and, with a generator and slots,
    `mlm_logits` (B, M, V) and the ids put in, `sampled_ids` (B, M): drawn from the
    generator when training, its best guess otherwise.
    Labels for `fit`: as `BertMaskedLM`. The loss is the generator's plus 50 times the discriminator's.

    Raises:
        InputError: the encoder has a pooler, or the generator's embeddings would differ.
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
        self.head_dense = dense(encoder.config, encoder.config.hidden_dim, "head_dense", dtype=self.dtype_policy)
        self.head_dense.build((None, encoder.config.hidden_dim))
        self.replaced = output_layer(encoder.config, 1, "replaced")
        self.sampler = keras.random.SeedGenerator()
        self.build(INPUT_SHAPES)

    def call(self, inputs, training=None, **returns):
        if self.generator is None or inputs.get("mask_positions") is None:
            return self.discriminate(inputs, training, **returns)
        with salted_step(_GENERATOR):  # it shares the embeddings layer, but not the layer's dropout
            mlm_logits = self.generator(inputs, training=training)["mlm_logits"]
        sampled_ids = ops.stop_gradient(self.sample(mlm_logits, training))
        corrupted = {**inputs, "token_ids": put_at(inputs["token_ids"], inputs["mask_positions"], sampled_ids)}
        judged = self.discriminate(corrupted, training, **returns)
        return {**judged, "mlm_logits": mlm_logits, "sampled_ids": sampled_ids}

    def encoders(self):
        return [self.encoder] if self.generator is None else [self.encoder, self.generator.encoder]

    def discriminate(self, inputs, training=None, **returns):
        """Judges each token of a batch: `replaced_logits` (B, S)."""
        encoded = self.encode(inputs, training, **returns)
        hidden = ACTIVATIONS[self.encoder.config.hidden_act](self.head_dense(encoded["sequence_output"]))
        return {"replaced_logits": self.replaced(hidden)[:, :, 0], **handed_on(encoded)}

    def sample(self, logits, training):
        """Returns ids (B, M): drawn by their probability when training, else the likeliest."""
        if training:
            return sample_ids(logits, drawn_bits(self.sampler, ops.shape(logits)[:2]))
        return ops.cast(ops.argmax(logits, axis=-1), "int32")

    def default_loss(self):
        if self.generator is None:
            raise InputError(
                "ElectraPretrainer has no generator to make replaced tokens, so there is nothing to train on: "
                "give it a generator_config"
            )
        replaced = keras.losses.BinaryCrossentropy(from_logits=True, reduction="none", name="replaced")
        return {
            "replaced_logits": StepMean(replaced, "replaced_logits"),
            "mlm_logits": StepMean(CrossEntropy("mlm"), "mlm_logits"),
        }

    def default_loss_weights(self):
        return {"replaced_logits": DISCRIMINATOR_WEIGHT, "mlm_logits": 1.0}

    def default_metrics(self):
        return {
            "replaced_logits": [keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0)],
            "mlm_logits": [TopAccuracy()],
        }

    def match_labels(self, x, y, outputs):
        """A token counts as replaced where the generator's id differs from the original one."""
        outputs = {name: outputs[name][..., None] if name == "replaced_logits" else outputs[name] for name in outputs}
        sampled_ids = outputs.pop("sampled_ids")
        wrong = ops.cast(ops.not_equal(sampled_ids, ops.cast(y["mask_ids"], "int32")), "float32") * y["mask_weights"]
        replaced = put_at(ops.zeros_like(outputs["replaced_logits"][..., 0]), x["mask_positions"], wrong)
        return {"replaced_logits": replaced[..., None], "mlm_logits": y["mask_ids"]}, outputs

    def label_weights(self, x, y, sample_weight):
        check_no_sample_weight(self, sample_weight)
        return {"replaced_logits": ops.cast(x["padding_mask"], "float32"), "mlm_logits": y["mask_weights"]}

    def get_config(self):
        generator = self.generator_config
        return {**super().get_config(), "generator_config": generator.to_dict() if generator else None}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        generator = config["generator_config"]
        generator = None if generator is None else BertConfig.from_dict(generator)
        return super().from_config({**config, "generator_config": generator}, custom_objects)


def sample_ids(logits, bits):
    """Draws an id for each of the logits (B, M, V) by its softmax: (B, M) int32, decided by `bits` (B, M) uint32.

    One random number a slot, looked up in the running sum of the probabilities, of blocks first and then within the
    block. The Gumbel trick would need as many random numbers and logarithms as there are logits, 20 million a step.
    """
    batch, num_slots, size = ops.shape(logits)
    weights = ops.exp(logits - ops.max(logits, axis=-1, keepdims=True))
    weights = ops.reshape(weights, (-1, size))
    num_blocks = -(-size // ID_BLOCK)
    blocks = ops.pad(weights, [[0, 0], [0, num_blocks * ID_BLOCK - size]])
    blocks = ops.reshape(blocks, (-1, num_blocks, ID_BLOCK))
    uniform = ops.cast(ops.right_shift(ops.reshape(bits, (-1,)), _UNIFORM_SHIFT), "float32") * 2.0**-24
    block_weights = ops.sum(blocks, axis=-1)  # (B*M, num_blocks)
    target = uniform * ops.sum(block_weights, axis=-1)
    block, passed = _place_in(block_weights, target)
    within, _ = _place_in(ops.take_along_axis(blocks, block[:, None, None], axis=1)[:, 0], target - passed)
    return ops.reshape(ops.minimum(block * ID_BLOCK + within, size - 1), (batch, num_slots))


def _place_in(weights, target):
    """Returns where the running sum of weights (R, W) passes `target` (R,), and the sum before that place."""
    width = weights.shape[-1]
    running = ops.matmul(weights, ops.triu(ops.ones((width, width), "float32")))
    place = ops.sum(ops.cast(running <= target[:, None], "int32"), axis=-1)
    place = ops.minimum(place, width - 1)
    at_place = ops.take_along_axis(running - weights, place[:, None], axis=-1)[:, 0]
    return place, at_place


def put_at(rows, positions, values):
    """Returns `rows` (B, S) with `values` (B, M) put at `positions` (B, M); position 0 ([CLS]) is an unused slot."""
    length = ops.shape(rows)[1]
    chosen = ops.equal(positions[:, :, None], ops.arange(length)[None, None, :])  # (B, M, S)
    chosen = ops.logical_and(chosen, ops.not_equal(positions, 0)[:, :, None])
    written = ops.sum(ops.where(chosen, ops.cast(values, rows.dtype)[:, :, None], 0), axis=1)
    return ops.where(ops.any(chosen, axis=1), written, rows)


def _check_generator(encoder: BertEncoder, generator_config: BertConfig | None) -> None:
    if encoder.pooler is not None:
        raise InputError("ElectraPretrainer takes an encoder without a pooler: build BertEncoder(pooler=False)")
    if generator_config is None:
        return
    for name in _SHARED_FIELDS:
        ours, theirs = getattr(encoder.config, name), getattr(generator_config, name)
        if ours != theirs:
            raise InputError(
                f"the generator's {name} is {theirs!r} and the discriminator's {ours!r}: "
                "they share one embeddings layer, so make them equal"
            )
