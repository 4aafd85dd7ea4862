"""The page of an inspection: sentences and tables are HTML, charts are drawn by the page's script from its data."""

import base64
import re
import typing
from collections.abc import Iterator, Sequence

import numpy as np

from bert_keras.analysis.inspection.forward_pass import ForwardPass, count_scores
from bert_keras.analysis.inspection.head_outputs import MAX_WORDS, MaskedPrediction, PredictedItem, Prediction
from bert_keras.analysis.inspection.html_page import escape, render_header, render_html, render_image, render_section
from bert_keras.analysis.inspection.summaries import (
    HEADINGS,
    MAX_POSITIONS,
    NEAR_TOKENS,
    HeadSummary,
    Similarity,
    average_by_distance,
    compute_activations,
    compute_position_similarity,
    measure_gelu_difference,
)
from bert_keras.config import BertConfig
from bert_keras.figures import FigureSection, render_figure, to_data_uri

if typing.TYPE_CHECKING:
    from bert_keras.analysis.inspection.inspecting import Inspection

MAX_MAP_BYTES = 8_000_000  # of all attention maps; base64 makes the page a third larger
MAX_ROUNDING_ERROR = "0.00001"  # of a probability p that is stored as round(65535 p); measured: 0.0000077
_BYTES_PER_PROBABILITY = 2
_SCRIPTS = ("page_tools.js", "page_charts.js", "page_attention.js", "page_sections.js")
_DIGITS = {"distance": 2, "entropy": 2, "cls": 3, "sep": 3, "itself": 3, "previous": 3, "next": 3, "near": 3}
_ATTENTION_ELEMENTS = """<div class="controls" id="head-controls"></div>
<div class="attention"><div><div id="head-grid"></div>
<h3>Attention of one token</h3><div id="token-strip"></div></div>
<div id="attention-map"></div></div>"""
_FOOTER = """<footer><p>Made by <code>bert-keras inspect</code>. It loads no external resources.
<code>bk.inspect</code> returns the exact arrays.</p></footer>"""

_ATTENTION = (
    "Attention probabilities softmax(Q K<sup>T</sup> / &radic;H), one (S, S) matrix per head. Rows are queries, "
    "columns are keys; each row sums to 1. Select a head in the grid, then point at a token. Layers and heads are "
    "counted from 0. Colors show the square root of the probability. Probabilities on this page are rounded to within "
    f"{MAX_ROUNDING_ERROR}."
)
_HEADS = (
    "Averages over all queries. Distance: number of tokens between query and key, weighted by attention. Entropy in "
    "bits: 0 = a single key, log<sub>2</sub> S = uniform. The other columns are shares of attention, which overlap; "
    f"near: within {NEAR_TOKENS} tokens. The kind of a head is the key that receives at least half of its attention: "
    "[CLS], [SEP], the query <em>itself</em>, the <em>previous</em> or the <em>next</em> token. Otherwise the head is "
    "<em>broad</em> if 2<sup>entropy</sup> &ge; S / 2, <em>local</em> if at least half of the attention is near, "
    "and <em>mixed</em> in all other cases. Statistics follow Clark et al. (2019), &ldquo;What Does BERT Look "
    "At?&rdquo;."
)
_VECTORS = (
    "Cosine similarity between token vectors. State 0 is the embeddings, the input of layer 0; the following states "
    "are the outputs of the layers, (S, D) each. If two different tokens are similar on average, all vectors share a "
    "common direction (Ethayarajh 2019)."
)
_AT_MASKS = (
    "The most probable tokens at each [MASK]: softmax of the masked-LM head over the whole vocabulary. Several masks "
    "are predicted independently."
)
_AT_WORDS = (
    f"Each of the first {MAX_WORDS} words is masked in turn, with all its tokens. The probability is that of the "
    "original token. To choose the positions yourself, write [MASK] in the text."
)


def render_page(inspection: "Inspection", sections: Sequence[FigureSection] = ()) -> str:
    """Render the page of an inspection, with more figures at its end."""
    config, texts = inspection.config, inspection.forward_pass.sequence.texts
    is_learned = "learned" in inspection.positions
    parts = [
        render_prediction(inspection.prediction, texts) if inspection.prediction else "",
        render_masked_predictions(inspection.masked_predictions) if inspection.masked_predictions else "",
        render_section("attention", "Attention", _ATTENTION + _describe_truncation(inspection), _ATTENTION_ELEMENTS),
        render_section("heads", "Attention heads", _HEADS, _render_heads(inspection.heads)),
        _render_charts("scores", "Attention scores before and after scaling", _describe_scores(config)),
        _render_charts("vectors", "Token similarity across layers", _VECTORS),
        _render_charts("positions", "Position embeddings", _describe_positions(config, is_learned=is_learned)),
        _render_charts("activations", "Activation functions", _describe_activations(config)),
        *map(_render_figure, sections),
    ]
    main = "".join(parts)
    links = re.findall(r'<section id="([^"]*)"><h2>(.*?)</h2>', main)
    title = f"Inspection of {inspection.name}"
    body = f"{render_header(title, _list_facts(inspection), texts, links)}<main>{main}</main>\n{_FOOTER}"
    return render_html(title, body, make_page_data(inspection), _SCRIPTS)


def _list_facts(inspection: "Inspection") -> dict[str, object]:
    config = inspection.config
    return {
        "model": inspection.kind,
        "parameters": f"{inspection.num_parameters:,}",
        "layers": config.num_layers,
        "heads per layer": f"{config.num_heads}, H = {config.head_dim}",
        "hidden size D": config.hidden_dim,
        "tokens S": f"{len(inspection.tokens)} (maximum {config.max_sequence_length:,})",
        "positions": config.position_type,
        "activation": config.hidden_act,
        "pooler": "yes" if inspection.has_pooler else "no",
    }


def _describe_truncation(inspection: "Inspection") -> str:
    """Describe which tokens the maps show, if they do not show all."""
    num_shown, length = count_shown_tokens(inspection.attention.shape), len(inspection.tokens)
    if num_shown == length:
        return ""
    return (
        f" To limit the size of the page, the maps show the first {num_shown:,} of {length:,} tokens; statistics of "
        "heads include all tokens."
    )


def _describe_scores(config: BertConfig) -> str:
    return (
        "Distribution of the scores Q K<sup>T</sup> over all heads, before and after division by &radic;H = "
        f"&radic;{config.head_dim} (Vaswani et al. 2017, 3.2.1). Without scaling the scores grow with H, and the "
        "softmax assigns almost all probability to a single key."
    )


def _describe_positions(config: BertConfig, *, is_learned: bool) -> str:
    shape = f"({config.max_sequence_length:,}, {config.embedding_dim:,})"
    sinusoidal = f"sinusoidal embeddings of Vaswani et al. (2017), 3.5, {shape}"
    subject = f"Learned position embeddings compared with the {sinusoidal}."
    if not is_learned:
        subject = f"This model has no learned position embeddings; it uses the {sinusoidal}."
    return (
        f"{subject} Maps: cosines between the first {min(MAX_POSITIONS, config.max_sequence_length)} positions. "
        "Curves: averages over all positions."
    )


def _describe_activations(config: BertConfig) -> str:
    largest, place = measure_gelu_difference()
    return (
        "gelu = x &Phi;(x), with erf; gelu_tanh = 0.5 x (1 + tanh(&radic;(2/&pi;) (x + 0.044715 x<sup>3</sup>))), as "
        f"in Google&rsquo;s code; relu = max(0, x). The two GELUs differ by at most {largest:.2e}, at x = {place:.2f}, "
        f"measured in float32 from -8 to 8. This model uses {config.hidden_act}."
    )


def _render_charts(name: str, title: str, sentences: str) -> str:
    """Render a section whose charts the script draws."""
    return render_section(name, title, sentences, f'<div id="{name}-charts"></div>')


def _render_heads(heads: Sequence[HeadSummary]) -> str:
    columns = "".join(f"<th>{HEADINGS.get(name, name)}</th>" for name in _DIGITS)
    header, rows = f'<th>layer</th><th>head</th><th class="word">kind</th>{columns}', ""
    for head in heads:
        numbers = "".join(f"<td>{getattr(head, name):.{digits}f}</td>" for name, digits in _DIGITS.items())
        place = f'<td>{head.layer}</td><td>{head.head}</td><td class="word">{escape(head.kind)}</td>'
        rows += f"<tr>{place}{numbers}</tr>"
    return render_table(header, rows, "Attention heads", "head-table")


def _render_figure(section: FigureSection) -> str:
    title = escape(section.title)
    image = render_image(title, to_data_uri(render_figure(section.figure, "svg"), "svg"))
    return render_section(escape(section.name), title, escape(section.sentence), image)


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
    names = ("raw_spread", "scaled_spread", "raw_peak", "scaled_peak")
    layers = [
        {
            "counts": histograms.counts[layer].tolist(),
            **{name: round(float(getattr(histograms, name)[layer]), 4) for name in names},
        }
        for layer in range(len(histograms.counts))
    ]
    return {
        "edges": _to_list(histograms.raw_edges, 5),
        "factor": float(histograms.scaled_edges[-1] / histograms.raw_edges[-1]),
        "layers": layers,
    }


def _make_similarity(similarity: Similarity, num_shown: int) -> dict:
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
        cosines = compute_position_similarity(table)
        shown = cosines[:MAX_POSITIONS, :MAX_POSITIONS]
        distances = _to_list(average_by_distance(cosines), 3)
        tables.append({"name": name, "cosines": encode_cosines(shown), "by_distance": distances})
    return {"shown": len(shown), "tables": tables}


def _make_activations(hidden_act: str) -> dict:
    curves = compute_activations()
    x = curves.pop("x")
    names = {name: f"{name} (this model)" if name == hidden_act else name for name in curves}
    return {
        "x": _to_list(x),
        "curves": [{"name": names[name], "values": _to_list(values)} for name, values in curves.items()],
        "difference": _to_list(curves["gelu"] - curves["gelu_tanh"], 7),
    }
