"""The partial folder of a run, `.NAME.partial` next to its output, and the folder of records that it becomes.

The finished blocks of a run are in the partial folder, so that the same command resumes where it stopped. A block is
finished when its JSON file exists, which is written last, synced and renamed.
"""

import contextlib
import hashlib
import json
import logging
import os
import pathlib
import shutil
import uuid
from collections.abc import Iterator, Mapping

from bert_keras.errors import InputError
from bert_keras.files import check_digest, read_json, write_json
from bert_keras.pipelines.records.documents import Shard
from bert_keras.pipelines.records.manifest import MANIFEST
from bert_keras.pipelines.text.portable_tokenizer import TokenizerSpec, write_settings
from bert_keras.publishing import check_writable_folder, get_companion_folder, publish_folder
from bert_keras.staging import lock_folder

_LOG = logging.getLogger(__name__)
_FINGERPRINT = "run.json"


@contextlib.contextmanager
def open_partial_folder(out: str | os.PathLike, *, overwrite: bool) -> Iterator[pathlib.Path]:
    """Yield the locked partial folder of `out`; remove it at the end if it has no finished block.

    Raises:
        InputError: `out` cannot be written, or an error inside the context; the message says which blocks remain.
    """
    check_writable_folder(out, "make-records", overwrite=overwrite)
    path = get_partial_path(out)
    try:
        with lock_folder(path):
            try:
                yield path
            finally:
                if not any(path.glob("block-*.json")):
                    shutil.rmtree(path, ignore_errors=True)
    except (InputError, OSError) as error:
        num_finished = count_finished_blocks(out)
        left = (
            f"; {num_finished:,} finished blocks remain in {path}, and the same command resumes with them"
            if num_finished
            else ""
        )
        if isinstance(error, InputError):
            raise InputError(f"{error}{left}") from None
        raise InputError(
            f"{out} cannot be written ({error.filename or path}: {error.strerror or error}): free some space, or "
            f"choose a folder on another disk{left}"
        ) from None


def publish_records(
    out: str | os.PathLike, partial: pathlib.Path, manifest: dict, tokenizer: TokenizerSpec, *, overwrite: bool
) -> None:
    """Publish the shards of a finished run as `out` and remove the partial folder.

    Raises:
        InputError: there are no shards.
    """
    if not manifest["shards"]:
        shutil.rmtree(partial)
        raise InputError("the text has no words; expected sentences to make records of: pass other files")
    with publish_folder(out, "make-records", overwrite=overwrite) as staging:
        for shard in manifest["shards"]:
            _link(partial / shard["name"], staging / shard["name"])
        write_settings(staging, tokenizer)
        write_json(staging / MANIFEST, manifest)
    shutil.rmtree(partial, ignore_errors=True)


def get_partial_path(out: str | os.PathLike) -> pathlib.Path:
    """Return the path of the partial folder of `out`."""
    return get_companion_folder(out, "partial")


def count_finished_blocks(out: str | os.PathLike) -> int:
    """Return the number of blocks that an unfinished run left. Whether they are still valid is checked on reading."""
    return len(list(get_partial_path(out).glob("block-*.json")))


class PartialFolder:
    """The finished blocks of one run.

    Args:
        path: the existing folder at `get_partial_path`.
        fingerprint: JSON of everything the blocks depend on, except for the text. Blocks of a run with another
            fingerprint are deleted, and a warning is logged.
    """

    def __init__(self, path: pathlib.Path, fingerprint: dict):
        self.path = path
        fingerprint = json.loads(json.dumps(fingerprint))
        differences = self._list_differences(fingerprint)
        if differences:
            _LOG.warning(
                "%s holds an unfinished run with other settings (%s): starting afresh", path, "; ".join(differences)
            )
        if differences or not (path / _FINGERPRINT).exists():
            for entry in path.iterdir():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            self.write_json(_FINGERPRINT, fingerprint)

    def _list_differences(self, fingerprint: dict) -> list[str]:
        try:
            before = read_json(self.path / _FINGERPRINT)
        except InputError:  # missing or damaged: nothing is known about the blocks
            return []
        keys = [key for key in fingerprint | before if fingerprint.get(key) != before.get(key)]
        return [f"{key} {_shorten(before.get(key))} there, {_shorten(fingerprint.get(key))} here" for key in keys]

    def find_finished(self, index: int, digest: str) -> dict | None:
        """Return the result of `finish` for a block if its text and its shards are unchanged, otherwise None."""
        path = self.path / _format_block_name(index)
        if not path.exists():
            return None
        try:
            facts = read_json(path)
            if facts.get("block_sha256") != digest:
                _LOG.warning("the text of block %d has changed since %s was started: remaking it", index, self.path)
                return None
            for shard in facts["shards"]:
                check_digest(self.path / shard["name"], shard)
        except (InputError, KeyError, TypeError) as error:
            _LOG.warning("%s: remaking the block", error)
            return None
        return facts

    def finish(self, index: int, digest: str, shards: Mapping[str, Shard]) -> dict:
        """Store the shards of a block, keyed by split, and return their facts for the manifest under "shards"."""
        facts = []
        for split, shard in shards.items():
            name = f"{split}-{index:05d}.tfrecord"
            with self._replace(name) as staging:
                staging.write_bytes(shard.content)
            sha256 = hashlib.sha256(shard.content).hexdigest()
            facts.append({"name": name, "split": split, **shard.counts, "sha256": sha256, "bytes": len(shard.content)})
        block = {"block_sha256": digest, "shards": facts}
        self.write_json(_format_block_name(index), block)
        return block

    def read_block(self, index: int) -> dict:
        """Return the result of `finish` for a block."""
        return read_json(self.path / _format_block_name(index))

    def write_json(self, name: str, value: dict) -> None:
        """Write a JSON file atomically."""
        with self._replace(name) as staging:
            write_json(staging, value)

    @contextlib.contextmanager
    def _replace(self, name: str) -> Iterator[pathlib.Path]:
        """Yield a temporary path that becomes `name` once it is synced to disk."""
        staging = self.path / f".{name}.{uuid.uuid4().hex}.tmp"  # on a cluster two workers may write the same block
        try:
            yield staging
            with open(staging, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(staging, self.path / name)
        finally:
            staging.unlink(missing_ok=True)


def _format_block_name(index: int) -> str:
    return f"block-{index:05d}.json"


def _shorten(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) < 40 else f"{text[:30]}..."


def _link(source: pathlib.Path, target: pathlib.Path) -> None:
    """Hard-link a file, so that a run that is killed now still has it under its first name."""
    try:
        os.link(source, target)
    except OSError:  # the file system has no links
        shutil.copyfile(source, target)
