"""The YAML metadata at the top of a model card, by which the Hub files a model: library, task, scores, examples."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence

from bert_keras.files import format_json
from bert_keras.heads.head import Head
from bert_keras.heads.known_heads import HEADS, get_head

# the name of the model in the code of a card; `push` replaces it by that of the repository
THIS_FOLDER = "this folder"
# our scores: the Hub's metric, and a name for people; percents as they are
_METRICS = {
    "accuracy": ("accuracy", "Accuracy"),
    "macro_f1": ("f1", "Macro F1"),
    "micro_f1": ("f1", "Micro F1"),
    "matthews": ("matthews_correlation", "Matthews correlation"),
    "precision": ("precision", "Entity precision"),
    "recall": ("recall", "Entity recall"),
    "f1": ("f1", "F1"),
    "exact_match": ("exact_match", "Exact match"),
    "pearson": ("pearsonr", "Pearson correlation"),
    "spearman": ("spearmanr", "Spearman correlation"),
    "rmse": ("rmse", "Root mean square error"),
    "loss": ("loss", "Cross-entropy"),
}
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./ -]*[A-Za-z0-9]|[A-Za-z]")
_RESERVED = re.compile(r"(?i:y|n|yes|no|on|off|true|false|null|none)|.* ([-#].*)?")
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


@dataclasses.dataclass(frozen=True)
class MeasuredScores:
    """Scores of a model, for its card.

    Attributes:
        scores: the scores, keyed by our names.
        dataset: the name of the examples, for people, such as "120 examples of reviews.csv".
    """

    scores: Mapping[str, float]
    dataset: str


def build_metadata(
    kind: str,
    model_type: str,
    *,
    measured: MeasuredScores | None = None,
    base_model: str | None = None,
) -> dict:
    """Return the metadata of a model.

    `library_name` is the library whose code the Hub's page offers, so it is one that opens the folder without us.

    Args:
        kind: the class of the model.
        model_type: the architecture, a key of `ARCHITECTURES`.
        measured: its scores.
        base_model: the model on the Hub that it was made from, "ORG/NAME".
    """
    head = get_head(kind)
    tags = [
        model_type,
        "bert-keras",
        "keras",
        *(["sentence-transformers", "feature-extraction"] if head.has_modules else []),
    ]
    library = "sentence-transformers" if head.has_modules else "transformers"
    metadata = {"library_name": library, "pipeline_tag": head.pipeline_tag, "tags": tags}
    if base_model is not None:
        metadata["base_model"] = base_model
    if measured is not None:
        metadata |= build_score_metadata(kind, measured)
    metadata["widget"] = _list_widgets(head)
    return metadata


def build_score_metadata(kind: str, measured: MeasuredScores, *, name: str | None = None, dataset: str = "") -> dict:
    """Return the keys `metrics` and `model-index` with the measured scores; empty if the Hub has no name for them.

    Args:
        kind: the class of the model.
        measured: the scores.
        name: the name of the model. Default: its class.
        dataset: the data set on the Hub, "ORG/NAME". Default: none, because a file of the user is not on the Hub.
    """
    metrics = [
        {"type": _METRICS[score][0], "value": round(value, 6), "name": _METRICS[score][1]}
        for score, value in measured.scores.items()
        if score in _METRICS and isinstance(value, int | float) and math.isfinite(value)
    ]
    if not metrics:
        return {}
    result = {
        "task": {"type": get_head(kind).pipeline_tag},
        "dataset": {"name": measured.dataset, "type": dataset or "held-out"},
        "metrics": metrics,
    }
    return {
        "metrics": list(dict.fromkeys(metric["type"] for metric in metrics)),
        "model-index": [{"name": name or kind, "results": [result]}],
    }


def _list_widgets(head: Head) -> list[dict[str, object]]:
    return [dict(example) for example in head.widget] or [{"text": head.example[0]}]


def is_default_widget(examples: object) -> bool:
    """Whether the `widget` of a card is one of ours, whose texts are English."""
    return examples in map(_list_widgets, HEADS)


def format_metadata(metadata: Mapping[str, object]) -> str:
    """Format metadata as YAML between the two lines of a card that enclose it."""
    return "\n".join(["---", *_format_mapping(metadata), "---"])


def _format_mapping(values: Mapping[str, object]) -> list[str]:
    """Return the lines of a mapping in YAML's block style."""
    lines = []
    for name, value in values.items():
        key = _format_scalar(name)
        if not isinstance(value, Mapping | list | tuple) or not value:
            lines.append(f"{key}: {_format_scalar(value)}")
        elif isinstance(value, Mapping):
            lines += [f"{key}:", *(f"  {line}" for line in _format_mapping(value))]
        else:
            lines += [f"{key}:", *_format_list(value)]
    return lines


def _format_list(values: Sequence[object]) -> list[str]:
    lines = []
    for value in values:
        if isinstance(value, Mapping) and value:
            item = _format_mapping(value)
        elif isinstance(value, list | tuple) and value:
            item = _format_list(value)
        else:
            item = [_format_scalar(value)]
        lines += [f"- {item[0]}", *(f"  {line}" for line in item[1:])]
    return lines


def _format_scalar(value: object) -> str:
    """Format a string, number, boolean, None or empty container as JSON, which is YAML; plain words have no quotes."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and not _RESERVED.fullmatch(value):
        return value
    if isinstance(value, float) and "." not in (text := format_json(value)):
        return text.replace("e", ".0e")  # YAML 1.1 reads 1e+22 as a string
    known = str | int | float | bool | None | Mapping | list | tuple
    text = format_json(value if isinstance(value, known) else str(value))  # a date that YAML has read
    return _NOT_IN_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
