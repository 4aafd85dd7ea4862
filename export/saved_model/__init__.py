"""SavedModels that take raw text, the audit of their operators, and the files for TensorFlow Serving.

Start with `text_model.py` (the graph) and `saved_model_artifact.py` (the folder).
"""
