"""The page of an inspection: sentences and tables are HTML, charts are drawn by the page's script."""

import re
import typing
from collections.abc import Sequence

from bert_keras.analysis.inspection.head_summaries import HEADINGS, NEAR_TOKENS, HeadSummary
from bert_keras.analysis.inspection.page.html_page import (
    escape,
    render_header,
    render_html,
    render_image,
    render_section,
)
from bert_keras.analysis.inspection.page.page_data import MAX_ROUNDING_ERROR, count_shown_tokens, make_page_data
from bert_keras.analysis.inspection.page.prediction_sections import (
    render_masked_predictions,
    render_prediction,
    render_table,
)
from bert_keras.analysis.inspection.vectors_and_curves import MAX_POSITIONS, measure_gelu_difference
from bert_keras.config import BertConfig
from bert_keras.figures import FigureSection, render_figure, to_data_uri

if typing.TYPE_CHECKING:
    from bert_keras.analysis.inspection.inspecting import Inspection

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
    header = f'<th>layer</th><th>head</th><th class="word">kind</th>{columns}'
    return render_table(header, "".join(map(_render_head, heads)), "Attention heads", "head-table")


def _render_head(head: HeadSummary) -> str:
    numbers = "".join(f"<td>{getattr(head, name):.{digits}f}</td>" for name, digits in _DIGITS.items())
    return f'<tr><td>{head.layer}</td><td>{head.head}</td><td class="word">{escape(head.kind)}</td>{numbers}</tr>'


def _render_figure(section: FigureSection) -> str:
    title = escape(section.title)
    image = render_image(title, to_data_uri(render_figure(section.figure, "svg"), "svg"))
    return render_section(escape(section.name), title, escape(section.sentence), image)
