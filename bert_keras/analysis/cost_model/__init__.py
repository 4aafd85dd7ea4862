"""Counting: parameters, floating-point operations and steps of a model as it is built and traced."""
