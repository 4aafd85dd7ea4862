"""The parity check: an artifact is reloaded in its own runtime and compared with its checkpoint.

Start with `parity_check.py`.
"""
