"""The table of features: the one contract between the pipelines and the models.

Shape letters, everywhere in this project:

    B batch   S sequence length   M masked slots   N heads   H head width
    D hidden width   V vocabulary size   C classes   K packed examples a row

`pipelines` writes these features, `modeling` reads them, and neither imports the other.
"""

import dataclasses
from collections.abc import Collection, Mapping

from bert_keras.errors import InputError


@dataclasses.dataclass(frozen=True)
class Feature:
    """One named tensor: its dtype, its shape in letters, what it means, and its name at the border."""

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
        Feature("pooling_mask", "int32", "BS", "1 = token that a sentence vector is made of, 0 = prompt or padding"),
        Feature("pack_ids", "int32", "BS", "which packed example a token belongs to, from 1; 0 = padding"),
        Feature("pack_starts", "int32", "BK", "where each packed example begins, at its [CLS]; 0 in unused places"),
        Feature("mask_positions", "int32", "BM", "positions of the masked slots; 0 in unused slots"),
        Feature("mask_ids", "int32", "BM", "the original ids at the masked slots; 0 in unused slots", "labels"),
        Feature("mask_weights", "float32", "BM", "1.0 = a slot that counts, 0.0 = unused slot"),
        Feature(
            "next_sentence_labels",
            "int32",
            "B",
            "0 = B follows A, 1 = B was drawn from another document, or A and B were swapped; (B, K) in packed rows",
            "next_sentence_label",
        ),
        Feature("next_sentence_weights", "float32", "BK", "1.0 = a packed example that counts, 0.0 = unused place"),
    )
}

# names of outputs at the border, where they differ
_HUGGINGFACE_OUTPUTS = {
    "sequence_output": "last_hidden_state",
    "pooled_output": "pooler_output",
    "attention_scores": "attentions",
    "embedding": "sentence_embedding",
    "mlm_logits": "logits",
    "next_sentence_logits": "seq_relationship_logits",
    "replaced_logits": "logits",
}

ENCODER_INPUTS = ("token_ids", "padding_mask")
ENCODER_OPTIONAL_INPUTS = ("segment_ids", "pack_ids")


def to_huggingface_names(outputs: Mapping[str, object]) -> dict[str, object]:
    """Returns a model's outputs under their names at the border, Hugging Face's and sentence-transformers'."""
    names = dict(_HUGGINGFACE_OUTPUTS)
    if {"mlm_logits", "next_sentence_logits"} <= set(outputs):
        names["mlm_logits"] = "prediction_logits"
    if {"mlm_logits", "replaced_logits"} <= set(outputs):
        names["mlm_logits"] = "generator_logits"
    return {names.get(name, name): value for name, value in outputs.items()}


def check_features(
    given: Mapping[str, object],
    *,
    required: Collection[str],
    optional: Collection[str] = (),
    taker: str,
) -> None:
    """Checks the names of a batch against what its taker reads.

    Raises:
        InputError: a name is missing or extra; the message says which, and what is taken.
    """
    if not isinstance(given, Mapping):
        raise InputError(
            f"{taker} was given a {type(given).__name__}; expected a dict of features with the keys "
            f"{sorted(required)} (and, if wanted, {sorted(optional)})"
        )
    missing = sorted(set(required) - set(given))
    extra = sorted(set(given) - set(required) - set(optional))
    if missing:
        raise InputError(
            f"{taker} misses the features {missing}: the batch has {sorted(given)}; add them in the pipeline"
        )
    if extra:
        raise InputError(
            f"{taker} was given the extra features {extra}: it reads {sorted(required)} and, if present, "
            f"{sorted(optional)}; drop the others in the pipeline"
        )
