"""Text to pretraining records: documents, sentence objectives, rows, shards and their manifest."""

from bert_keras.pipelines.records.folder import parse_records, read_manifest, shard_paths, write_records

__all__ = ["parse_records", "read_manifest", "shard_paths", "write_records"]
