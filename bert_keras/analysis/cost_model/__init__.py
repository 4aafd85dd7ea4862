"""The cost model: parameters, FLOPs, memory and time of a model, from the model as it is built and traced.

Start with `planning.py`.
"""
