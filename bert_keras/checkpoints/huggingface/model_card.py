"""The model card: `README.md` of a checkpoint folder."""

from bert_keras.checkpoints.building import get_model_name, get_stored_config
from bert_keras.checkpoints.huggingface.card_metadata import MeasuredScores
from bert_keras.checkpoints.huggingface.card_text import CardFacts, find_base_model, format_card
from bert_keras.modeling.base import BertModel
from bert_keras.pipelines.text.tokenizer import BertTokenizer


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
    facts = CardFacts(
        get_model_name(model),
        get_stored_config(model),
        model.count_params(),
        getattr(model, "labels", None) or (),
        getattr(model, "problem", None),
        has_pairs,
        None if tokenizer is None else tokenizer.lowercase,
    )
    return format_card(facts, history=history, measured=measured, base_model=find_base_model(start))
