"""TFLite files for LiteRT and MediaPipe.

Start with `to_tflite.py`, which converts a model; `tflite_artifact.py` writes the artifacts and starts their parity
checks.
"""
