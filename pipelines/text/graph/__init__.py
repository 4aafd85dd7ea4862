"""BERT's text rules in the TensorFlow graph: text rewritten so that tensorflow-text's WordPiece gives BERT's exact ids.

Start with `rewriting.py`.
"""
