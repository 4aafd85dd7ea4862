"""`Head`: what the other folders need to know about a head. This module imports nothing heavy.

Heavy parts are named as `module:attribute` and imported on use.
"""

import dataclasses
import importlib
from collections.abc import Callable


@dataclasses.dataclass(frozen=True, kw_only=True)
class Head:
    """A head and the encoder without a head, which has a record of its own.

    Attributes:
        name: the name of the task, as in `finetune --task`; for a head without a task, a name for messages.
        model: the Keras class of a model with the head, as `module:attribute`.
        task: the class that encodes, decodes and scores examples, as `module:attribute`, or None if there is none.
        is_finetuned: whether `finetune` trains the head on labelled examples.
        training_reader: the function that reads training and held-out examples and creates the task, as
            `module:attribute`.
        scoring_reader: the function that reads labelled examples of a given task, as `module:attribute`.
        description: the function that describes a prediction for `inspect`, as `module:attribute`.
        huggingface: the ending of its class in transformers, or None if transformers has no class of its own for it.
        pipeline_tag: the task under which the Hub lists a model.
        peft: PEFT's task type, or None if adapters cannot be stored for the head.
        outputs: the outputs that the task decodes, under their Hugging Face names.
        graph: the function that builds the answers in the graph of a SavedModel, as `module:attribute`, or None if a
            model with this head has no answers to texts. Its arguments are those of `build_text_function` and the
            number of tokens at which texts are cut.
        comparison: the function that compares the answers of a SavedModel with those of the task, as
            `module:attribute`.
        options: the options of `finetune` and of the commands that read labelled examples which only some tasks have.
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
    training_reader: str | None = None
    scoring_reader: str | None = None
    description: str | None = None
    huggingface: str | None = None
    pipeline_tag: str
    peft: str | None = None
    outputs: tuple[str, ...] = ()
    graph: str | None = None
    comparison: str | None = None
    options: tuple[str, ...] = ()
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

    def load_graph_builder(self) -> Callable:
        """Import and return the function that builds the answers in a graph."""
        return _load(self.graph)

    def load_comparison(self) -> Callable:
        """Import and return the function that compares answers."""
        return _load(self.comparison)

    def load_training_reader(self) -> Callable:
        """Import and return the function that reads training examples."""
        return _load(self.training_reader)

    def load_scoring_reader(self) -> Callable:
        """Import and return the function that reads labelled examples of a given task."""
        return _load(self.scoring_reader)

    def load_description(self) -> Callable:
        """Import and return the function that describes a prediction."""
        return _load(self.description)

    def load_task_class(self) -> type:
        """Import and return the task's class."""
        return _load(self.task)


def _load(reference: str) -> Callable:
    """Return the attribute that `module:attribute` names."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
