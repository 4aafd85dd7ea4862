"""Files and data in memory as the examples of a task: to train on, to score, or to answer.

Start with `files.py`.
"""
