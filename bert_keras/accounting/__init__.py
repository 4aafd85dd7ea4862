"""Counting: parameters, floating-point operations and memory of a model as it is built and traced."""
