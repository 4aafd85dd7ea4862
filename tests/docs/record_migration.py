"""Run the blocks under "Before" of a migration page in an environment with the old library, and record their results.

    python -m tests.docs.migration_folders MADE            # in our environment
    python -m tests.docs.record_migration PAGE MADE        # in that of the page

`transformers_tf`: transformers 4.53.3, tokenizers 0.21, safetensors 0.5, tf-keras 2.21 and our TensorFlow;
`tf_hub`: tensorflow_hub 0.16.1, setuptools 80, tf-models-official 2.20, tf-keras 2.21 and our TensorFlow; both with
`TF_USE_LEGACY_KERAS=1`. `google_scripts`: tensorflow-cpu 2.15.1, bert-tensorflow 1.0.4 and tf-slim, with a `python`
in the path that runs `bert.NAME` for `NAME.py`, after `tf.compat.v1.disable_v2_tensorshape()` and with tf-slim's layers
as `tensorflow.contrib.layers`. It writes `migration_recorded.json`, which `test_migration.py` compares with the blocks
under "After".
"""

import importlib.metadata
import json
import os
import pathlib
import shutil
import sys
import tempfile

from tests.docs.migration_compared import COMPARED, RECORDED
from tests.docs.migration_hub import export_hub_folders
from tests.docs.migration_pages import hash_blocks, read_blocks, run_blocks, run_in_shell


def record(page: str, made: pathlib.Path) -> None:
    """Run the blocks of a page and add their results to the file."""
    blocks = [block for block in read_blocks(page) if block.side == "before" and block.reason is None]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(made, folder, dirs_exist_ok=True)
        os.chdir(folder)
        hub = {"hub_variables": export_hub_folders(pathlib.Path(folder))} if page == "tf_hub" else {}
        values = run_blocks(blocks, COMPARED[page], run_in_shell)
        os.chdir("/")
    recorded = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}
    recorded[page] = {"hash": hash_blocks(blocks), "versions": list_versions(), "values": values, **hub}
    RECORDED.write_text(json.dumps(recorded, separators=(",", ":"), sort_keys=True) + "\n", encoding="utf-8")


def list_versions() -> dict[str, str]:
    """Return the versions of the old libraries that are installed."""
    names = ("transformers", "tensorflow", "tf-keras", "tensorflow-hub", "tf-models-official", "bert-tensorflow")
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    record(sys.argv[1], pathlib.Path(sys.argv[2]).absolute())
