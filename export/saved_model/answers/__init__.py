"""Answers in the graph of a SavedModel: for each task what `Task.answers` returns in Python.

Start with `served.py`.
"""
