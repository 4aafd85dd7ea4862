"""Tables of labelled examples: CSV, TSV, JSON lines, JSON arrays, and data in memory.

Start with `tables.py`.
"""
