"""The parts of the page that are read: what the model answers, and its guesses for masked words."""

from collections.abc import Sequence

from bert_keras.analysis.inspection.head_outputs import Answer, Finding
from bert_keras.analysis.inspection.masked_predictions import Guess
from bert_keras.analysis.inspection.page import page_text
from bert_keras.analysis.inspection.page.html_page import escaped, section


def answer_section(answer: Answer, texts: Sequence[str]) -> str:
    """Returns what the model answers: the texts with their ranges marked, and a table."""
    names = ("answer", answer.measure, "", "characters")
    head = "".join(
        f'<th class="word">{name}</th>' if name in ("answer", "characters") else f"<th>{name}</th>" for name in names
    )
    rows = "".join(_finding_row(finding, answer.measure, texts) for finding in answer.findings)
    content = "".join(_marked_texts(answer, texts)) + table(head, rows, "What the model answers")
    return section("answer", "What the model answers", escaped(answer.sentence), content)


def guesses_section(guesses: Sequence[Guess]) -> str:
    """Returns the guesses as a table, a masked token a row."""
    at_masks = guesses[0].probability is None
    columns = '<th class="word">at</th>' if at_masks else '<th class="word">masked</th><th>its probability</th>'
    rows = "".join(map(_guess_row, guesses))
    content = table(columns + '<th class="word">the model&rsquo;s guesses</th>', rows, "Guesses for masked words")
    sentence = page_text.GUESSES_AT_MASKS if at_masks else page_text.GUESSES_AT_WORDS
    return section("guesses", "Guesses for masked words", sentence, content)


def table(head: str, rows: str, label: str, name: str = "") -> str:
    """Returns a table in a box of its own that scrolls."""
    named = f' id="{name}"' if name else ""
    return (
        f'<div class="scroll tall" tabindex="0" role="region" aria-label="{label}">'
        f"<table{named}><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def bar(share: float) -> str:
    """Returns a share from 0 to 1 as a bar."""
    return (
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="all" width="100" height="8"/><rect class="part" width="{100 * share:.1f}" height="8"/></svg>'
    )


def marked(text: str, findings: Sequence[Finding]) -> str:
    """Returns a text as HTML with the ranges of findings marked and named; of two that overlap the first one."""
    parts, end = [], 0
    for finding in sorted(findings, key=lambda one: one.start):
        if finding.start < end:
            continue
        inside = text[finding.start : finding.end]
        name = "" if finding.label == inside else f"<sup>{escaped(finding.label)}</sup>"
        parts += [escaped(text[end : finding.start]), f"<mark>{escaped(inside)}{name}</mark>"]
        end = finding.end
    return "".join([*parts, escaped(text[end:])])


def _marked_texts(answer: Answer, texts: Sequence[str]):
    """Yields the texts in which something was found."""
    for place, text in enumerate(texts):
        if spans := [one for one in answer.findings if one.text == place and one.is_given]:
            yield f'<blockquote dir="auto">{marked(text, spans)}</blockquote>'


def _finding_row(finding: Finding, measure: str, texts: Sequence[str]) -> str:
    label = f"<strong>{escaped(finding.label)}</strong>" if finding.is_given else escaped(finding.label)
    value = "" if finding.value is None else f"{finding.value:.4f}"
    drawn = bar(finding.value) if measure == "probability" and finding.value is not None else ""
    where = ""
    if finding.start is not None:
        words = escaped(texts[finding.text][finding.start : finding.end])
        where = f'<bdi>{words}</bdi> <span class="range">{finding.start}&ndash;{finding.end}</span>'
    cells = f'<td class="word wide" dir="auto">{label}</td><td>{value}</td><td>{drawn}</td>'
    return f'<tr>{cells}<td class="word wide">{where}</td></tr>'


def _guess_row(guess: Guess) -> str:
    proposals = "".join(
        f'<li><bdi class="token">{escaped(token)}</bdi> <small>{value:.2%}</small></li>'
        for token, value in guess.proposals
    )
    own = "" if guess.probability is None else f"<td>{guess.probability:.2%} {bar(guess.probability)}</td>"
    name = f'<bdi class="token">{escaped(guess.token)}</bdi> <span class="range">{guess.position}</span>'
    listed = f'<td class="word wide"><ul class="proposals">{proposals}</ul></td>'
    return f'<tr><td class="word">{name}</td>{own}{listed}</tr>'
