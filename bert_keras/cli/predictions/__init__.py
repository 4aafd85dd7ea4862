"""The parts of `bert-keras predict`: the model, the examples that it reads, and the output that can be continued.

Start with `../commands/predict.py`, which puts them together.
"""
