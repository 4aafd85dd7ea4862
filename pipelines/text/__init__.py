"""BERT's text rules, WordPiece vocabularies, and the tokenizer in the TensorFlow graph.

Start with `tokenizer.py`; `graph/` has its algorithm, `learned_vocabulary.py` learns vocabularies.
"""
