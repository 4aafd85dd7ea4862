"""Options that several commands share, and checks of their values.

Start reading with `declaring.py`.
"""
