"""The table of features: the contract between the input pipelines and the models.

`pipelines` writes these features and models consume them; neither imports the other. Shape letters, used
everywhere in this project:

    B batch   S sequence length   M masked positions   N heads   H head width
    D hidden width   V vocabulary size   C classes   K packed examples per sequence
    E embedding width   L layers   R positions whose vectors are read   T real tokens of a batch
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from bert_keras.errors import InputError

Tensor = Any  # a tensor, an array or a symbolic tensor of the Keras backend
Features = Mapping[str, Tensor]  # a batch, keyed by feature name


@dataclasses.dataclass(frozen=True)
class Feature:
    """One named tensor.

    Attributes:
        name: its name in this project.
        dtype: its dtype.
        shape: its shape, one letter per axis.
        meaning: what its values mean.
        huggingface_name: its name in transformers, ONNX files and SavedModel signatures, or None.
    """

    name: str
    dtype: str
    shape: str
    meaning: str
    huggingface_name: str | None = None


FEATURES: dict[str, Feature] = {
    feature.name: feature
    for feature in (
        Feature("token_ids", "int32", "BS", "WordPiece ids", "input_ids"),
        Feature("segment_ids", "int32", "BS", "0 = sentence A and padding, 1 = sentence B", "token_type_ids"),
        Feature("padding_mask", "int32", "BS", "1 = real token, 0 = padding", "attention_mask"),
        Feature("pooling_mask", "int32", "BS", "1 = token pooled into the sentence vector, 0 = prompt or padding"),
        Feature("pack_ids", "int32", "BS", "which packed example a token belongs to, from 1; 0 = padding"),
        Feature("pack_starts", "int32", "BK", "position of each packed example's [CLS]; 0 where there is no example"),
        Feature("mask_positions", "int32", "BM", "positions of the masked tokens; 0 where unused"),
        Feature("mask_ids", "int32", "BM", "original ids at the masked positions; 0 where unused", "labels"),
        Feature("mask_weights", "float32", "BM", "1.0 = masked position, 0.0 = unused"),
        Feature(
            "next_sentence_labels",
            "int32",
            "B",
            "0 = B follows A, 1 = B is from another document, or A and B were swapped; (B, K) in packed sequences",
            "next_sentence_label",
        ),
        Feature("next_sentence_weights", "float32", "BK", "1.0 = packed example, 0.0 = unused"),
    )
}

_HUGGINGFACE_OUTPUTS = {  # outputs that have another name there
    "sequence_output": "last_hidden_state",
    "pooled_output": "pooler_output",
    "attention_scores": "attentions",
    "embedding": "sentence_embedding",
    "mlm_logits": "logits",
    "next_sentence_logits": "seq_relationship_logits",
    "replaced_logits": "logits",
}

IGNORED_LABEL = -100  # tokens without a label: padding, special tokens, later tokens of a word
ENCODER_INPUTS = ("token_ids", "padding_mask")
ENCODER_OPTIONAL_INPUTS = ("segment_ids", "pack_ids")


def to_huggingface_names(outputs: Mapping[str, object]) -> dict[str, object]:
    """Return a model's outputs keyed by their names in transformers or sentence-transformers."""
    names = dict(_HUGGINGFACE_OUTPUTS)
    if {"mlm_logits", "next_sentence_logits"} <= set(outputs):
        names["mlm_logits"] = "prediction_logits"
    if {"mlm_logits", "replaced_logits"} <= set(outputs):
        names["mlm_logits"] = "generator_logits"
    return {names.get(name, name): value for name, value in outputs.items()}


def check_features(
    given: Mapping[str, object], *, required: Collection[str], optional: Collection[str] = (), model: str
) -> None:
    """Compare the keys of a batch with the features that a model expects.

    Raises:
        InputError: a feature is missing or unexpected.
    """
    if not isinstance(given, Mapping):
        raise InputError(
            f"{model} got a {type(given).__name__}; expected a dict of features with the keys {sorted(required)} "
            f"and optionally {sorted(optional)}"
        )
    if missing := sorted(set(required) - set(given)):
        raise InputError(
            f"{model} lacks the features {missing}: the batch has {sorted(given)}; add them in the input pipeline"
        )
    if extra := sorted(set(given) - set(required) - set(optional)):
        raise InputError(
            f"{model} got the unexpected features {extra}; expected {sorted(required)} and optionally "
            f"{sorted(optional)}: remove the others in the input pipeline"
        )
