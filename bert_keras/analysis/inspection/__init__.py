"""Attention, vectors and predictions of a model on one text, as arrays, an HTML page and figures.

Start with `inspecting.py`.
"""
