"""Tagged words from CoNLL columns, CoNLL-U and JSON.

Start with `tagged_words.py`.
"""
