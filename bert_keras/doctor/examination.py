"""`examine_environment` and `examine_path`: what `bert-keras doctor` checks.

Each check is a module of this folder and returns a section of items; `findings.py` has both classes.
"""

import os
import pathlib
from collections.abc import Callable

from bert_keras.doctor.findings import Section, remove_private
from bert_keras.errors import InputError
from bert_keras.extras import is_installed

_WEIGHTS = ("*.safetensors", "*/*.safetensors", "*.weights.h5", "*.ckpt*.index", "*.bin")
_CONFIGS = ("config.json", "bert_config.json", "modules.json")
_KINDS = (
    "a checkpoint, a records folder, an output folder of export or an artifact in it, backups (.OUT.training), a "
    "vocabulary (.txt) or a data file (.csv, .tsv, .jsonl, .json, .conll, .conllu)"
)


def examine_environment(*, self_test: bool = True, progress: Callable[[str], None] = lambda _: None) -> list[Section]:
    """Check the installation and the machine.

    Args:
        self_test: whether to train a tiny model. Without it TensorFlow is imported only if the system has a GPU.
        progress: called with a sentence before the part that takes long.

    Returns:
        The sections of the report, without private names.
    """
    if not is_installed("packaging"):
        section = Section("Versions")
        section.add_fault("packaging", "missing, so versions cannot be compared", "pip install packaging")
        return [section]
    from bert_keras.doctor import machine, versions
    from bert_keras.doctor import self_test as tests
    from bert_keras.extras import read_processor

    found = read_processor()
    environment = versions.Environment(os.environ, versions.read_keras_settings(), found)
    sections = [versions.check_versions(), versions.check_conflicts(environment), versions.check_import_paths()]
    hardware, gpus = machine.check_machine(found), machine.list_system_gpus()
    sections.append(hardware)
    stages = tests.STAGES if self_test else (tests.IMPORT,) if gpus.names else ()
    if stages:
        tested = " and testing a tiny model" * self_test
        progress(f"importing TensorFlow{tested}, which takes up to a minute")
        result = tests.run_self_test(stages)
        sections.append(tests.check_self_test(result, stages))
    machine.check_gpus(hardware, gpus, result.tensorflow if stages else None)
    return remove_private(sections)


def examine_path(path: str | os.PathLike) -> list[Section]:
    """Check a folder or a file of bert-keras.

    Args:
        path: a folder or file of any kind.

    Returns:
        The sections of the report, without private names.

    Raises:
        InputError: the path does not exist, or is of no kind that can be checked.
    """
    path = pathlib.Path(path)
    return remove_private([find_check(path)(path)])


def find_check(path: pathlib.Path) -> Callable[[pathlib.Path], Section]:
    """Return the function that checks a path.

    Raises:
        InputError: the path does not exist, or is of no kind that can be checked.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist; expected {_KINDS}: check the path")
    check = _find_folder_check(path) if path.is_dir() else _find_file_check(path)
    if check is None:
        raise InputError(f"{path} is no folder or file that doctor can check; expected {_KINDS}: name one of them")
    return check


def _find_file_check(path: pathlib.Path) -> Callable[[pathlib.Path], Section] | None:
    from bert_keras.doctor import artifact_check, checkpoint_check, data_check

    ending = pathlib.Path(path.name.lower().removesuffix(".gz")).suffix
    if ending in (".onnx", ".tflite"):
        return artifact_check.check_artifacts
    if ending == ".keras":
        return checkpoint_check.check_checkpoint
    if ending == ".txt":
        return data_check.check_vocabulary_file
    return data_check.check_data_file if ending in (*data_check.TABLES, *data_check.WORD_FILES) else None


def _find_folder_check(path: pathlib.Path) -> Callable[[pathlib.Path], Section] | None:
    """Return the check of a folder; damaged folders are recognized by what is left of them."""
    from bert_keras.doctor import artifact_check, checkpoint_check, data_check
    from bert_keras.engines.artifact_files import is_artifact

    writer, files = artifact_check.find_listing(path)
    lists_artifact = any(name.endswith(artifact_check.ARTIFACT_ENDINGS) for name in files)
    has_config = any((path / name).is_file() for name in _CONFIGS)
    has_records = (path / "manifest.json").is_file() or _has(path, "*.tfrecord")
    if writer == "make-records" or (has_records and not has_config):  # a checkpoint may have another manifest.json
        return data_check.check_records
    if any(one.is_dir() for one in path.glob("step-*")) or (
        path.name.startswith(".") and path.name.endswith(".training")
    ):
        return data_check.check_backups
    if is_artifact(path) or (path / "parity.json").is_file() or lists_artifact:
        return artifact_check.check_artifacts
    if has_config or _has(path, *_WEIGHTS):
        return checkpoint_check.check_checkpoint
    return _check_output if writer is not None else None


def _has(path: pathlib.Path, *patterns: str) -> bool:
    return any(True for pattern in patterns for _ in path.glob(pattern))


def _check_output(path: pathlib.Path) -> Section:
    """Check the output folder of another command, such as inspect: its files are there."""
    from bert_keras.doctor.artifact_check import check_listing, find_listing

    section = Section(f"Output folder of {find_listing(path)[0]} {path}")
    check_listing(section, path, path.name)
    return section
