"""Scores of predictions: accuracy, F1, entities, SQuAD's exact match, correlations.

Start with `classes.py`.
"""
