"""Options that several commands share, and the checks of their values.

Start with `argument_checks.py`.
"""
