"""`Head`: what the other folders need to know about a head. This module imports nothing heavy.

Heavy parts are named as `module:attribute` and imported on use.
"""

import dataclasses
import importlib


@dataclasses.dataclass(frozen=True, kw_only=True)
class Head:
    """A head and the encoder without a head, which has a record of its own.

    Attributes:
        name: the name of the task, as in `finetune --task`; for a head without a task, a name for messages.
        model: the Keras class of a model with the head, as `module:attribute`.
        task: the class that encodes, decodes and scores examples, as `module:attribute`, or None if there is none.
        is_finetuned: whether `finetune` trains the head on labelled examples.
        huggingface: the ending of its class in transformers, or None if transformers has no class of its own for it.
        pipeline_tag: the task under which the Hub lists a model.
        peft: PEFT's task type, or None if adapters cannot be stored for the head.
        outputs: the outputs that the task decodes, under their Hugging Face names.
        has_num_classes: whether the constructor takes `num_classes`.
        reads_windows: whether long texts are read in overlapping windows by default.
        ignores_pooler: whether a pooler of the encoder is not used, and so not stored.
        keeps_pooler: whether a pooler of the encoder stays in a model with a new head, although the head can do
            without it.
        plan_name: its name in `plan --head`, or None if `plan` cannot add it.
        has: what a model with this head has, for error messages.
        use: the first sentence of a model card.
    """

    name: str
    model: str
    task: str | None = None
    is_finetuned: bool = False
    huggingface: str | None = None
    pipeline_tag: str
    peft: str | None = None
    outputs: tuple[str, ...] = ()
    has_num_classes: bool = False
    reads_windows: bool = False
    ignores_pooler: bool = False
    keeps_pooler: bool = False
    plan_name: str | None = None
    has: str
    use: str

    @property
    def model_name(self) -> str:
        """The name of the model's class."""
        return self.model.partition(":")[2]

    def load_model_class(self) -> type:
        """Import and return the model's class."""
        return _load(self.model)

    def load_task_class(self) -> type:
        """Import and return the task's class."""
        return _load(self.task)


def _load(reference: str) -> type:
    """Return the attribute that `module:attribute` names."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
