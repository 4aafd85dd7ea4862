"""What a model computes on one text: attention, vectors, predictions; as arrays, an HTML page and figures.

Start with `inspecting.py`.
"""
