"""SavedModels that accept raw text, and everything that TensorFlow Serving needs to serve them.

Start with `to_saved_model.py`, which builds the graph from raw text to answers; `saved_model_artifact.py` writes the
artifact and starts its parity check.
"""
