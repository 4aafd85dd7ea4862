"""Modules in the current folder that hide a package."""

import subprocess
import sys

from bert_keras.doctor.versions import check_import_paths

# root may look everywhere, so the process becomes the user "nobody", whom only "." is open to
_PROGRAM = """
import os, pathlib
from bert_keras.doctor.versions import check_import_paths
here = pathlib.Path(".")
check_import_paths(here, {})
if os.geteuid() == 0:
    os.seteuid(65534)
print([item.name for item in check_import_paths(here, {}).items if item.mark == "FAULT"])
"""


def test_a_private_folder_of_another_user_is_no_module(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "keras.py").touch()
    private = tmp_path / "systemd_private"
    private.mkdir(mode=0)
    done = subprocess.run([sys.executable, "-c", _PROGRAM], cwd=tmp_path, capture_output=True, text=True)
    private.chmod(0o700)  # so that pytest can remove it
    assert done.stdout == "['keras.py']\n", done.stderr


def test_only_a_name_that_can_be_imported_hides_a_package(tmp_path):
    for name in ("numpy.backup", "keras.py", "tokenizers"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    section = check_import_paths(tmp_path, {})
    assert [item.name for item in section.items if item.mark == "FAULT"] == ["tokenizers/"]
