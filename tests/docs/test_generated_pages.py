"""The pages that are made from the code, and the navigation."""

import ast
import os
import subprocess
import sys

import api_reference
import cli_reference
import error_reference
import navigation
import placeholder_names
import pytest
import raised_messages
import repository_pages

import bert_keras as bk
from bert_keras.cli.main import COMMANDS

from .conftest import REPOSITORY

# A `raise` without a text of its own: it repeats the messages of other errors, which are listed where they come from.
FORWARDED = {
    "bert_keras/checkpoints/huggingface/huggingface_folder.py": 1,
    "bert_keras/checkpoints/huggingface/sentence_transformers.py": 1,
    "bert_keras/cli/options/argument_checks.py": 1,
    "bert_keras/publishing.py": 1,
    "bert_keras/training/config/recipes.py": 1,
    "bert_keras/training/config/settings.py": 1,
    "bert_keras/training/config/sources.py": 1,
    "bert_keras/training/continued_pretraining.py": 1,
    "pipelines/records/manifest.py": 1,
    "pipelines/records/settings.py": 1,
    "pipelines/text/tokenizer_folder.py": 1,
}


@pytest.fixture(scope="module")
def messages():
    """All messages of the sources."""
    return raised_messages.find_messages(REPOSITORY)


def test_every_raised_input_error_has_its_message_on_the_page_or_repeats_another(messages):
    found = {(message.path, message.line) for message in messages}
    for folder in ("bert_keras", "pipelines", "export"):
        for path in (REPOSITORY / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                    name = ast.unparse(node.exc.func)
                    if name.endswith("Error") and name in vars(bk.errors):
                        assert (path.relative_to(REPOSITORY).as_posix(), node.lineno) in found
    without_text: dict[str, int] = {}
    for message in messages:
        if not message.templates:
            without_text[message.path] = without_text.get(message.path, 0) + 1
    assert without_text == FORWARDED


def test_most_messages_say_what_is_valid_or_how_to_fix_it(messages):
    """So the columns are filled: 95 % were measured."""
    parts = [error_reference.split_message(text) for message in messages for text in message.templates]
    assert sum(bool(valid or fix) for _, valid, fix in parts) / len(parts) > 0.9


SOURCE = '''
from bert_keras.errors import InputError

_MOST = 512


class OwnError(InputError):
    """An error with a text of its own."""

    def __init__(self, path):
        super().__init__(f"{path} is locked: wait")


def check(path, values, own):
    if own:
        raise OwnError(path)
    kind = "a file" if path.is_file() else f"a folder of {len(values)} files"
    raise InputError(f"{quote(path)} is {kind}; expected at most {_MOST:,}: remove {values['name']}")


def check_all(given):
    problems = []
    if given.size < 1:
        problems.append(f"size is {given.size}; expected 1 or more")
    problems += [describe(name) for name in given.unknown]
    if problems:
        raise InputError("; ".join(problems))


def describe(name):
    return f"there is no option {name}: leave it out"
'''


def test_messages_become_templates_also_if_they_are_built_in_steps(tmp_path):
    (tmp_path / "bert_keras").mkdir()
    (tmp_path / "bert_keras/module.py").write_text(SOURCE)
    found = raised_messages.find_messages(tmp_path)
    own, several, joined = [
        [text.replace(placeholder_names.OPEN, "<").replace(placeholder_names.CLOSE, ">") for text in message.templates]
        for message in found
    ]
    assert own == ["<path> is locked: wait"]
    assert several == [
        "<path> is a file; expected at most 512: remove <name>",
        "<path> is a folder of <number of values> files; expected at most 512: remove <name>",
    ]
    assert sorted(joined) == ["size is <size>; expected 1 or more", "there is no option <name>: leave it out"]


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        ("x is 0; expected a number above 0: raise it", ("x is 0", "a number above 0", "raise it")),
        (
            "x is 0; expected a dict {'a': 1}, or a pair",
            ("x is 0", "a dict {'a': 1}, or a pair", "give a value that is valid"),
        ),
        ("the folder has no head: leave out --eval", ("the folder has no head", "", "leave out --eval")),
        ("a.csv: the file is empty", ("a.csv: the file is empty", "", "")),
    ],
)
def test_a_message_is_divided_into_problem_valid_values_and_fix(message, parts):
    assert error_reference.split_message(message) == parts


def test_every_module_with_messages_has_a_topic(messages):
    assert {error_reference.find_topic(message.path) for message in messages} <= {
        t for _, t, _ in error_reference._TOPICS
    }


def test_every_command_has_a_page_and_every_status_a_meaning():
    pages = cli_reference.make_pages()
    assert {f"reference/cli/{name}.md" for name in (*COMMANDS, "index")} == set(pages)
    assert [status for status, _ in cli_reference.find_exit_statuses()] == ["0", "1", "2", "75", "130"]


def test_choices_and_defaults_of_an_option_are_shown():
    page = cli_reference.make_pages()["reference/cli/export.md"]
    assert '<dt id="option-to"><code>--to CHOICE ...</code></dt>' in page
    assert "One of <code>saved_model</code>, <code>tflite</code>, <code>onnx</code>." in page
    assert "--labelled-pieces" not in cli_reference.make_pages()["reference/cli/finetune.md"]  # a hidden alias


@pytest.mark.parametrize("columns", [None, "40"])
def test_pages_do_not_depend_on_the_width_of_the_terminal_and_leave_it_alone(columns, monkeypatch):
    expected = cli_reference.make_pages()
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    assert cli_reference.make_pages() == expected
    assert os.environ.get("COLUMNS") == columns


def test_every_public_name_is_in_one_topic():
    listed = [name for *_, names in api_reference.find_topics() for name in names]
    assert sorted(listed) == sorted(bk._PUBLIC_NAMES)


def test_the_module_of_every_public_name_defines_it():
    for name in bk._PUBLIC_NAMES:
        path = api_reference._to_path(REPOSITORY, api_reference.find_module(REPOSITORY, name))
        assert api_reference._find_definition(path, name) is not None, name


def test_new_pages_and_folders_appear_in_the_navigation():
    pages = ["index.md", "guide/new.md", "guide/export.md", "new_folder/page.md", "reference/cli/demo.md", "stray.md"]
    nav = navigation.make_navigation(pages)
    assert flatten(nav) == [
        "index.md",
        "guide/export.md",
        "guide/new.md",
        "reference/cli/demo.md",
        *pages[3:4],
        "stray.md",
    ]
    assert [next(iter(section)) for section in nav] == ["Start", "Guides", "Reference", "New folder", "Changelog"]


def flatten(entry) -> list[str]:
    """Return the pages of a part of the navigation."""
    if isinstance(entry, str):
        return [entry]
    return [page for part in (entry.values() if isinstance(entry, dict) else entry) for page in flatten(part)]


@pytest.mark.parametrize(
    ("page", "link", "rewritten"),
    [
        ("guide/phone.md", "../../examples/java/README.md#use", "../examples/java/about.md#use"),
        ("guide/phone.md", "../reference/outputs.md", "../reference/outputs.md"),
        ("guide/export.md", "../../examples/ray_serve.py", "../files/examples/ray_serve.py.md"),
        ("index.md", "../README.md", "readme.md"),
        ("readme.md", "docs/flow.svg", "flow.svg"),
        ("examples/about.md", "browser/README.md", "browser/about.md"),
        ("examples/browser/about.md", "../typescript", "../typescript/about.md"),
        ("examples/about.md", "../docs/guide", "../guide/browser.md"),
        ("start.md", "notebooks/search.ipynb", "notebooks/search.md"),
        ("index.md", "https://host/README.md", "https://host/README.md"),
    ],
)
def test_links_to_files_outside_of_docs_lead_to_pages(page, link, rewritten):
    text = repository_pages.rewrite_links(f"[a]({link}) `[b]({link})`", page, REPOSITORY)
    assert text == f"[a]({rewritten}) `[b]({link})`"


def test_a_pipe_in_code_in_a_table_has_no_backslash():
    text = "| `a\\|b` | c\\|d |\n\n`a\\|b`"
    assert repository_pages.unescape_pipes(text) == "| `a|b` | c\\|d |\n\n`a\\|b`"


def test_the_outputs_of_a_notebook_are_on_its_page(tmp_path):
    pytest.importorskip("nbconvert", reason="the packages of the extra docs are not installed; they need Python 3.11")
    import nbformat
    import notebook_pages

    code = nbformat.v4.new_code_cell(
        "print(1 + 1)", outputs=[nbformat.v4.new_output("stream", text="\x1b[1m2\x1b[0m\n")]
    )
    picture = nbformat.v4.new_output("display_data", {"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"})
    cells = [
        nbformat.v4.new_markdown_cell("# Title\n\ntext"),
        code,
        nbformat.v4.new_code_cell("draw()", outputs=[picture]),
    ]
    path = tmp_path / "first.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    pages = notebook_pages.make_pages(path, "notebooks/first.ipynb")
    text = pages.pop("notebooks/first.md")
    assert text.startswith('# Title\n\nThis page is a <a href="first.ipynb" download>notebook</a>')
    assert "```python\nprint(1 + 1)\n```" in text
    assert "```text\n2\n```" in text
    [(name, content)] = pages.items()
    assert content.startswith(b"\x89PNG")
    assert f"![Picture that the code above draws]({name.removeprefix('notebooks/')})" in text


def test_the_pages_of_the_commands_need_no_tensorflow():
    code = "import sys, cli_reference, error_reference, api_reference; cli_reference.make_pages(); "
    code += "sys.exit('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY / "docs/_site", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
