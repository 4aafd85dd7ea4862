"""The model card: `README.md` of a checkpoint folder, with the metadata by which the Hub files the model.

No Keras here, so that `push` can write a card at once.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import yaml

from bert_keras import __version__
from bert_keras.architectures.known_architectures import get_architecture
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checks import format_count
from bert_keras.config import BertConfig
from bert_keras.heads.head import Head
from bert_keras.heads.known_heads import HEADS, get_head
from bert_keras.hub.names import is_hub_name, parse_hub_name

if TYPE_CHECKING:
    from bert_keras.architectures.base import BertModel
    from bert_keras.pipelines.text.tokenizer import BertTokenizer

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
_MAX_LABELS = 100  # that a card lists
_LINE_ENDS = ("\x85", "\u2028", "\u2029")  # of YAML 1.1, which PyYAML writes into plain text
# the name of the model in the code of a card; `push` replaces it by that of the repository
THIS_FOLDER = "this folder"
_TEXT = '"The weather was a pleasant surprise."'
_QUESTION, _CONTEXT = '"Where was she born?"', '"Ada Lovelace was born in London."'
_PAIR = '"It was raining."'
_MASKED = '"Paris is the [MASK] of France."'


def replace_folder(text: str, repository: str) -> str:
    """Replace the placeholder of the folder in a card's code by the name of a repository."""
    lines = []
    for line in text.split("\n"):
        name = f"hf://{repository}" if "bk." in line or "bert-keras" in line else repository
        lines.append(line.replace(f'"{THIS_FOLDER}"', f'"{name}"'))
    return "\n".join(lines)


def _fill(name: str, **values: str) -> str:
    text = pathlib.Path(__file__).with_name("card").joinpath(f"{name}.txt").read_text(encoding="utf-8")
    return text.format(**values)


def _make(ours: str, theirs: str, library: str = "transformers", **values: str) -> Callable[..., dict[str, str]]:
    """Return a function for `Head.snippets`, from the names of two texts and the values in them.

    Such functions return the code for each library. They take the class of transformers that loads the model, the
    problem of a classifier, and whether it takes pairs of texts.
    """

    def show(model_class: str, problem: str | None, *, has_pairs: bool) -> dict[str, str]:
        del problem, has_pairs
        given = {"model_class": model_class, "options": "", "example": _TEXT, "our_example": _TEXT, **values}
        return {"bert_keras": _fill(ours, **given | {"example": given["our_example"]}), library: _fill(theirs, **given)}

    return show


show_prediction = _make("predict", "auto_model")  # of a model that answers texts
show_encoding = _make("encode", "auto_model")  # of an encoder, which has no answers
show_masks = _make("fill_mask", "pipeline", task="fill-mask", example=_MASKED)
show_vectors = _make("predict", "sentence_transformers", "sentence-transformers")
show_tagging = _make(
    "predict", "pipeline", task="token-classification", options=', aggregation_strategy="simple"', example=_CONTEXT
)
show_answering = _make(
    "predict",
    "auto_model",
    model_class="AutoModelForQuestionAnswering",
    example=f"{_QUESTION}, {_CONTEXT}",
    our_example=f"({_QUESTION}, {_CONTEXT})",
)


def show_classification(model_class: str, problem: str | None, *, has_pairs: bool) -> dict[str, str]:
    """Return code for a classifier of texts or pairs."""
    del model_class
    options = {"multi_label": ", top_k=None", "regression": ', function_to_apply="none"'}.get(problem, "")
    theirs = f'{{"text": {_TEXT}, "text_pair": {_PAIR}}}' if has_pairs else _TEXT
    return {
        "bert_keras": _fill("predict", example=f"({_TEXT}, {_PAIR})" if has_pairs else _TEXT),
        "transformers": _fill("pipeline", task="text-classification", options=options, example=theirs),
    }


@dataclasses.dataclass(frozen=True)
class MeasuredScores:
    """Scores of a model, for its card.

    Attributes:
        scores: the scores, keyed by our names.
        dataset: the name of the examples, for people, such as "120 examples of reviews.csv".
    """

    scores: Mapping[str, float]
    dataset: str


@dataclasses.dataclass(frozen=True)
class CardFacts:
    """Facts about a model for its card.

    Attributes:
        kind: the class of the model.
        config: the config of its encoder.
        num_parameters: its number of parameters.
        labels: its labels.
        problem: the problem of a classifier.
        has_pairs: whether a classifier takes pairs of texts.
        lowercase: whether its tokenizer folds case; None: it has no tokenizer.
        pooling: how an embedder pools the vectors of the tokens.
        normalize: whether its vectors have the length 1.
    """

    kind: str
    config: BertConfig
    num_parameters: int
    labels: Sequence[str] = ()
    problem: str | None = None
    has_pairs: bool = False
    lowercase: bool | None = None
    pooling: str | Sequence[str] | None = None
    normalize: bool = False

    @classmethod
    def of_checkpoint(cls, checkpoint: Checkpoint) -> CardFacts:
        """Return the facts of a checkpoint, without building its model."""
        settings, tokenizer = checkpoint.settings, checkpoint.tokenizer_settings
        return cls(
            checkpoint.model,
            checkpoint.config,
            sum(math.prod(weight.shape) for weight in checkpoint.weights.values()),
            settings.get("labels") or (),
            settings.get("problem"),
            bool((checkpoint.task or {}).get("has_pairs")),
            None if tokenizer is None else tokenizer.get("lowercase", True),
            settings.get("pooling"),
            bool(settings.get("normalize")),
        )


def build_model_card(
    model: BertModel,
    tokenizer: BertTokenizer | None = None,
    *,
    history: str | None = None,
    measured: MeasuredScores | None = None,
    start: object = None,
    has_pairs: bool = False,
) -> str:
    """Return a model card in Markdown, with metadata for the Hub: what the model is, its training, how to load it.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        history: paragraphs about its training.
        measured: its scores, for the metadata.
        start: the model that the training started from. The card names it as `base_model` if it is on the Hub.
        has_pairs: whether a classifier takes pairs of texts.
    """
    from bert_keras.checkpoints.building import get_model_name, get_stored_config

    facts = CardFacts(
        get_model_name(model),
        get_stored_config(model),
        model.count_params(),
        getattr(model, "labels", None) or (),
        getattr(model, "problem", None),
        has_pairs,
        None if tokenizer is None else tokenizer.lowercase,
    )
    name = getattr(start, "hub_name", start)
    base_model = parse_hub_name(name).repository if is_hub_name(name) else None
    return format_card(facts, history=history, measured=measured, base_model=base_model)


def format_card(
    facts: CardFacts,
    *,
    history: str | None = None,
    measured: MeasuredScores | None = None,
    base_model: str | None = None,
) -> str:
    """Return the card of a model; see `build_model_card`. `base_model` is a model on the Hub, "ORG/NAME"."""
    metadata = build_metadata(facts.kind, facts.config.model_type, measured=measured, base_model=base_model)
    config, head = facts.config, get_head(facts.kind)
    size = (
        f"{format_count(config.num_layers, 'layer')}, hidden size {config.hidden_dim}, "
        f"{format_count(config.num_heads, 'head')}, a vocabulary of "
        f"{config.vocabulary_size:,} tokens, sequences of up to {config.max_sequence_length} tokens: "
        f"{facts.num_parameters:,} parameters."
    )
    lines = [format_metadata(metadata), "", f"# {facts.kind}", "", f"{head.use} {size}"]
    if facts.lowercase is not None:
        lines += ["", f"The tokenizer is {'uncased' if facts.lowercase else 'cased'}."]
    if facts.labels:
        rest = f" and {len(facts.labels) - _MAX_LABELS:,} more" if len(facts.labels) > _MAX_LABELS else ""
        lines += ["", "Labels: " + ", ".join(facts.labels[:_MAX_LABELS]) + rest + "."]
    # what a user should know before using the model; only what follows from how such models work
    longer = "are read in overlapping windows by bert_keras" if head.reads_windows else "are cut"
    limits = (
        f"Texts of more than {config.max_sequence_length} tokens {longer}. The model repeats what its training texts "
        "contain, including errors and prejudice, and works less well for other languages, subjects and kinds of text. "
        "Measure it on texts of your own before you use it, and do not let it decide about people on its own."
    )
    lines += ["", "## Limits", "", limits]
    if history:
        lines += ["", history]
    ending = get_architecture(config.model_type).endings.get(facts.kind)
    model_class = "AutoModel" if ending is None else f"AutoModel{ending}"
    lines += ["", "## How to load it"]
    for library, code in head.load("snippets")(model_class, facts.problem, has_pairs=facts.has_pairs).items():
        lines += ["", f"With {library}:", "", f"```python\n{code}```"]
    lines += ["", f"Written by bert-keras {__version__}.", ""]
    return "\n".join(lines)


def build_metadata(
    kind: str, model_type: str, *, measured: MeasuredScores | None = None, base_model: str | None = None
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
    tags = [model_type, "bert-keras", "keras"]
    tags += ["sentence-transformers", "feature-extraction"] if head.has_modules else []
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
    plain = yaml.safe_dump(dict(metadata), sort_keys=False, allow_unicode=True, width=math.inf)
    if any(character in plain for character in _LINE_ENDS):
        plain = yaml.safe_dump(dict(metadata), sort_keys=False, width=math.inf)
    return f"---\n{plain}---"
