"""The models in the server: their folders and versions, and the worker processes that answer for them.

Start with `repository.py`.
"""
