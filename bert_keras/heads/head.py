"""`Head`: what the other folders need to know about a head. This module imports nothing heavy.

Heavy parts are named as `module:attribute` and imported on use.
"""

import dataclasses
import importlib
from collections.abc import Callable


@dataclasses.dataclass(frozen=True, kw_only=True)
class Head:
    """A head; the encoder without a head has a record, too.

    Fields whose values are written as `module:attribute` are imported by `load`.

    Attributes:
        name: the name of the task, as in `finetune --task`; for a head without a task, a name for messages.
        model: the Keras class of a model with the head; `module:attribute`.
        task: the class that encodes, decodes and scores examples; `module:attribute`, or None if there is none.
        is_finetuned: whether `finetune` trains the head on labelled examples.
        training_reader: the function that reads training and held-out examples and creates the task;
            `module:attribute`.
        scoring_reader: the function that reads labelled examples of a given task; `module:attribute`.
        description: the function that describes a prediction for `inspect`; `module:attribute`.
        huggingface: the ending of its class in transformers, or None if transformers has no class of its own for it.
        pipeline_tag: the task under which the Hub lists a model.
        peft: PEFT's task type, or None if adapters cannot be stored for the head.
        outputs: the outputs that the task decodes, under their Hugging Face names.
        graph: the function that builds the answers in the graph of a SavedModel, a `BuildAnswers` of
            `export/saved_model/answers/text_function.py`; `module:attribute`, or None if a model with this head does
            not answer texts.
        comparison: the function that computes the expected answers of a SavedModel, see `expect_text_answers` in
            `export/parity/expected_answers.py`; `module:attribute`.
        file_outputs: the class that converts the outputs of TFLite files, an `OutputConversion` of
            `export/tflite/output_conversion.py`; `module:attribute`, or None if a file has the outputs of the model.
        readme: the function that describes the answers for app teams, from the settings of the task to a `TaskTexts` of
            `export/client_bundle/task_texts.py`; `module:attribute`.
        options: the options of `finetune` and of the commands that read labelled examples which only some tasks have.
        example: a text, or a pair of texts, that a model card answers.
        inputs: the names of these texts in an exported artifact.
        javascript: the pipeline of transformers.js that returns the answers, or None if there is none.
        takes_pairs: whether the task has the setting `has_pairs`, single texts or pairs.
        fills_masks: whether the texts contain [MASK].
        exports_hidden_states: whether ONNX files have the last hidden states, too, for clients that pool them.
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
    file_outputs: str | None = None
    readme: str | None = None
    options: tuple[str, ...] = ()
    example: tuple[str, ...] = ("The weather was a pleasant surprise.",)
    inputs: tuple[str, ...] = ("text",)
    javascript: str | None = None
    takes_pairs: bool = False
    fills_masks: bool = False
    exports_hidden_states: bool = False
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

    def load(self, part: str) -> Callable:
        """Import and return the class or function that a field names as `module:attribute`, such as "task"."""
        module, _, name = getattr(self, part).partition(":")
        return getattr(importlib.import_module(module), name)
