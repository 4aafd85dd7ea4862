"""Readers of labelled examples: tables of texts, tagged words, questions.

Start with `labelled_texts.py`.
"""
