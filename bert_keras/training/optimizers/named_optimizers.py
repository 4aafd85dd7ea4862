"""`make_optimizer`: an optimizer and its learning-rate schedule from the settings of a run; `adamw`, `lamb`, `muon`."""

from collections.abc import Sequence

from bert_keras.training.config.tables import OptimizerSettings
from bert_keras.training.optimizers.schedules import RateSequence, WarmupDecay
from bert_keras.training.optimizers.update_rules import BertAdamW, BertMuon, BertOptimizer, Lamb


def adamw(learning_rate: float, num_steps: int | None, **settings: float | str) -> BertAdamW:
    """Create AdamW with the settings that BERT was trained with, as defaults.

    Args:
        learning_rate: the peak.
        num_steps: optimizer steps of the whole training; None = a constant rate, for `TimedLearningRate` to set.
        **settings: other fields of `tables.OptimizerSettings`: `schedule`, `warmup_ratio`, `weight_decay`, `beta_1`,
            `beta_2`, `epsilon`, `clip_norm`.

    Raises:
        InputError: settings are invalid; the message lists all of them.

    Example:
        >>> adamw(1e-4, num_steps=1000, warmup_ratio=0.1).weight_decay
        0.01
    """
    return make_optimizer(OptimizerSettings(name="adamw", learning_rate=learning_rate, **settings), num_steps)


def lamb(learning_rate: float, num_steps: int | None, **settings: float | str) -> Lamb:
    """Create LAMB; the arguments are those of `adamw`."""
    return make_optimizer(OptimizerSettings(name="lamb", learning_rate=learning_rate, **settings), num_steps)


def muon(learning_rate: float, num_steps: int | None, **settings: float | str) -> BertMuon:
    """Create Muon; the arguments are those of `adamw`, and `beta_1`, `beta_2` and `epsilon` those of its AdamW part."""
    return make_optimizer(OptimizerSettings(name="muon", learning_rate=learning_rate, **settings), num_steps)


def make_optimizer(settings: OptimizerSettings, schedules: Sequence[tuple[float, int]] | int | None) -> BertOptimizer:
    """Create the optimizer of a run's `[optimizer]` table.

    For a model with the policy "mixed_float16", Keras itself wraps the optimizer in a `LossScaleOptimizer` in `compile`
    (`auto_scale_loss`).

    Args:
        settings: `Pretraining.optimizer`.
        schedules: optimizer steps of the whole training; or (peak learning rate, steps) of each schedule, see
            `Pretraining.schedules`; None = a constant rate, for `TimedLearningRate` to set.
    """
    if isinstance(schedules, int):
        schedules = [(settings.learning_rate, schedules)]
    learning_rate = settings.learning_rate
    if schedules is not None:
        parts = [
            WarmupDecay(settings.schedule, peak, steps, int(steps * settings.warmup_ratio), power=settings.power)
            for peak, steps in schedules
        ]
        learning_rate = parts[0] if len(parts) == 1 else RateSequence(parts)
    numbers = {name: getattr(settings, name) for name in ("weight_decay", "beta_1", "beta_2", "epsilon")}
    kind = {"adamw": BertAdamW, "lamb": Lamb, "muon": BertMuon}[settings.name]
    return kind(learning_rate, **numbers, global_clipnorm=settings.clip_norm or None)
