"""The sections of a page with the predictions of the model."""

from collections.abc import Iterator, Sequence

from bert_keras.analysis.inspection.head_outputs import PredictedItem, Prediction
from bert_keras.analysis.inspection.masked_predictions import MAX_WORDS, MaskedPrediction
from bert_keras.analysis.inspection.page.html_page import escape, render_section

_AT_MASKS = (
    "The most probable tokens at each [MASK]: softmax of the masked-LM head over the whole vocabulary. Several masks "
    "are predicted independently."
)
_AT_WORDS = (
    f"Each of the first {MAX_WORDS} words is masked in turn, with all its tokens. The probability is that of the "
    "original token. To choose the positions yourself, write [MASK] in the text."
)


def render_prediction(prediction: Prediction, texts: Sequence[str]) -> str:
    """Render the prediction of the head: the texts with marked ranges, and a table."""
    header = f'<th class="word">prediction</th><th>{prediction.measure}</th><th></th><th class="word">characters</th>'
    rows = "".join(_render_item(item, prediction.measure, texts) for item in prediction.items)
    content = "".join(_render_texts(prediction, texts)) + render_table(header, rows, "Model prediction")
    return render_section("prediction", "Model prediction", escape(prediction.description), content)


def render_masked_predictions(predictions: Sequence[MaskedPrediction]) -> str:
    """Render the predictions of the masked-LM head as a table, one masked token per row."""
    is_at_masks = predictions[0].probability is None
    header = '<th class="word">mask</th>' if is_at_masks else '<th class="word">masked token</th><th>probability</th>'
    rows = "".join(map(_render_masked_prediction, predictions))
    table = render_table(f'{header}<th class="word">predictions</th>', rows, "Masked-token predictions")
    sentences = _AT_MASKS if is_at_masks else _AT_WORDS
    return render_section("masked-predictions", "Masked-token predictions", sentences, table)


def render_table(header: str, rows: str, label: str, name: str = "") -> str:
    """Render a table in a box that scrolls.

    Args:
        header: cells of the header, HTML.
        rows: rows of the body, HTML.
        label: name for screen readers.
        name: id of the table.
    """
    attribute = f' id="{name}"' if name else ""
    return (
        f'<div class="scroll tall" tabindex="0" role="region" aria-label="{label}">'
        f"<table{attribute}><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def mark_items(text: str, items: Sequence[PredictedItem]) -> str:
    """Mark the ranges of items in a text, with their labels, as HTML; of two ranges that overlap only the first."""
    parts, end = [], 0
    for item in sorted(items, key=lambda item: item.start):
        if item.start < end:
            continue
        inside = text[item.start : item.end]
        label = "" if item.label == inside else f"<sup>{escape(item.label)}</sup>"
        parts += [escape(text[end : item.start]), f"<mark>{escape(inside)}{label}</mark>"]
        end = item.end
    return "".join([*parts, escape(text[end:])])


def _render_texts(prediction: Prediction, texts: Sequence[str]) -> Iterator[str]:
    """Yield the texts with predicted ranges."""
    for index, text in enumerate(texts):
        if items := [item for item in prediction.items if item.text == index and item.is_predicted]:
            yield f'<blockquote dir="auto">{mark_items(text, items)}</blockquote>'


def _render_bar(share: float) -> str:
    """Render a share from 0 to 1 as a bar."""
    return (
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="all" width="100" height="8"/><rect class="part" width="{100 * share:.1f}" height="8"/></svg>'
    )


def _render_item(item: PredictedItem, measure: str, texts: Sequence[str]) -> str:
    label = f"<strong>{escape(item.label)}</strong>" if item.is_predicted else escape(item.label)
    value = "" if item.value is None else f"{item.value:.4f}"
    bar = _render_bar(item.value) if measure == "probability" and item.value is not None else ""
    characters = ""
    if item.start is not None:
        words = escape(texts[item.text][item.start : item.end])
        characters = f'<bdi>{words}</bdi> <span class="range">{item.start}&ndash;{item.end}</span>'
    cells = f'<td class="word wide" dir="auto">{label}</td><td>{value}</td><td>{bar}</td>'
    return f'<tr>{cells}<td class="word wide">{characters}</td></tr>'


def _render_masked_prediction(prediction: MaskedPrediction) -> str:
    proposals = "".join(
        f'<li><bdi class="token">{escape(token)}</bdi> <small>{probability:.2%}</small></li>'
        for token, probability in prediction.proposals
    )
    token = f'<bdi class="token">{escape(prediction.token)}</bdi> <span class="range">{prediction.position}</span>'
    probability = ""
    if prediction.probability is not None:
        probability = f"<td>{prediction.probability:.2%} {_render_bar(prediction.probability)}</td>"
    row = f'<td class="word">{token}</td>{probability}'
    return f'<tr>{row}<td class="word wide"><ul class="proposals">{proposals}</ul></td></tr>'
