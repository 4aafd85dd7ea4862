"""ONNX files: conversion with tf2onnx, int8 weights, and the folder that other tools open.

Start with `onnx_artifact.py`.
"""
