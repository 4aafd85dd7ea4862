"""The messages of gRPC's protocols, without TensorFlow, and their tensors.

Start with `definitions.py`, which reads `messages.textproto`.
"""
