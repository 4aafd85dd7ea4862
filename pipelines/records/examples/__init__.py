"""The sequences of pretraining examples: sentence pairs, full sentences, and packing by a histogram of lengths.

Start with `sentence_pairs.py`.
"""
