"""Processes that run our modules find the same packages as their parent."""

import subprocess

from bert_keras.extras import make_python_command


def test_a_process_does_not_import_from_the_current_folder(tmp_path):
    (tmp_path / "bert_keras").mkdir()
    (tmp_path / "bert_keras" / "__init__.py").write_text("raise RuntimeError('a clone without pipelines')")
    command = [*make_python_command("bert_keras.cli.main"), "--version"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("bert-keras ")
