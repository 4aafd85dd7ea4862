"""Engines: what runs a model on batches of sequences, a Keras model or an artifact in its runtime.

Start with `engine.py`; `artifact_files.py` finds an artifact and what its folder states about it.
"""
