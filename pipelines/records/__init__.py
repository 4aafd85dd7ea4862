"""Text to pretraining records: documents, sentence pairs, packed sequences, shards and their manifest.

Start with `records_folder.py`. Names are imported lazily, because worker processes import this package too.
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
