"""Write the `config.json` of a model in the schema of Hugging Face; `config_reader.py` reads it."""

from collections.abc import Mapping

from bert_keras.architectures.architecture import Architecture
from bert_keras.architectures.known_architectures import get_architecture
from bert_keras.checkpoints.building import get_model_name, get_stored_config
from bert_keras.checkpoints.huggingface.config_reader import (
    ACTS_OUT,
    FORMAT,
    OUR_SETTINGS,
    PROBLEMS,
    get_class_name,
)
from bert_keras.heads.known_heads import get_head
from bert_keras.modeling.base import BertModel


def build_config(model: BertModel, task: Mapping[str, object] | None = None) -> dict:
    """Return the `config.json` of a model: Hugging Face's schema, with our own keys under `bert_keras`."""
    config, name = get_stored_config(model), get_model_name(model)
    record = get_architecture(config.model_type)
    values = {"architectures": [get_class_name(name, record)], "model_type": record.model_type}
    values |= {theirs: getattr(config, ours) for ours, theirs in record.config_keys.items()}
    values[record.act_key] = ACTS_OUT[config.hidden_act]
    values |= {"pad_token_id": 0, "tie_word_embeddings": True, "dtype": "float32"}
    values |= _build_head_config(model, record)
    settings = {key: value for key in OUR_SETTINGS if (value := getattr(model, key, None)) is not None}
    values["bert_keras"] = {
        "format": FORMAT,
        "model": name,
        "position_type": config.position_type,
        "settings": settings,
        **({} if task is None else {"task": dict(task)}),
    }
    return values


def _build_head_config(model: BertModel, record: Architecture) -> dict:
    """Return the keys of a classification head."""
    head = get_head(get_model_name(model))
    if not head.has_num_classes:
        return {}
    labels = model.labels or [f"LABEL_{i}" for i in range(model.num_classes)]
    values = {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }
    if (key := record.dropout_keys.get(head.model_name)) is not None:
        has_own_default = model.dropout_rate is None and key in record.config_defaults
        values[key] = model.encoder.config.hidden_dropout_rate if has_own_default else model.dropout_rate
    if head.has_problem:
        values["problem_type"] = PROBLEMS[model.problem]
    return values
