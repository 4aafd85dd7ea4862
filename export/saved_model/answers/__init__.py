"""Answers in the graph of a SavedModel: for each task those that `Task.decode` returns in Python.

Start with `text_function.py`.
"""
