"""The page of an inspection: what is read stands in it as HTML, what is looked at is drawn by its script."""

import re
from collections.abc import Sequence

from bert_keras.analysis.inspection.curves import gelu_difference
from bert_keras.analysis.inspection.head_summaries import HeadSummary
from bert_keras.analysis.inspection.page import page_text
from bert_keras.analysis.inspection.page.html_page import escaped, header, page_of, section
from bert_keras.analysis.inspection.page.page_answers import answer_section, guesses_section, table
from bert_keras.analysis.inspection.page.page_data import num_shown, page_data
from bert_keras.figures import FigureSection, render_figure, to_data_uri

_SCRIPTS = ("page_tools.js", "page_charts.js", "page_attention.js", "page_sections.js")
_NUMBERS = {"distance": 2, "entropy": 2, "cls": 3, "sep": 3, "itself": 3, "previous": 3, "next": 3, "near": 3}
_HEADINGS = {"cls": "[CLS]", "sep": "[SEP]"}
_ATTENTION = """<div class="controls" id="head-controls"></div>
<div class="attention"><div><div id="head-grid"></div>
<h3>The text, seen by this head</h3><div id="token-strip"></div></div>
<div id="attention-map"></div></div>"""
_FOOT = """<footer><p>Made by <code>bert-keras inspect</code>. The page fetches nothing; the exact arrays are those of
<code>bk.inspect</code>.</p></footer>"""


def page(inspection, sections: Sequence[FigureSection] = ()) -> str:
    """Returns the whole page of an `Inspection`, with more pictures at its end."""
    config, texts = inspection.config, inspection.look.row.texts
    parts = [
        answer_section(inspection.answer, texts) if inspection.answer else "",
        guesses_section(inspection.guesses) if inspection.guesses else "",
        section("attention", "Attention", page_text.ATTENTION + _cut(inspection), _ATTENTION),
        section("heads", "What each head does", page_text.HEADS, _head_table(inspection.heads)),
        _drawn("scores", "Scores before and after scaling", page_text.scores(config)),
        _drawn("vectors", "Token similarity between layers", page_text.VECTORS),
        _drawn("positions", "Positions", page_text.positions(config, is_learned="learned" in inspection.positions)),
        _drawn("activations", "GELU beside ReLU", page_text.activations(config, *gelu_difference())),
        *map(_picture, sections),
    ]
    main = "".join(parts)
    links = re.findall(r'<section id="([^"]*)"><h2>(.*?)</h2>', main)
    title = f"Inside {inspection.name}"
    body = f"{header(title, _facts(inspection), texts, links)}<main>{main}</main>\n{_FOOT}"
    return page_of(title, body, page_data(inspection), _SCRIPTS)


def _facts(inspection) -> dict[str, object]:
    config = inspection.config
    return {
        "model": inspection.kind,
        "parameters": f"{inspection.num_parameters:,}",
        "layers": config.num_layers,
        "heads a layer": f"{config.num_heads}, H = {config.head_dim}",
        "width D": config.hidden_dim,
        "tokens S": f"{len(inspection.tokens)} of at most {config.max_sequence_length:,}",
        "positions": config.position_type,
        "activation": config.hidden_act,
        "pooler": "yes" if inspection.has_pooler else "none",
    }


def _cut(inspection) -> str:
    return page_text.cut(num_shown(inspection.attention.shape), len(inspection.tokens))


def _drawn(name: str, title: str, sentence: str) -> str:
    """Returns a section whose charts the script draws."""
    return section(name, title, sentence, f'<div id="{name}-charts"></div>')


def _head_table(heads: Sequence[HeadSummary]) -> str:
    numbers = "".join(f"<th>{_HEADINGS.get(name, name)}</th>" for name in _NUMBERS)
    rows = "".join(map(_head_row, heads))
    return table(f'<th>layer</th><th>head</th><th class="word">kind</th>{numbers}', rows, "Heads", "head-table")


def _head_row(head: HeadSummary) -> str:
    numbers = "".join(f"<td>{getattr(head, name):.{digits}f}</td>" for name, digits in _NUMBERS.items())
    return f'<tr><td>{head.layer}</td><td>{head.head}</td><td class="word">{escaped(head.kind)}</td>{numbers}</tr>'


def _picture(one: FigureSection) -> str:
    title = escaped(one.title)
    address = to_data_uri(render_figure(one.figure, "svg"), "svg")
    picture = f'<div class="scroll"><img class="picture" alt="{title}" src="{address}"></div>'
    return section(escaped(one.name), title, escaped(one.sentence), picture)
