"""Learning a WordPiece vocabulary from text.

Start with `learned_vocabulary.py`.
"""
