"""The notebooks: published ones come from their scripts, and the scripts run and reach their scores."""

import importlib.util
import json
import os
import pathlib
import re

import nbformat
import pytest

REPOSITORY = pathlib.Path(__file__).parents[2]
PUBLISHED = REPOSITORY / "docs/notebooks"

_spec = importlib.util.spec_from_file_location("run_notebooks", REPOSITORY / "examples/notebooks/run.py")
run_notebooks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(run_notebooks)
NAMES = run_notebooks.NAMES

# keyed by notebook: patterns of its output and the lowest percentage of each; the number in the comment was seen
SCORES = {
    "classify_and_ship": [(r"this model +([\d.]+)%", 70)],  # 80.2
    "entities": [
        (r"model, known names.* (\d+)%\n", 35),
        (r"model +finds .*: (\d+)%", 10),
    ],  # 69 and 22; the dictionary 70 and 0
    "pretrain_a_new_language": [(r"this model: +([\d.]+)%", 15)],  # 24.5, and the baseline 7.4
    "questions_and_answers": [(r"this model: exact match ([\d.]+)", 5)],  # 12.1, and the baseline 0.0
    "search": [(r"contrastive embedder .*MRR ([\d.]+)%", 12)],  # 21.5, and the pretrained vectors 2.9
}


def read_published(name):
    return nbformat.read(PUBLISHED / f"{name}.ipynb", as_version=4)


def get_printed(notebook):
    """Return all printed text of a notebook."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "".join(output.get("text", "") for output in outputs)


def get_cells(notebook):
    return [(cell.cell_type, cell.id, cell.source, dict(cell.metadata)) for cell in notebook.cells]


def test_each_published_notebook_has_a_script():
    assert sorted(path.stem for path in PUBLISHED.glob("*.ipynb")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_published_notebook_has_the_cells_of_its_script(name):
    assert get_cells(read_published(name)) == get_cells(run_notebooks.read_notebook(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_published_notebook_has_outputs_of_each_cell_that_prints(name):
    prints = re.compile(r"^(?:print\(|display\(|report\(|plt\.show\(|    print\()", re.MULTILINE)
    silent = [
        cell.id
        for cell in read_published(name).cells
        if cell.cell_type == "code" and not cell.outputs and prints.search(remove_functions(cell.source))
    ]
    assert silent == []


def remove_functions(source):
    """Return code without the bodies of its functions."""
    return re.sub(r"^def .*:\n(?:(?: {4}.*)?\n)*", "", source + "\n", flags=re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_a_published_notebook_is_small_and_private_and_describes_its_pictures(name):
    notebook = read_published(name)
    assert (
        run_notebooks.find_problems(
            notebook, private=["/tmp/", "/home/", "/root/", "/work/", ".venv", "site-packages/"]
        )
        == []
    )
    pictures = [
        output.data["image/png"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]
    assert pictures
    assert max(map(len, pictures)) * 3 / 4 <= 60_000  # bytes; base64 takes 4 characters for 3 of them


@pytest.mark.parametrize("name", NAMES)
def test_links_of_a_notebook_lead_to_files(name):
    text = "\n".join(cell.source for cell in run_notebooks.read_notebook(name).cells if cell.cell_type == "markdown")
    links = re.findall(r"\]\(([^)#\s]+)", text)
    assert links
    assert [link for link in links if not (PUBLISHED / link).exists()] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_published_notebook_has_no_traces_of_its_run(name):
    notebook = json.loads((PUBLISHED / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    counts = [cell["execution_count"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1))  # executed once, from top to bottom
    assert {key for cell in notebook["cells"] for key in cell["metadata"]} <= {"alt"}


@pytest.mark.parametrize("name", NAMES)
def test_a_published_notebook_reaches_its_scores(name):
    check_scores(name, get_printed(read_published(name)))


def check_scores(name, printed):
    for pattern, minimum in SCORES[name]:
        found = re.search(pattern, printed)
        assert found, f"nothing like {pattern!r} in {printed}"
        assert float(found[1]) >= minimum, found[0]


def test_a_setting_of_a_notebook_can_be_changed():
    notebook = run_notebooks.read_notebook("search", {"EPOCHS": "1"})
    assert any(re.search(r"^EPOCHS = 1$", cell.source, re.MULTILINE) for cell in notebook.cells)
    with pytest.raises(ValueError, match=r"search.py has no setting EPOCH; expected a line `EPOCH = ...`"):
        run_notebooks.read_notebook("search", {"EPOCH": "1"})


def test_the_value_of_a_setting_is_no_pattern():
    notebook = run_notebooks.read_notebook("search", {"EPOCHS": r"r'\d\n\1'"})
    assert any(r"EPOCHS = r'\d\n\1'" in cell.source.splitlines() for cell in notebook.cells)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--set", "EPOCHS=1"],
            "--set would change the published notebooks: choose another folder with --out",
        ),
        (["--set", "EPOCHS=1", "--out", str(PUBLISHED)], "choose another folder with --out"),
        (["--set", "EPOCHS", "--out", "new"], "--set is 'EPOCHS'; expected NAME=VALUE: add the value"),
        (["--set", "EPOCH=1", "--out", "new"], "search.py has no setting EPOCH; expected a line `EPOCH = ...`"),
    ],
)
def test_wrong_settings_are_reported_before_a_notebook_runs(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        run_notebooks.parse_arguments(["search", *words])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_settings_of_the_command_line_become_a_dict(tmp_path):
    arguments = run_notebooks.parse_arguments(["search", "--out", str(tmp_path), "--set", "EPOCHS=1", "LENGTH=a=b"])
    assert (arguments.names, arguments.set) == (["search"], {"EPOCHS": "1", "LENGTH": "a=b"})
    assert run_notebooks.parse_arguments([]).names == NAMES


def test_private_texts_are_listed_also_for_a_user_without_a_name(monkeypatch):
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", "/home/mallory")
    monkeypatch.setenv("USER", "mallory")
    assert {"/tmp/folder", "/home/mallory/", "/mallory/", "mallory@"} <= set(
        run_notebooks.list_private_texts("/tmp/folder")
    )
    monkeypatch.delenv("USER")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)  # a number that no system gives to a user
    texts = run_notebooks.list_private_texts("/tmp/folder")
    assert "/tmp/folder" in texts
    assert not [text for text in texts if "mallory" in text]


def test_outputs_that_cannot_be_published_are_reported():
    stderr = nbformat.v4.new_output("stream", name="stderr", text="a warning")
    picture = nbformat.v4.new_output("display_data", {"image/png": "aaaa"})
    path = nbformat.v4.new_output("stream", name="stdout", text="/secret/folder")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("", outputs=[stderr, picture, path], id="x")])
    problems = run_notebooks.find_problems(notebook, private=["/secret/"])
    assert len(problems) == 3
    assert "contains '/secret/'" in problems[0]


def test_log_lines_about_devices_are_removed_and_pieces_of_text_are_joined():
    log = "I0000 00:00:1795802163.577365   27004 cudart_stub.cc:31] Could not find cuda drivers\n"
    texts = [("stdout", "a"), ("stdout", "b"), ("stderr", log), ("stderr", "W0000 is not a log line")]
    outputs = [nbformat.v4.new_output("stream", name=name, text=text) for name, text in texts]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("", outputs=outputs)])
    run_notebooks.clean(notebook)
    assert [output.text for output in notebook.cells[0].outputs] == ["ab", "W0000 is not a log line"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_and_reaches_its_scores(name, tmp_path):
    run_notebooks.run(name, tmp_path)
    check_scores(name, get_printed(nbformat.read(tmp_path / f"{name}.ipynb", as_version=4)))
