"""WordPiece: BERT's text rules, vocabularies, and the tokenizer in the TensorFlow graph.

Start with `tokenizer.py`.
"""
