"""One record per head: the names and texts of a head, and where its model and its task are.

Start with `head.py`; `known_heads.py` lists the records.
"""
