"""Models as traced TensorFlow functions: their operations, tensor sizes, tensor lifetimes and FLOPs.

Start with `sized_graph.py`, which traces a function once and knows it for every batch shape.
"""
