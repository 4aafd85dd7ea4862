"""TensorFlow functions traced once: their operations, FLOPs, tensor sizes and tensor lifetimes.

Start with `sized_graph.py`, which traces a function once and scales its tensors to every batch shape.
"""
