"""Write the `config.json` of a model in the schema of Hugging Face; `config_reader.py` reads it."""

from collections.abc import Mapping

from bert_keras import modeling
from bert_keras.architectures.known_architectures import ARCHITECTURES
from bert_keras.checkpoints.building import get_encoder, get_family
from bert_keras.checkpoints.huggingface.config_reader import (
    ACTS_OUT,
    FIELDS,
    FORMAT,
    OUR_SETTINGS,
    PROBLEMS,
    get_architecture,
)
from bert_keras.modeling.base import BertModel


def build_config(model: BertModel, task: Mapping[str, object] | None = None) -> dict:
    """Return the `config.json` of a model: Hugging Face's schema, with our own keys under `bert_keras`."""
    config, family, name = get_encoder(model).config, get_family(model), type(model).__name__
    values = {"architectures": [get_architecture(name, family)], "model_type": family}
    values |= {theirs: getattr(config, ours) for ours, theirs in FIELDS.items()}
    values["hidden_act"] = ACTS_OUT[config.hidden_act]
    values |= {"pad_token_id": 0, "tie_word_embeddings": True, "dtype": "float32"}
    if not ARCHITECTURES[family].has_embedding_size:
        del values["embedding_size"]
    values |= _build_head_config(model)
    settings = {key: value for key in OUR_SETTINGS if (value := getattr(model, key, None)) is not None}
    values["bert_keras"] = {
        "format": FORMAT,
        "model": name,
        "position_type": config.position_type,
        "settings": settings,
        **({} if task is None else {"task": dict(task)}),
    }
    return values


def _build_head_config(model: BertModel) -> dict:
    """Return the keys of a classification head."""
    if not isinstance(model, modeling.BertClassifier | modeling.BertTokenClassifier):
        return {}
    labels = model.labels or [f"LABEL_{i}" for i in range(model.num_classes)]
    values = {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
        "classifier_dropout": model.dropout_rate,
    }
    if isinstance(model, modeling.BertClassifier):
        values["problem_type"] = PROBLEMS[model.problem]
    return values
