"""Readers of labelled examples: texts in tables (`labelled_texts`), questions (`questions`), tagged words (`words/`).

Start with `labelled_texts.py`.
"""
