"""Text to pretraining records: documents, sentence pairs, packed sequences, shards and their manifest.

Start with `making_records.py`.
"""
