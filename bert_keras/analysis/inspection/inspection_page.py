"""The page of an inspection: sentences and tables are HTML, charts are drawn by the page's script from its data."""

import base64
import typing
from collections.abc import Sequence

import numpy as np

from bert_keras.analysis.inspection import html_page, summaries
from bert_keras.analysis.inspection.forward_pass import ForwardPass, count_scores
from bert_keras.analysis.inspection.head_outputs import MAX_WORDS, MaskedPrediction, PredictedItem, Prediction
from bert_keras.analysis.inspection.html_page import escape
from bert_keras.figures import FigureSection, render_figure, to_data_uri

if typing.TYPE_CHECKING:
    from bert_keras.analysis.inspection.inspecting import Inspection

MAX_MAP_BYTES = 8_000_000  # of all attention maps; base64 makes the page a third larger
MAX_ROUNDING_ERROR = "0.00001"  # of a probability p that is stored as round(65535 p); measured: 0.0000077
_BYTES_PER_PROBABILITY = 2
_PER_LAYER = ("raw_spread", "scaled_spread", "raw_peak", "scaled_peak")  # of histograms of scores
_SCRIPTS = ("page_tools.js", "page_charts.js", "page_attention.js", "page_sections.js")
_DIGITS = {"distance": 2, "entropy": 2, "cls": 3, "sep": 3, "itself": 3, "previous": 3, "next": 3, "near": 3}
_NOTE = "\n<code>bk.inspect</code> returns the exact arrays."
_TRUNCATION = (
    " To limit the size of the page, the maps show the first {num_shown:,} of {length:,} tokens; statistics of heads "
    "include all tokens."
)
_NO_POSITIONS = "This model has no learned position embeddings; it uses"
_AT_MASKS = (
    "The most probable tokens at each [MASK]: softmax of the masked-LM head over the whole vocabulary. Several masks "
    "are predicted independently."
)
_AT_WORDS = (
    f"Each of the first {MAX_WORDS} words is masked in turn, with all its tokens. The probability is that of the "
    "original token. To choose the positions yourself, write [MASK] in the text."
)


def render_inspection(inspection: "Inspection", sections: Sequence[FigureSection] = ()) -> str:
    """Render the page of an inspection, with more figures at its end."""
    config, texts = inspection.config, inspection.forward_pass.sequence.texts
    predictions = render_prediction(inspection.prediction, texts) if inspection.prediction else ""
    if inspection.masked_predictions:
        predictions += render_masked_predictions(inspection.masked_predictions)
    num_shown, length = count_shown_tokens(inspection.attention.shape), len(inspection.tokens)
    truncation = "" if num_shown == length else _TRUNCATION.format(num_shown=num_shown, length=length)
    has_learned = "learned" in inspection.positions
    difference, place = summaries.measure_gelu_difference()
    figures = ""
    for name, heading, sentence, figure in sections:
        image = html_page.render_image(escape(heading), to_data_uri(render_figure(figure, "svg"), "svg"))
        figures += html_page.render_section(escape(name), escape(heading), escape(sentence), image)
    main = html_page.fill_template(
        "inspection.html",
        predictions=predictions,
        rounding_error=MAX_ROUNDING_ERROR,
        truncation=truncation,
        near_tokens=summaries.NEAR_TOKENS,
        heads=_render_heads(inspection.heads),
        head_dim=config.head_dim,
        positions="Learned position embeddings compared with" if has_learned else _NO_POSITIONS,
        max_length=f"{config.max_sequence_length:,}",
        embedding_dim=f"{config.embedding_dim:,}",
        num_positions=min(summaries.MAX_POSITIONS, config.max_sequence_length),
        gelu_difference=f"{difference:.2e}",
        gelu_place=f"{place:.2f}",
        hidden_act=config.hidden_act,
        figures=figures,
    )
    facts = {
        "model": inspection.kind,
        "parameters": f"{inspection.num_parameters:,}",
        "layers": config.num_layers,
        "heads per layer": f"{config.num_heads}, H = {config.head_dim}",
        "hidden size D": config.hidden_dim,
        "tokens S": f"{length} (maximum {config.max_sequence_length:,})",
        "positions": config.position_type,
        "activation": config.hidden_act,
        "pooler": "yes" if inspection.has_pooler else "no",
    }
    title, data = f"Inspection of {inspection.name}", make_page_data(inspection)
    return html_page.render_page(title, main, data, _SCRIPTS, command="inspect", facts=facts, texts=texts, note=_NOTE)


def _render_heads(heads: Sequence[summaries.HeadSummary]) -> str:
    columns = "".join(f"<th>{summaries.HEADINGS.get(name, name)}</th>" for name in _DIGITS)
    header, rows = f'<th>layer</th><th>head</th><th class="word">kind</th>{columns}', ""
    for head in heads:
        numbers = "".join(f"<td>{getattr(head, name):.{digits}f}</td>" for name, digits in _DIGITS.items())
        place = f'<td>{head.layer}</td><td>{head.head}</td><td class="word">{escape(head.kind)}</td>'
        rows += f"<tr>{place}{numbers}</tr>"
    return html_page.render_table(header, rows, "Attention heads", "head-table")


def render_prediction(prediction: Prediction, texts: Sequence[str]) -> str:
    """Render the prediction of the head: the texts with marked ranges, and a table."""
    header = f'<th class="word">prediction</th><th>{prediction.measure}</th><th></th><th class="word">characters</th>'
    rows = "".join(_render_item(item, prediction.measure, texts) for item in prediction.items)
    content = ""
    for index, text in enumerate(texts):
        if items := [item for item in prediction.items if item.text == index and item.is_predicted]:
            content += f'<blockquote dir="auto">{mark_items(text, items)}</blockquote>'
    content += html_page.render_table(header, rows, "Model prediction")
    return html_page.render_section("prediction", "Model prediction", escape(prediction.description), content)


def render_masked_predictions(predictions: Sequence[MaskedPrediction]) -> str:
    """Render the predictions of the masked-LM head as a table, one masked token per row."""
    is_at_masks = predictions[0].probability is None
    header = '<th class="word">mask</th>' if is_at_masks else '<th class="word">masked token</th><th>probability</th>'
    rows = "".join(map(_render_masked_prediction, predictions))
    table = html_page.render_table(f'{header}<th class="word">predictions</th>', rows, "Masked-token predictions")
    sentences = _AT_MASKS if is_at_masks else _AT_WORDS
    return html_page.render_section("masked-predictions", "Masked-token predictions", sentences, table)


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


def make_page_data(inspection: "Inspection") -> dict:
    """Return all data for the script of an inspection page."""
    num_shown = count_shown_tokens(inspection.attention.shape)
    return {
        "num_layers": inspection.config.num_layers,
        "num_heads": inspection.config.num_heads,
        "length": len(inspection.tokens),
        "tokens": list(inspection.tokens),
        "segments": inspection.forward_pass.sequence.segment_ids.tolist(),
        "heads": [
            {name: round(value, 4) if isinstance(value, float) else value for name, value in vars(head).items()}
            for head in inspection.heads
        ],
        "attention": {
            "shown": num_shown,
            "maps": encode_probabilities(inspection.attention[:, :, :num_shown, :num_shown]),
            "layer": inspection.layer or 0,
            "head": inspection.head or 0,
        },
        "scores": _make_scores(inspection.forward_pass),
        "similarity": _make_similarity(inspection.similarity, num_shown),
        "positions": _make_positions(inspection.positions),
        "activations": _make_activations(inspection.config.hidden_act),
    }


def count_shown_tokens(shape: tuple[int, ...]) -> int:
    """Return the number of tokens in the maps of a page: all, or as many as fit into 8 MB.

    Args:
        shape: shape of the attention, `(L, N, S, S)`.

    Example:
        >>> count_shown_tokens((12, 12, 128, 128)), count_shown_tokens((24, 16, 512, 512))
        (128, 102)
    """
    num_layers, num_heads, length, _ = shape
    return min(length, int((MAX_MAP_BYTES / (_BYTES_PER_PROBABILITY * num_layers * num_heads)) ** 0.5))


def encode_probabilities(probabilities: np.ndarray) -> str:
    """Encode probabilities as little-endian uint16, 0 to 65535, in base64."""
    return _encode(np.rint(65535.0 * np.clip(probabilities, 0, 1)).astype("<u2"))


def encode_cosines(cosines: np.ndarray) -> str:
    """Encode cosines from -1 to 1 as uint8, 0 to 255, in base64."""
    return _encode(np.rint(127.5 * (np.clip(cosines, -1, 1) + 1)).astype(np.uint8))


def _encode(values: np.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode()


def _to_list(values: np.ndarray, digits: int = 4) -> list:
    return np.round(np.asarray(values, np.float64), digits).tolist()


def _make_scores(forward_pass: ForwardPass) -> dict:
    histograms = count_scores(forward_pass)
    columns = {name: _to_list(getattr(histograms, name)) for name in _PER_LAYER} | {
        "counts": histograms.counts.tolist()
    }
    return {
        "edges": _to_list(histograms.raw_edges, 5),
        "factor": float(histograms.scaled_edges[-1] / histograms.raw_edges[-1]),
        "layers": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
    }


def _make_similarity(similarity: summaries.Similarity, num_shown: int) -> dict:
    return {
        "to_previous": _to_list(similarity.to_previous[:, :num_shown]),
        "between": encode_cosines(similarity.between_tokens[:, :num_shown, :num_shown]),
        "means": {
            "to_previous": _to_list(similarity.to_previous.mean(1)),
            "to_embeddings": _to_list(similarity.to_embeddings.mean(1)),
            "anisotropy": _to_list(similarity.anisotropy),
        },
    }


def _make_positions(positions: dict[str, np.ndarray]) -> dict:
    tables = []
    for name, table in positions.items():
        cosines = summaries.compute_position_similarity(table)
        shown = cosines[: summaries.MAX_POSITIONS, : summaries.MAX_POSITIONS]
        distances = _to_list(summaries.average_by_distance(cosines), 3)
        tables.append({"name": name, "cosines": encode_cosines(shown), "by_distance": distances})
    return {"shown": len(shown), "tables": tables}


def _make_activations(hidden_act: str) -> dict:
    curves = summaries.compute_activations()
    x = curves.pop("x")
    names = {name: f"{name} (this model)" if name == hidden_act else name for name in curves}
    return {
        "x": _to_list(x),
        "curves": [{"name": names[name], "values": _to_list(values)} for name, values in curves.items()],
        "difference": _to_list(curves["gelu"] - curves["gelu_tanh"], 7),
    }
