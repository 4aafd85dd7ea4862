"""The examples in docstrings run in the folder of the demo and return what they show."""

import ast
import contextlib
import doctest
import importlib
import inspect
import io
import operator
import re

import keras
import numpy as np
import pytest

import bert_keras as bk
from tests.test_project import MODULES

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
METHODS = """
    BertConfig.from_preset BertConfig.from_dict BertConfig.to_dict
    BertTokenizer.from_vocabulary BertTokenizer.from_checkpoint BertTokenizer.save BertTokenizer.for_mediapipe
    BertTokenizer.tokenize BertTokenizer.tokenize_with_offsets BertTokenizer.tokenize_to_arrays BertTokenizer.detokenize
    Predictor.from_checkpoint Predictor.from_artifact Predictor.__call__ Predictor.with_prompt Predictor.stream
    Predictor.answer Predictor.make_example
    BertClassifier.from_checkpoint BertClassifier.compile BertClassifier.export
""".split()
INHERITED = {  # where the methods of models are defined
    "BertClassifier.from_checkpoint": "BertModel.from_checkpoint",
    "BertClassifier.compile": "HeadModel.compile",
    "BertClassifier.export": "BertModel.export",
}
PUBLIC = [*(name for name in bk.__all__ if name != "__version__"), *METHODS]
SLOW = {  # most take 3 to 20 s, because they train, export, or start a process
    *("pretrain", "finetune", "distill", "export_model", "BertClassifier.export", "evaluate", "inspect", "plan"),
    *("Predictor.from_artifact", "Predictor.from_checkpoint", "Predictor.with_prompt", "Predictor.__call__"),
    *("bert_keras.training.pretraining.run_pretraining", "bert_keras.training.finetuning.run_finetuning"),
    *("bert_keras.export.verify.verify", "bert_keras.export.parity.fresh_process.FreshProcess"),
    *(f"bert_keras.engines.masked_lm_scores.{name}" for name in ("score_records", "score_texts")),
    *(f"bert_keras.analysis.inspection.inspecting.Inspection.{name}" for name in ("to_dict", "to_html", "save")),
    "bert_keras.export.tflite.mediapipe_metadata.add_metadata",
    "bert_keras.pipelines.batches.pretraining_batches.make_pretraining_batches",
    "bert_keras.architectures.distillation.Distiller",
}


def find_other_examples() -> list[str]:
    """Return the qualified name of every function, class and method with an example that is not a public name."""
    found = []

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                if ">>> " in (ast.get_docstring(child) or ""):
                    found.append(f"{name}.{child.name}")
                visit(child, f"{name}.{child.name}")

    for name, path in MODULES.items():
        visit(ast.parse(path.read_text(encoding="utf-8")), name)
    is_public = re.compile("|".join(rf"bert_keras(\.[a-z_]+)*\.{INHERITED.get(name, name)}" for name in PUBLIC))
    return [name for name in found if not is_public.fullmatch(name)]


def mark_slow(names: list[str]) -> list:
    return [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in names]


def run_examples(docstring: str, name: str, names: dict) -> None:
    """Run the examples of a docstring; fail with the report of `doctest` if one differs, or if there is none."""
    test = doctest.DocTestParser().get_doctest(docstring, names, name, None, None)
    assert test.examples, f"{name} has no example"
    runner, report = doctest.DocTestRunner(optionflags=OPTIONS), io.StringIO()
    with contextlib.redirect_stderr(io.StringIO()):  # progress bars
        results = runner.run(test, out=report.write, clear_globs=False)
    assert results.failed == 0, report.getvalue()


@pytest.fixture
def in_folder_of_demo(quick_demo, tmp_path, monkeypatch):
    """The current folder has the result of `bert-keras demo`, and no other file."""
    (tmp_path / "demo").symlink_to(quick_demo[0] / "demo")
    (tmp_path / "my").mkdir()
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", mark_slow(PUBLIC))
def test_the_example_of_a_public_name_runs_with_its_imports_alone(name, in_folder_of_demo):
    run_examples(inspect.getdoc(operator.attrgetter(name)(bk)), name, {"bk": bk, "np": np, "keras": keras})


@pytest.mark.parametrize("name", mark_slow(find_other_examples()))
def test_the_example_of_another_name_runs_in_its_module(name, in_folder_of_demo):
    module = next(module for module in sorted(MODULES, key=len, reverse=True) if name.startswith(f"{module}."))
    imported = importlib.import_module(module)
    documented = operator.attrgetter(name.removeprefix(f"{module}."))(imported)
    run_examples(inspect.getdoc(documented), name, {**vars(imported), "bk": bk, "np": np})


def find_missing_sections(name: str) -> set[str]:
    """Return the sections that the docstring of a public function lacks; none for a class or module."""
    function = operator.attrgetter(name)(bk)
    if not inspect.isroutine(function):
        return set()
    signature, docstring = inspect.signature(function), inspect.getdoc(function)
    has_arguments = set(signature.parameters) - {"self"}
    has_result = signature.return_annotation not in (None, inspect.Signature.empty) and "\nYields:\n" not in docstring
    needed = ["Example:", *["Args:"] * bool(has_arguments), *["Returns:"] * has_result]
    return set(needed) - {line.strip() for line in docstring.splitlines()}


def test_public_functions_document_arguments_result_and_an_example():
    missing = {name: find_missing_sections(name) for name in PUBLIC}
    assert {name: sections for name, sections in missing.items() if sections} == {}


def test_an_example_that_differs_fails():
    with pytest.raises(AssertionError, match=r"Got:\n +2"):
        run_examples(">>> 1 + 1\n3", "sum", {})
    with pytest.raises(AssertionError, match="sum has no example"):
        run_examples("No example.", "sum", {})
