"""`FineTuning`: the settings of a fine-tuning run. No TensorFlow here."""

from typing import Literal

from bert_keras.training.config.settings import (
    Count,
    CountOrZero,
    Flag,
    Number,
    PositiveFraction,
    PositiveNumber,
    Rate,
    Seed,
    settings,
)
from bert_keras.training.config.tables import DTYPE_POLICIES


@settings
class FineTuning:
    """The settings of a fine-tuning run; the defaults are those of Devlin et al. 2018 (A.3).

    Args:
        num_epochs: passes over the training examples.
        batch_size: sequences per step over all replicas, or pairs of sequences for tasks on pairs; a text that is split
            into windows is several sequences.
        learning_rate: the peak; 2e-5 to 5e-5 for BERT-Base, up to 1e-3 for tiny models.
        warmup_ratio: fraction of the steps with a rising learning rate.
        weight_decay: see `BertAdamW`.
        layer_decay: factor by which the learning rate decreases from each block to the one below it, as in ELECTRA's
            code; 1 = the same learning rate in all layers.
        frozen_blocks: number of blocks, counted from the embeddings, whose weights stay fixed; 0 = the embeddings only;
            None = all weights are trained.
        patience: stop after this many epochs without a better score on the held-out examples; 0 = never.
        keep_best: end with the weights of the best epoch instead of the last.
        seed: seed of the new head's weights, dropout and the order of the examples.
        accumulation_steps: micro-batches per step and replica, to save memory.
        gradient_checkpointing: recompute each block's activations in the backward pass, to save memory.
        dtype_policy: "mixed_bfloat16" or "mixed_float16" compute in 16 bits and store the weights in 32.

    Raises:
        InputError: settings are out of range; the message lists all of them.
    """

    num_epochs: Count = 3
    batch_size: Count = 32
    learning_rate: PositiveNumber = 3e-5
    warmup_ratio: Rate = 0.1
    weight_decay: Number = 0.01
    layer_decay: PositiveFraction = 1.0
    frozen_blocks: CountOrZero | None = None
    patience: CountOrZero = 0
    keep_best: Flag = True
    seed: Seed = 0
    accumulation_steps: Count = 1
    gradient_checkpointing: Flag = False
    dtype_policy: Literal[DTYPE_POLICIES] = "float32"
