"""The pages of `bert-keras COMMAND`, made from the parsers of the commands."""

import argparse
import contextlib
import html
import inspect
import os
import re
from collections.abc import Iterator

from bert_keras.cli.main import main, parser

_COLUMNS = "100"  # of usage texts, before their indentation is reduced
_FOLDER = "reference/cli"


def make_pages() -> dict[str, str | bytes]:
    """Return the page of every command and their overview, by path."""
    commands = find_commands()
    pages: dict[str, str | bytes] = {f"{_FOLDER}/{name}.md": _make_page(name, command) for name, command in commands}
    rows = [f"| [`{name}`]({name}.md) | {_escape(_summarize(command))} |" for name, command in commands]
    pages[f"{_FOLDER}/index.md"] = "\n".join(
        [
            "# Command line",
            "",
            "Every command reads and writes folders, prints its settings first and what it wrote at the end.",
            "`bert-keras COMMAND --help` prints the same options as these pages, which are made from the same source.",
            "",
            "## Commands",
            "",
            "| command | purpose |\n|---|---|",
            *rows,
            "",
            "`bert-keras --version` prints the version.",
            "",
            "## Exit status",
            "",
            "| status | meaning |\n|---|---|",
            *(f"| {status} | {_escape(meaning)} |" for status, meaning in find_exit_statuses()),
            "",
            "With status 2, the last line on standard error is one sentence: the problem with its value, what is",
            "valid, and the fix.",
            "[All messages](../errors.md) are listed.",
            "",
        ]
    )
    return pages


def find_commands() -> list[tuple[str, argparse.ArgumentParser]]:
    """Return every command and its parser, in the order of `--help`."""
    [subparsers] = [action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return list(subparsers.choices.items())


def find_exit_statuses() -> list[tuple[str, str]]:
    """Return the exit statuses and their meanings, from the docstring of `main`."""
    returns = " ".join(inspect.getdoc(main).partition("Returns:")[2].split())
    return re.findall(r"(\d+) (\D+?)(?:, (?=\d)|\.)", returns)


def list_options(command: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the arguments and options that `--help` shows, except `--help` itself."""
    shown = [action for action in command._actions if action.help != argparse.SUPPRESS]
    return [action for action in shown if not isinstance(action, argparse._HelpAction)]


def make_identifier(action: argparse.Action) -> str:
    """Return the identifier of an argument or option on the page of its command: "option-batch-size"."""
    name = next((text for text in action.option_strings if text.startswith("--")), action.dest)
    return f"option-{name.lstrip('-')}"


def _make_page(name: str, command: argparse.ArgumentParser) -> str:
    with _fixed_columns():
        usage = re.sub(r"\n +", "\n    ", command.format_usage().removeprefix("usage: ").rstrip())
    first, _, rest = command.description.strip().partition("\n")
    lines = [f"# {name}", "", _escape(first), "", "```text", usage, "```", "", _make_paragraphs(rest), ""]
    options = list_options(command)
    for group in command._action_groups:
        actions = [action for action in group._group_actions if action in options]
        if actions:
            title = group.title.capitalize() if group.title.islower() else group.title
            lines += [f"## {title}", ""]
            lines += [_make_paragraphs(group.description or ""), '<dl class="options">']
            lines += [_describe(action, name) for action in actions]
            lines += ["</dl>", ""]
    if command.epilog:
        lines += [_make_paragraphs(command.epilog), ""]
    return "\n".join(lines)


@contextlib.contextmanager
def _fixed_columns() -> Iterator[None]:
    """Let argparse break lines at `_COLUMNS` inside the block, whatever the width of the terminal."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _COLUMNS
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


def _describe(action: argparse.Action, command: str) -> str:
    """Return the entry of an option: its spellings, its help, its choices and its default."""
    spellings = ", ".join(f"<code>{html.escape(text)}</code>" for text in _spell(action))
    text = html.escape((action.help or "") % {**vars(action), "prog": f"bert-keras {command}"})
    if action.choices is not None:
        text += f"<br>One of {', '.join(f'<code>{html.escape(str(choice))}</code>' for choice in action.choices)}."
    if action.default not in (None, False, [], argparse.SUPPRESS) and "default" not in text:
        text += f"<br>Default: <code>{html.escape(str(action.default))}</code>."
    return f'<dt id="{make_identifier(action)}">{spellings}</dt>\n<dd>{text}</dd>'


def _spell(action: argparse.Action) -> list[str]:
    """Return how an option is written, with the placeholder of its value."""
    placeholder = action.metavar or (None if action.choices else action.dest.upper()) or "CHOICE"
    if isinstance(placeholder, tuple):
        placeholder = " ".join(placeholder)
    shape = {0: "", None: placeholder, "?": f"[{placeholder}]", "+": f"{placeholder} ...", "*": f"[{placeholder} ...]"}
    values = shape.get(action.nargs, placeholder)
    if not action.option_strings:
        return [values]
    return [f"{option} {values}".rstrip() for option in action.option_strings]


def _make_paragraphs(text: str) -> str:
    """Return a text of `--help` as paragraphs; a paragraph with indented lines keeps its lines."""
    paragraphs = []
    for paragraph in text.strip("\n").split("\n\n"):
        if re.search(r"^ ", paragraph, re.MULTILINE):
            paragraphs.append(f"<pre><code>{html.escape(paragraph)}</code></pre>")
        elif paragraph.strip():
            paragraphs.append(f"<p>{html.escape(paragraph)}</p>")
    return "\n".join(paragraphs)


def _summarize(command: argparse.ArgumentParser) -> str:
    return command.description.strip().split("\n")[0]


def _escape(text: str) -> str:
    return re.sub(r"([*_\[\]|`])", r"\\\1", html.escape(text))
