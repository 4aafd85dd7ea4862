"""The folder of an unfinished run: finished blocks, so that the same command, given again, goes on where it was.

It stands beside the folder that is being written, as `.NAME.partial`. A block is finished when its json is there, which
is written last, synced and renamed; what else lies there is of no account.
"""

import contextlib
import hashlib
import json
import logging
import os
import pathlib
import shutil
import uuid
from collections.abc import Iterator

from bert_keras.errors import InputError
from bert_keras.files import check_digest, read_json, write_json
from bert_keras.publishing import get_companion_folder

_LOG = logging.getLogger(__name__)
_FINGERPRINT = "run.json"


def partial_path(out: str | os.PathLike) -> pathlib.Path:
    """Returns where an unfinished run of `out` is kept."""
    return get_companion_folder(out, "partial")


def count_finished_blocks(out: str | os.PathLike) -> int:
    """Returns how many blocks an unfinished run left; whether they still fit is seen when they are due."""
    return len(list(partial_path(out).glob("block-*.json")))


class PartialFolder:
    """The finished blocks of one run.

    Args:
        path: see `partial_path`; it exists.
        fingerprint: everything but the text that the blocks depend on, for JSON. Blocks of another one are deleted, and
            a warning says so.
    """

    def __init__(self, path: pathlib.Path, fingerprint: dict):
        self.path = path
        fingerprint = json.loads(json.dumps(fingerprint))
        if differing := self._differing(fingerprint):
            _LOG.warning(
                "%s holds an unfinished run with other settings (%s): starting afresh", path, "; ".join(differing)
            )
        if differing or not (path / _FINGERPRINT).exists():
            for entry in path.iterdir():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            self.write_json(_FINGERPRINT, fingerprint)

    def _differing(self, fingerprint: dict) -> list[str]:
        try:
            before = read_json(self.path / _FINGERPRINT)
        except InputError:  # missing or torn: nothing is known about the blocks
            return []
        keys = [key for key in fingerprint | before if fingerprint.get(key) != before.get(key)]
        return [f"{key} {_short(before.get(key))} there, {_short(fingerprint.get(key))} here" for key in keys]

    def finished(self, index: int, digest: str) -> dict | None:
        """Returns what `finish` was told of the block, if it is of the same text and its shards are unharmed."""
        path = self.path / _block_name(index)
        if not path.exists():
            return None
        try:
            facts = read_json(path)
            if facts.get("block_sha256") != digest:
                _LOG.warning("the text of block %d is not what it was when %s was begun: made again", index, self.path)
                return None
            for shard in facts["shards"]:
                check_digest(self.path / shard["name"], shard)
        except (InputError, KeyError, TypeError) as error:
            _LOG.warning("%s: the block is made again", error)
            return None
        return facts

    def finish(self, index: int, digest: str, shards: dict[str, bytes], facts: list[dict]) -> dict:
        """Keeps a block: its shards by name, and for each what the manifest will say beside size and hash."""
        described = []
        for (name, content), fact in zip(shards.items(), facts, strict=True):
            self._write(name, content)
            sha256 = hashlib.sha256(content).hexdigest()
            described.append({"name": name, **fact, "sha256": sha256, "bytes": len(content)})
        block = {"block_sha256": digest, "shards": described}
        self.write_json(_block_name(index), block)
        return block

    def block(self, index: int) -> dict:
        """Returns what `finish` was told of a block."""
        return read_json(self.path / _block_name(index))

    def write_json(self, name: str, value: dict) -> None:
        """Writes a json that is there whole or not at all."""
        with self._replacing(name) as staging:
            write_json(staging, value)

    def _write(self, name: str, content: bytes) -> None:
        with self._replacing(name) as staging:
            staging.write_bytes(content)

    @contextlib.contextmanager
    def _replacing(self, name: str) -> Iterator[pathlib.Path]:
        """Yields a path that becomes `name` when it is safe on disk."""
        staging = self.path / f".{name}.{uuid.uuid4().hex}.tmp"  # on a cluster two may write the same block
        try:
            yield staging
            with open(staging, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(staging, self.path / name)
        finally:
            staging.unlink(missing_ok=True)


def _block_name(index: int) -> str:
    return f"block-{index:05d}.json"


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) < 40 else f"{text[:30]}..."
