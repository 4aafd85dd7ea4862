"""Text to pretraining records: documents, sentence objectives, rows, shards and their manifest.

Nothing is imported before it is asked for: the processes that `write_records` starts come through here too.
"""

import importlib

_HOMES = {
    "DocumentText": "documents",
    "FileText": "documents",
    "RecordSettings": "settings",
    "Record": "record",
    "TokenizerSpec": "tokenizer_spec",
    "parse_records": "record",
    "read_manifest": "manifest",
    "serialize_record": "record",
    "shard_paths": "manifest",
    "write_records": "records_folder",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
