"""The text of a model card, from the facts about a model. No Keras here, so that `push` can write one at once."""

import dataclasses
import math
from collections.abc import Sequence

from bert_keras import __version__
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.huggingface.card_metadata import MeasuredScores, build_metadata, format_metadata
from bert_keras.checkpoints.huggingface.card_snippets import write_snippets
from bert_keras.checks import format_count
from bert_keras.config import BertConfig
from bert_keras.heads.known_heads import get_head
from bert_keras.hub.names import is_hub_name, parse_hub_name

_MAX_LABELS = 100  # that a card lists


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
    def of_checkpoint(cls, checkpoint: Checkpoint) -> "CardFacts":
        """Return the facts of a checkpoint, without building its model."""
        weights = checkpoint.weights.values()
        settings, tokenizer = checkpoint.settings, checkpoint.tokenizer_settings
        return cls(
            checkpoint.model,
            checkpoint.config,
            sum(math.prod(weight.shape) for weight in weights),
            settings.get("labels") or (),
            settings.get("problem"),
            bool((checkpoint.task or {}).get("has_pairs")),
            None if tokenizer is None else tokenizer.get("lowercase", True),
            settings.get("pooling"),
            bool(settings.get("normalize")),
        )


def find_base_model(start: object) -> str | None:
    """Return the repository of the model that a training started from, None if it is not on the Hub."""
    name = getattr(start, "hub_name", start)
    return parse_hub_name(name).repository if is_hub_name(name) else None


def format_card(
    facts: CardFacts,
    *,
    history: str | None = None,
    measured: MeasuredScores | None = None,
    base_model: str | None = None,
) -> str:
    """Return the card of a model; see `model_card.build_model_card`."""
    metadata = build_metadata(facts.kind, facts.config.model_type, measured=measured, base_model=base_model)
    config = facts.config
    size = (
        f"{format_count(config.num_layers, 'layer')}, hidden size {config.hidden_dim}, "
        f"{format_count(config.num_heads, 'head')}, a vocabulary of "
        f"{config.vocabulary_size:,} tokens, sequences of up to {config.max_sequence_length} tokens: "
        f"{facts.num_parameters:,} parameters."
    )
    lines = [format_metadata(metadata), "", f"# {facts.kind}", "", f"{get_head(facts.kind).use} {size}"]
    if facts.lowercase is not None:
        lines += ["", f"The tokenizer is {'uncased' if facts.lowercase else 'cased'}."]
    if facts.labels:
        rest = f" and {len(facts.labels) - _MAX_LABELS:,} more" if len(facts.labels) > _MAX_LABELS else ""
        lines += ["", "Labels: " + ", ".join(facts.labels[:_MAX_LABELS]) + rest + "."]
    lines += ["", "## Limits", "", _write_limits(facts)]
    if history:
        lines += ["", history]
    snippets = write_snippets(facts.kind, facts.config.model_type, problem=facts.problem, has_pairs=facts.has_pairs)
    lines += ["", "## How to load it", "", snippets]
    lines += ["", f"Written by bert-keras {__version__}.", ""]
    return "\n".join(lines)


def _write_limits(facts: CardFacts) -> str:
    """Write what a user should know before using the model; only what follows from how such models work."""
    length = facts.config.max_sequence_length
    longer = "are read in overlapping windows by bert_keras" if get_head(facts.kind).reads_windows else "are cut"
    return (
        f"Texts of more than {length} tokens {longer}. The model repeats what its training texts contain, including "
        "errors and prejudice, and works less well for other languages, subjects and kinds of text. Measure it on "
        "texts of your own before you use it, and do not let it decide about people on its own."
    )
