"""Check exported artifacts: their files, their parity reports, their descriptions, and that they open."""

import pathlib
from collections.abc import Iterator, Mapping

from bert_keras.checks import format_count, format_names, quote, read_field, resolve_inside
from bert_keras.doctor.findings import Section, format_size
from bert_keras.errors import InputError
from bert_keras.export.client_bundle.client_description import FORMAT, MODEL_FILE
from bert_keras.export.parity.fresh_process import query_artifact
from bert_keras.export.targets import PARITY, find_artifacts, read_parity_report
from bert_keras.files import read_json
from bert_keras.staging import LISTING

_LEVELS = 3  # an artifact is at most this many folders below the output folder of export: onnx/onnx/model.onnx
ARTIFACT_ENDINGS = ("saved_model.pb", ".tflite", ".onnx")
_ASSETS = "assets.extra"


def check_artifacts(path: pathlib.Path) -> Section:
    """Check an artifact, or a folder with artifacts.

    Each artifact is opened in its own runtime, in a fresh process, without computing anything; `bert-keras verify`
    compares it with its checkpoint.
    """
    section = Section(f"Artifact {path}")
    folders = [path] if path.is_dir() else []
    folders += sorted(folder.parent for folder in path.rglob(LISTING) if folder.parent != path)
    for folder in folders:
        check_listing(section, folder, _name(folder, path))
    artifacts = []
    with section.attempt("artifact"):
        artifacts = find_artifacts(path)
    for artifact in artifacts:
        name = _name(artifact, path)
        with section.attempt(name):
            _check_parity(section, name, artifact)
        with section.attempt(name):
            section.add_ok(name, _open(artifact))
    for file in sorted(path.rglob(MODEL_FILE)):
        with section.attempt(_name(file, path)):
            section.add_ok(_name(file, path), _check_description(file))
    if (path / PARITY).is_file() and not (path / LISTING).is_file():
        with section.attempt(PARITY):
            gone = [name for name in read_parity_report(path / PARITY) if not (path / name).exists()]
            if gone:
                section.add_note(PARITY, f"it lists {format_names(gone)}, which are not in the folder")
    return section


def check_listing(section: Section, folder: pathlib.Path, name: str) -> None:
    """Check that all files that a command wrote to a folder are there, if the folder has a list of them.

    Args:
        section: where to add the result.
        folder: the folder.
        name: its name in the report.
    """
    if not (folder / LISTING).is_file():
        return
    with section.attempt("files"):
        writer, names = _read_listing(folder)
        missing = [file for file in names if not resolve_inside(folder, file, source=folder / LISTING).exists()]
        if missing:
            text = f"{folder} lacks {format_count(len(missing), 'file')} that {writer} wrote: {format_names(missing)}"
            section.add_fault("files", text, f"copy the whole folder again, or run  bert-keras {writer}  again")
        else:
            section.add_ok("files", f"all {len(names):,} that {writer} wrote to {name} are there")


def find_listing(folder: pathlib.Path) -> tuple[str | None, list[str]]:
    """Return the command that wrote a folder and its files; None and no files if the folder has no list of them."""
    try:
        return _read_listing(folder)
    except InputError:
        return None, []


def _read_listing(folder: pathlib.Path) -> tuple[str, list[str]]:
    source = folder / LISTING
    values = read_json(source)
    return read_field(values, "written_by", str, source=source), read_field(values, "files", list[str], source=source)


def _name(path: pathlib.Path, root: pathlib.Path) -> str:
    return path.name if path == root else str(path.relative_to(root))


def _check_parity(section: Section, name: str, artifact: pathlib.Path) -> None:
    """Find the report of an artifact's parity check, and check that it passed, for a file of this size."""
    again = f"run  bert-keras verify {artifact} CHECKPOINT  or export it again"
    source, report = next(_find_reports(artifact), (None, {}))
    if source is None:
        section.add_fault(name, f"no {PARITY} has a report of it, so nobody compared it with its checkpoint", again)
        return
    shown, num_bytes = f"{source.parent.name}/{source.name}", artifact.stat().st_size
    expected = read_field(report, "bytes", int, source=source, default=None)
    if report.get("passed") is not True:
        fix = "do not use it; export the checkpoint again"
        section.add_fault(name, f"{shown} says that it differs from its checkpoint", fix)
    elif artifact.is_file() and expected not in (None, num_bytes):
        text = f"it has {num_bytes:,} bytes; {shown} is of a file with {expected:,}"
        section.add_fault(name, text, f"copy it again from its source, or {again}")
    else:
        num_inputs = read_field(report, "num_inputs", int, source=source)
        files = [artifact] if artifact.is_file() else [file for file in artifact.rglob("*") if file.is_file()]
        size = format_size(sum(file.stat().st_size for file in files))
        section.add_ok(name, f"parity check passed on {num_inputs:,} inputs, {size}")


def _find_reports(artifact: pathlib.Path) -> Iterator[tuple[pathlib.Path, Mapping]]:
    """Yield the parity reports of an artifact with their files: of the output folder, else of the artifact's own."""
    artifact = artifact.resolve()
    for folder in [*artifact.parents][:_LEVELS][::-1]:
        if (folder / PARITY).is_file():
            reports = read_parity_report(folder / PARITY)
            key = artifact.relative_to(folder).as_posix()
            if key in reports:
                yield folder / PARITY, reports[key]
    if (artifact / _ASSETS / PARITY).is_file():
        yield artifact / _ASSETS / PARITY, read_json(artifact / _ASSETS / PARITY)


def _open(artifact: pathlib.Path) -> str:
    """Open an artifact, and describe what it takes."""
    kind = artifact.suffix.removeprefix(".") if artifact.is_file() else "saved_model"
    answers = query_artifact(kind, artifact, [])
    signatures = ", ".join(signature for signature in answers.signatures if signature)
    inputs = sorted({name for one in answers.signatures.values() for name in one.get("inputs", ())})
    shown = f"signatures {signatures}" if signatures else f"inputs {', '.join(inputs)}"
    return f"opens in {answers.load_s:.1f} s, {shown}"


def _check_description(file: pathlib.Path) -> str:
    """Check `model.json`: the model files and the vocabulary that it names are there; return what it names."""
    values = read_json(file)
    if (found := values.get("format")) != FORMAT:
        raise InputError(f"{file} has the format {quote(found)}; expected {FORMAT}: export the checkpoint again")
    for one in read_field(values, "files", list[dict], source=file):
        path = resolve_inside(file.parent, read_field(one, "path", str, source=file), source=file)
        expected = read_field(one, "bytes", int, source=file)
        if not path.is_file() or path.stat().st_size != expected:
            found = f"has {path.stat().st_size:,} bytes" if path.is_file() else "is missing"
            raise InputError(f"{path} {found}; {file} expects {expected:,} bytes: copy the whole folder again")
    tokenizer = read_field(values, "tokenizer", dict, source=file)
    vocabulary = resolve_inside(file.parent, read_field(tokenizer, "vocabulary", str, source=file), source=file)
    if not vocabulary.is_file():
        raise InputError(f"{vocabulary} is missing, but {file} names it: copy the whole folder again")
    files = format_count(len(values["files"]), "model file")
    return f"names {files} and {vocabulary.name}: all there"
