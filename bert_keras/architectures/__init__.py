"""The network on `keras.ops`, the same code for TensorFlow and JAX, and one record per architecture in transformers.

Start with `layers.py` (the network) and `encoder.py`, then `architecture.py` (what a record states).
"""
