"""Every code block of the README, the documentation and the examples is run, parsed, or says why it is not."""

import json
import pathlib
import re
import shutil
import sys

import pytest

from bert_keras.cli.main import parser
from bert_keras.serving.server import make_endpoints
from bert_keras.training.config.sources import tomllib
from tests.code_blocks import (
    REPOSITORY,
    RUN,
    Block,
    find_bert_keras_commands,
    find_blocks,
    find_pages,
    parse_commands,
    read_blocks,
)
from tests.docs.page_files import MAKERS, NEEDS, make_page_files
from tests.running_blocks import PageRunner, find_missing_lines

PAGES = find_pages()
BLOCKS = [block for page in PAGES for block in read_blocks(page)]
PARSERS = {"json": json.loads, "toml": tomllib.loads}
# Blocks that are neither run nor parsed, without a marker: the pages on which they occur, and the reason.
TEXTS = {
    "docs/design/architecture.md": "a diagram",
    "docs/design/life_of_a_batch.md": "a diagram",
    "docs/guide/serving.md": "names of folders",
    "docs/reference/troubleshooting.md": "messages of other programs",
    "examples/browser/README.md": "HTTP headers",
}
CLIENTS = {
    ("docs/guide/browser.md", "typescript"): "tests/examples/clients/test_typescript_client.py runs these calls",
    ("docs/guide/phone.md", "kotlin"): "needs Android; tests/examples/clients/test_java_client.py runs the client",
    ("examples/java/README.md", "java"): "tests/examples/clients/test_java_client.py runs the client",
    ("examples/java/README.md", "kotlin"): "needs Android; tests/examples/clients/test_java_client.py runs the client",
    ("examples/typescript/README.md", "ts"): "tests/examples/clients/test_typescript_client.py runs these calls",
}
TESTED_ELSEWHERE = {"README.md": "tests/test_readme.py", "docs/design/life_of_a_batch.md": "tests/test_docs.py"}
# What the tests run in place of a text of the page, because the latter takes minutes to months.
SHORTER = {
    "--preset mini --hours 8": "--preset tiny --steps 2",
    "--batch-size 512 --set optimizer.beta_2=0.98": (
        "--batch-size 8 --set optimizer.beta_2=0.98 --preset tiny --steps 10 --no-xla"
    ),
    "--recipe roberta --preset mini --steps 20000": (
        "--recipe roberta --preset tiny --steps 2 --batch-size 4 --accumulation-steps 1 --no-xla"
    ),
    "steps_per_epoch=1000": "steps_per_epoch=2",
    "--start-from demo/pretrained --epochs 3": "--start-from demo/pretrained --steps 2",
    "--steps 6000": "--steps 2 --no-xla",
    "--steps 500": "--steps 2 --no-xla",
    "--steps 1000": "--steps 2 --no-xla",
    "--workers 4": "--workers 2",
    "--dev demo/task/dev.csv": "--dev demo/task/dev.csv --epochs 1",
    "--train demo/task/train.csv": "--train demo/task/train.csv --max-sequence-length 16",
    "plan base": "plan tiny",
    "plan bert": "plan bert --quick",
}


def test_every_block_is_run_or_parsed_or_says_why_not():
    unclassified = [
        f"{block} ({block.language or 'no language'}): {block.code.splitlines()[0]}"
        for block in BLOCKS
        if not classify(block)
    ]
    assert unclassified == []


def classify(block: Block) -> str:
    """Return "run", "parsed", "output" or the reason why no test runs the block; empty if there is none."""
    if block.reason or block.is_run:
        return block.reason or "run"
    if block.is_output:
        return "output"
    if block.language in PARSERS:
        return "parsed"
    if block.language == "text":
        return TEXTS.get(block.page, "")
    if block.language == "mermaid":
        return "a diagram, drawn by the site"
    return CLIENTS.get((block.page, block.language), "")


def test_at_most_a_third_of_the_blocks_with_code_is_not_run():
    blocks = [block for block in BLOCKS if block.language in RUN]
    assert len([block for block in blocks if not block.is_run]) <= len(blocks) / 3


def test_files_that_reasons_name_exist():
    reasons = [*CLIENTS.values(), *TESTED_ELSEWHERE.values(), *(block.reason or "" for block in BLOCKS)]
    names = {name for reason in reasons for name in re.findall(r"(?:tests|benchmarks)/[\w/]+(?:\.py)?", reason)}
    assert [name for name in sorted(names) if not (REPOSITORY / name).exists()] == []


def test_every_entry_of_the_tables_is_used():
    code = "".join(block.code for block in BLOCKS)
    assert [text for text in SHORTER if text not in code] == []
    assert set(CLIENTS) <= {(block.page, block.language) for block in BLOCKS}
    assert {*NEEDS, *TEXTS, *TESTED_ELSEWHERE} <= set(PAGES)
    assert {name for names in NEEDS.values() for name in names} == set(MAKERS)


@pytest.mark.parametrize("page", PAGES)
def test_commands_on_a_page_have_valid_options(page, capsys):
    command_parser = parser()
    for block in read_blocks(page):
        for arguments in find_bert_keras_commands(block):
            try:
                command_parser.parse_args(arguments)
            except SystemExit as stop:
                if stop.code:
                    pytest.fail(f"{block}: {' '.join(arguments)}: {capsys.readouterr().err}")


def test_python_json_and_toml_blocks_can_be_parsed():
    for block in BLOCKS:
        try:
            if block.language == "python":
                compile(block.code, str(block), "exec")
            elif block.language in PARSERS and not block.is_output:
                PARSERS[block.language](block.code)
        except (SyntaxError, ValueError) as error:
            raise AssertionError(f"{block}: {error}") from error


def test_every_address_that_curl_calls_is_one_of_the_server():
    endpoints = make_endpoints()
    places = [re.sub(r"{\w+}", "[^/:]+", endpoint.path) for endpoint in endpoints]
    calls = [
        (str(block), word.split("localhost:8501", 1)[1])
        for block in BLOCKS
        if block.language == "bash"
        for words in parse_commands(block.code)
        if words[0] == "curl"
        for word in words
        if "localhost:8501" in word
    ]
    assert calls
    assert [call for call in calls if not any(re.fullmatch(place, call[1].split("?")[0]) for place in places)] == []


def test_blocks_are_found_with_their_markers_titles_and_outputs():
    text = """
<!-- not run: needs a GPU -->
```bash
train
```

```toml title="run.toml"
seed = 7
```
- a list
  ~~~python
  print(1)
  ~~~

  ~~~text
  1
  ~~~
"""
    first, second, third, fourth = find_blocks(text)
    assert (first.line, first.language, first.code, first.reason) == (3, "bash", "train\n", "needs a GPU")
    assert (second.title, second.code, second.is_output) == ("run.toml", "seed = 7\n", False)
    assert (third.code, third.is_run, fourth.is_output) == ("print(1)\n", True, True)


def test_shell_commands_are_split_as_a_shell_does():
    code = "A='b c' bert-keras x \\\n  --y 'a | b' < in > out  # comment\nzcat z | bert-keras w - && cd v"
    assert parse_commands(code) == [
        ["bert-keras", "x", "--y", "a | b"],
        ["zcat", "z"],
        ["bert-keras", "w", "-"],
        ["cd", "v"],
    ]


def test_shown_output_is_compared_without_its_numbers():
    printed = 'warning: 3.5% of the words\n{"label": "no", "probability": 0.25}\n'
    assert find_missing_lines('warning: 12% of  the ...\n{"probability": 1.0, "label": "yes"}', printed) == []
    assert find_missing_lines('warning: 12% of the texts\n{"probability": "high"}', printed) == [
        "warning: 12% of the texts",
        '{"probability": "high"}',
    ]


@pytest.fixture
def workplace(quick_demo, tmp_path, monkeypatch):
    """A working folder with what `bert-keras demo --quick` makes; its dev.csv has 100 examples only."""
    shutil.copytree(quick_demo[0] / "demo", tmp_path / "demo")
    dev = tmp_path / "demo/task/dev.csv"
    dev.write_text("".join(dev.read_text(encoding="utf-8").splitlines(keepends=True)[:101]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("bert_client", None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in TESTED_ELSEWHERE and any(b.is_run for b in read_blocks(page))]
)
def test_the_blocks_of_a_page_run_in_their_order(page, workplace, capsys, monkeypatch):
    make_page_files(page)
    printed = None
    with PageRunner(workplace, capsys, monkeypatch, SHORTER) as runner:
        for block in read_blocks(page):
            if block.title:
                pathlib.Path(block.title).write_text(block.code, encoding="utf-8")
            if block.is_run:
                printed = runner.run(block)
            elif block.is_output and printed is not None:
                assert find_missing_lines(block.code, printed) == [], f"{block}: not in what it printed:\n{printed}"
            else:
                printed = None
