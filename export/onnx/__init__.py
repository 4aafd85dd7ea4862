"""ONNX files: conversion with tf2onnx, 8-bit weights, and the folder that other tools open.

Start with `to_onnx.py`, which converts a model; `onnx_artifact.py` writes the artifacts and starts their parity checks.
"""
