"""One folder per head: its record, its model, its task, its readers, and its answers in the graph of an artifact.

Start with `head.py` (what a record states) and `task.py`, then a folder such as `tag`; `known_heads.py` lists them.
"""
