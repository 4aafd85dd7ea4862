"""`FineTuning`: how a fine-tuning is trained. No TensorFlow here."""

import dataclasses

from bert_keras.training.config.settings import Settings, choice, flag, number, whole
from bert_keras.training.config.tables import DTYPE_POLICIES


@dataclasses.dataclass(frozen=True)
class FineTuning(Settings):
    """The settings of a fine-tuning; the defaults are of Devlin et al. 2018 (A.3).

    Args:
        num_epochs: passes over the training examples.
        batch_size: rows a step, or pairs of them where pairs are learned; a text in windows has several rows.
        learning_rate: the peak; 2e-5 to 5e-5 for BERT-Base, up to 1e-3 for tiny models.
        warmup_ratio: the share of the steps in which the rate rises.
        weight_decay: see `BertAdamW`.
        layer_decay: the rates of the blocks fall by this factor from the head down, as in ELECTRA's code; 1: none do.
        frozen_blocks: the embeddings and so many blocks above them are not trained; 0: the embeddings alone; None: all
            is trained.
        patience: stop after so many epochs without a better score on the held-out examples; 0: never.
        keep_best: end with the weights of the best epoch, not of the last.
        seed: draws the new head, the dropout and the order of the rows.
        accumulation_steps: into how many parts each replica cuts its batch, to save memory.
        gradient_checkpointing: compute the inside of each block twice instead of keeping it, to save memory.
        dtype_policy: "mixed_bfloat16" or "mixed_float16" computes in 16 bits and keeps the weights in 32.

    Raises:
        InputError: settings are out of range; the message has all of them.
    """

    num_epochs: int = whole(3)
    batch_size: int = whole(32)
    learning_rate: float = number(3e-5, above=0)
    warmup_ratio: float = number(0.1, below=1)
    weight_decay: float = number(0.01)
    layer_decay: float = number(1.0, above=0, maximum=1)
    frozen_blocks: int | None = whole(None, minimum=0)
    patience: int = whole(0, minimum=0)
    keep_best: bool = flag(True)
    seed: int = whole(0, minimum=0, maximum=2**31 - 1)
    accumulation_steps: int = whole(1)
    gradient_checkpointing: bool = flag(False)
    dtype_policy: str = choice("float32", DTYPE_POLICIES)
