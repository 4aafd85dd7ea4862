"""`config.json` of Hugging Face to our settings; `write_config` is the way back.

Reading is strict where a key changes the function that the model computes; keys that only
describe how somebody trained or stored it pass.
"""

import collections
import re

from bert_keras.checks import format_names, quote, read_field
from bert_keras.config import POSITION_TYPES, BertConfig
from bert_keras.errors import InputError

FORMAT = 1  # of our own part of config.json

FIELDS = {  # ours: Hugging Face's
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_position_embeddings",
    "type_vocabulary_size": "type_vocab_size",
    "embedding_dim": "embedding_size",
    "hidden_dropout_rate": "hidden_dropout_prob",
    "attention_dropout_rate": "attention_probs_dropout_prob",
    "layer_norm_epsilon": "layer_norm_eps",
    "initializer_range": "initializer_range",
}
_RATES = ("hidden_dropout_prob", "attention_probs_dropout_prob", "layer_norm_eps", "initializer_range")
_LARGEST_SIZE = 2**31 - 1
_OPTIONAL_FIELDS = {  # defaults of Hugging Face's BertConfig, for the keys that its files may leave out
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "layer_norm_eps": 1e-12,
    "initializer_range": 0.02,
}
_ACTS = {  # theirs to ours
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
    "relu": "relu",
}
ACTS_OUT = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}

# keys that change what the model computes, with the only values under which this one computes the same
_FUNCTION_KEYS = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "is_encoder_decoder": (False, None),
    "tie_word_embeddings": (True, None),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
    "auto_map": (None,),
}
_ARCHITECTURES = {  # theirs to our class; None: the bare encoder
    "Model": "BertEncoder",
    "ForMaskedLM": "BertMaskedLM",
    "ForPreTraining": "BertPretrainer",
    "ForSequenceClassification": "BertClassifier",
    "ForTokenClassification": "BertTokenClassifier",
    "ForQuestionAnswering": "BertQuestionAnswerer",
}
_ENDINGS = {ours: theirs for theirs, ours in _ARCHITECTURES.items()} | {"BertEmbedder": "Model"}
PROBLEMS = {
    "single_label": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}
_MODELS = (*_ARCHITECTURES.values(), "BertEmbedder", "ElectraPretrainer")
_OUR_KEYS = ("format", "model", "position_type", "settings", "task")
OUR_SETTINGS = ("pooling", "normalize", "head_act")


def read_config(values: dict, source: str) -> BertConfig:
    """Takes `config.json` (or Google's `bert_config.json`) to a `BertConfig`.

    Raises:
        InputError: a key is missing, or asks for a function that this model does not compute.
    """
    _refuse_other_functions(values, source)
    values = {"embedding_size": None, **_OPTIONAL_FIELDS, **values}
    if missing := [theirs for theirs in FIELDS.values() if theirs not in values]:
        raise InputError(f"{source} lacks {', '.join(missing)}: it is not the config of a BERT, or it was cut")
    fields = {ours: _read_number(values, theirs, source) for ours, theirs in FIELDS.items()}
    fields["hidden_act"] = _ACTS[read_field(values, "hidden_act", str, source=source, default="gelu", choices=_ACTS)]
    fields["position_type"] = _our_part(values, source).get("position_type", "learned")
    try:
        return BertConfig.from_dict(fields)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def read_model(values: dict, source: str, *, any_head: bool = False) -> tuple[str, str, dict]:
    """Returns our model class, Hugging Face's family, and the settings of the head that `config.json` names.

    `any_head`: a head that is none of ours is no error; the model is the encoder then.
    """
    family = read_family(values)
    architecture = (read_field(values, "architectures", list[str], source=source, default=None) or [None])[0]
    ours = _our_part(values, source)
    model = ours.get("model")
    if model is not None and architecture == get_architecture(model, family):
        own = ours.get("settings", {})
    else:  # a foreign folder, or one of ours that another tool turned into something else
        model, own = _model_of(architecture, family, source, any_head=any_head), {}
    return model, family, {**_head_settings(values, model, family, source), **own}


def read_family(values: dict) -> str:
    """Returns Hugging Face's family of a `config.json`, which `read_config` has checked."""
    return values.get("model_type", "bert")


def read_task(values: dict, source: str) -> dict | None:
    """Returns what `config.json` says of the task that the model was fine-tuned for, None where it says nothing."""
    return _our_part(values, source).get("task")


def get_architecture(model: str, family: str) -> str:
    """Returns the class name by which transformers knows a model of ours."""
    if model == "ElectraPretrainer":
        return "ElectraForPreTraining"
    if model == "BertPretrainer" and family == "electra":
        return "ElectraForMaskedLM"  # there is no ELECTRA with a next-sentence head; the rest of it opens as this
    return family.capitalize() + _ENDINGS.get(model, "Model")


def _refuse_other_functions(values: dict, source: str) -> None:
    if (family := read_family(values)) not in ("bert", "electra"):
        raise InputError(f"{source} is of a {quote(family)} model; expected 'bert' or 'electra': load another one")
    for key, allowed in _FUNCTION_KEYS.items():
        if values.get(key) not in allowed:
            raise InputError(
                f"{source} sets {key} to {quote(values[key])}, which changes what the model computes; "
                f"expected {allowed[0]!r} or no such key: this toolkit has no such model"
            )


def _read_number(values: dict, name: str, source: str) -> float | None:
    """Returns a size or a rate; `BertConfig` checks its range. Null is for an embedding as wide as the encoder."""
    default = {"default": None} if name == "embedding_size" else {}
    if name in _RATES:
        return read_field(values, name, float, source=source)
    return read_field(values, name, int, source=source, maximum=_LARGEST_SIZE, **default)


def _our_part(values: dict, source: str) -> dict:
    """Returns what stands under `bert_keras`, each value of its type."""
    ours = read_field(values, "bert_keras", dict, source=source, default={})
    place = f"{source}, under 'bert_keras',"
    settings = read_field(ours, "settings", dict, source=place, default={})
    if unknown := sorted(set(ours) - set(_OUR_KEYS)) + sorted(set(settings) - set(OUR_SETTINGS)):
        raise InputError(
            f"{source} has {format_names(unknown)} under 'bert_keras', which this version does not know: "
            "correct the name, or load the folder with the version that wrote it"
        )
    if ours and ours.get("format") != FORMAT:
        raise InputError(
            f"{source} is of format {quote(ours.get('format'))}; this version reads {FORMAT}: update bert-keras"
        )
    read_field(ours, "model", str, source=place, default=None, choices=_MODELS)
    read_field(ours, "position_type", str, source=place, default="learned", choices=POSITION_TYPES)
    read_field(ours, "task", dict, source=place, default=None)
    read_field(settings, "normalize", bool, source=place, default=True)
    read_field(settings, "head_act", str, source=place, default=None, choices=ACTS_OUT)
    kind = list[str] if isinstance(settings.get("pooling"), list) else str
    read_field(settings, "pooling", kind, source=place, default="mean")
    return ours


def _model_of(architecture: str | None, family: str, source: str, *, any_head: bool) -> str:
    prefix = family.capitalize()
    ending = architecture.removeprefix(prefix) if architecture else "Model"
    if family == "electra" and ending == "ForPreTraining":
        return "ElectraPretrainer"
    if ending not in _ARCHITECTURES or (architecture and not architecture.startswith(prefix)):
        if any_head:
            return "BertEncoder"
        known = ", ".join(prefix + ending for ending in _ARCHITECTURES)
        raise InputError(
            f"{source} names the architecture {quote(architecture)}; expected one of {known}: load its encoder with "
            "BertEncoder.from_checkpoint, or another model with a new head"
        )
    return _ARCHITECTURES[ending]


def _head_settings(values: dict, model: str, family: str, source: str) -> dict:
    if model == "BertMaskedLM" and family == "electra":
        return {"head_act": "gelu"}  # transformers' ELECTRA has it so, whatever hidden_act says
    if model not in ("BertClassifier", "BertTokenClassifier"):
        return {}
    labels = _labels(values, source)
    num_classes = read_field(values, "num_labels", int, source=source, default=2, minimum=1, maximum=_LARGEST_SIZE)
    num_classes = len(labels) or num_classes
    dropout_rate = read_field(values, "classifier_dropout", float, source=source, default=None, minimum=0, maximum=1)
    settings = {"num_classes": num_classes, "dropout_rate": dropout_rate}
    settings["labels"] = labels if labels and not all(re.fullmatch(r"LABEL_\d+", name) for name in labels) else None
    if model == "BertClassifier":
        ours = {theirs: ours for ours, theirs in PROBLEMS.items()}
        problem = read_field(values, "problem_type", str, source=source, default=None, choices=ours)
        by_size = "regression" if num_classes == 1 else "single_label"
        settings["problem"] = by_size if problem is None else ours[problem]
    return settings


def _labels(values: dict, source: str) -> list[str]:
    """Returns the labels of the classes 0, 1, ... in their order; none where they have no names."""
    names = read_field(values, "id2label", dict[str, str], source=source, default=None) or {}
    numbers = [str(number) for number in range(len(names))]
    if missing := [number for number in numbers if number not in names]:
        raise InputError(
            f"{source} has {len(names):,} labels in id2label and none for class {missing[0]}; expected the keys "
            f"0 to {len(names) - 1}: correct them, or restore the file from its source"
        )
    labels = [names[number] for number in numbers]
    if repeated := [label for label, number in collections.Counter(labels).items() if number > 1]:
        raise InputError(
            f"{source} gives more than one class the name {quote(repeated[0])} in id2label; expected a name of its own "
            "for each class: rename the classes there"
        )
    return labels
