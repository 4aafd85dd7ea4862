"""Programs that run an artifact in its own runtime, in a fresh process and without importing this package.

Start with `fresh_process.py`.
"""
