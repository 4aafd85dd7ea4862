"""Engines: what runs a model on batches of sequences, a Keras model or an artifact in its runtime.

Start with `predictor.py`, which applies a task to a checkpoint or an artifact, and `engine.py`; `artifact_files.py`
finds an artifact and what its folder states about it.
"""
