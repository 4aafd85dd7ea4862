"""`Head`: what the other folders need to know about a head. This module imports nothing heavy.

Heavy parts are named as `module:attribute` and imported on use.
"""

import dataclasses
import importlib
from collections.abc import Callable, Mapping


def import_part(path: str) -> Callable:
    """Import and return the class or function `module:attribute`."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objective:
    """An objective of `pretrain`, which trains the model of a head.

    Attributes:
        name: its name in `pretrain --objective`.
        parts: the parts of the model except its encoder: a name for people, and the prefix of the weights' names.
        reads_pairs: whether it needs pairs of sentences.
        has_generator: whether a generator is trained too, which fills in the masked tokens.
        model_type: the architecture of the encoder.
    """

    name: str
    parts: tuple[tuple[str, str], ...]
    reads_pairs: bool = False
    has_generator: bool = False
    model_type: str = "bert"


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
        prediction_reader: the class that reads examples to answer, a `PredictionReader` of
            `heads/examples/prediction_data.py`; `module:attribute`.
        description: the function that describes a prediction for `inspect`, given the task and an answer, or the
            forward pass if the head has no task; `module:attribute`.
        huggingface: the ending of its class in transformers, or None if transformers has no class of its own for it.
        pipeline_tag: the task under which the Hub lists a model.
        peft: PEFT's task type, or None if adapters cannot be stored for the head.
        outputs: the outputs that the task decodes, under their Hugging Face names.
        graph: the function that builds the answers in the graph of a SavedModel, a `BuildAnswers` of
            `bert_keras/heads/text_function.py`; `module:attribute`, or None if a model with this head does
            not answer texts.
        endpoint: the description of its path in `serve`, a `TaskEndpoint` of `serving/protocols/tasks.py`;
            `module:attribute`, or None if the task has no path of its own.
        served_as: what a model with this head gives to the clients of other servers, "vectors" or "scores" of classes,
            or None if their protocols have no name for it.
        kept_settings: the settings of the task that a new task takes from a checkpoint with the same head.
        reads_json: whether its reader reads `.json` files itself, which are arrays of records otherwise.
        has_word_lists: whether the values in a `.json` file can be lists of words.
        has_num_classes: whether the constructor takes `num_classes` and `labels`; the output layer is `classifier`.
        has_problem: whether the constructor takes `problem`, one of `config.PROBLEMS`.
        has_modules: whether the folder is also one of sentence-transformers, with `modules.json`.
        tensors: the rows of its weights in a checkpoint, as in `Architecture.heads`, for the architectures that do not
            list the model class.
        google: the variable by which Google's TF1 checkpoints show the head, or None if they do not have it.
        keras_hub: the class of KerasHub with the head, or None if no class of it computes the same.
        keras_hub_lacks: the arguments of the model that this class does not have, and their types.
        widget: the inputs with which the Hub's page tries the model, if they are others than `example`.
        snippets: the function that writes the code of a model card; `module:attribute`.
        labels: the labels of a training step as (name, axes, dtype); the axes after the batch are S = tokens and
            M = masked positions. Without a name, the labels are a single tensor. Empty if the model has no own loss.
        file_endings: endings of files of labelled examples that belong to this head alone.
        comparison: the function that computes the expected answers of a SavedModel, see `expect_text_answers` in
            `export/parity/expected_answers.py`; `module:attribute`.
        file_outputs: the class that converts the outputs of TFLite files, an `OutputConversion` of
            `export/tflite/output_conversion.py`; `module:attribute`, or None if a file has the outputs of the model.
        readme: the template with the texts about the answers for app teams, relative to `export/templates/` or an
            absolute path; see `_describe_task` in `export/client_bundle/client_readme.py`.
        options: the options of `finetune` and of the commands that read labelled examples which only some tasks have.
        example: a text, or a pair of texts, for cards and requests.
        inputs: the names of these texts in an exported artifact.
        javascript: the pipeline of transformers.js that returns the answers, or None if no pipeline does.
        takes_pairs: whether the task has the setting `has_pairs`, single texts or pairs.
        exports_hidden_states: whether ONNX files have the last hidden states, too, for clients that pool them.
        reads_windows: whether long texts are read in overlapping windows by default.
        ignores_pooler: whether a pooler of the encoder is not used, and so not stored.
        keeps_pooler: whether a pooler of the encoder stays in a model with a new head, although the head can do
            without it.
        objective: how `pretrain` trains the head, or None if it does not.
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
    prediction_reader: str = "bert_keras.heads.examples.prediction_data:PredictionReader"
    description: str | None = None
    huggingface: str | None = None
    pipeline_tag: str
    peft: str | None = None
    outputs: tuple[str, ...] = ()
    graph: str | None = None
    comparison: str | None = None
    endpoint: str | None = "bert_keras.serving.protocols.tasks:TEXTS"
    served_as: str | None = None
    kept_settings: tuple[str, ...] = ()
    reads_json: bool = False
    has_word_lists: bool = False
    labels: tuple[tuple[str | None, str, str], ...] = ()
    file_endings: tuple[str, ...] = ()
    file_outputs: str | None = None
    readme: str | None = None
    options: tuple[str, ...] = ()
    example: tuple[str, ...] = ("The weather was a pleasant surprise.",)
    inputs: tuple[str, ...] = ("text",)
    javascript: str | None = None
    takes_pairs: bool = False
    exports_hidden_states: bool = False
    has_num_classes: bool = False
    has_problem: bool = False
    has_modules: bool = False
    tensors: tuple[tuple[str | None, ...], ...] = ()
    google: str | None = None
    keras_hub: str | None = None
    keras_hub_lacks: Mapping[str, type] = dataclasses.field(default_factory=dict)
    widget: tuple[Mapping[str, object], ...] = ()
    snippets: str = "bert_keras.checkpoints.huggingface.model_card:show_prediction"
    reads_windows: bool = False
    ignores_pooler: bool = False
    keeps_pooler: bool = False
    objective: Objective | None = None
    plan_name: str | None = None
    has: str
    use: str

    @property
    def model_name(self) -> str:
        """The name of the model's class."""
        return self.model.partition(":")[2]

    @property
    def fills_masks(self) -> bool:
        """Whether the model has a masked-LM head of its own; ELECTRA's is the one of its generator."""
        return self.pipeline_tag == "fill-mask"

    def load(self, part: str) -> Callable:
        """Import and return the class or function that a field names as `module:attribute`, such as "task"."""
        return import_part(getattr(self, part))
