"""Text to pretraining records: documents, sentence pairs, packed sequences, shards and their manifest.

Start with `making_records.py`. Names are imported lazily, because worker processes import this package too.
"""

import importlib

_MODULES = {
    "DocumentText": "documents",
    "FileText": "documents",
    "Record": "record",
    "RecordSettings": "settings",
    "TokenizerSpec": "manifest",
    "make_records": "making_records",
    "parse_records": "record",
    "read_manifest": "manifest",
    "serialize_records": "record",
    "list_shard_paths": "manifest",
    "write_records": "making_records",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
