"""TFLite files for LiteRT and MediaPipe.

Start with `tflite_artifact.py`.
"""
