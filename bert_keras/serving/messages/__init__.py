"""Messages of the gRPC services, compatible on the wire with the official ones, and their tensors as NumPy arrays.

Start with `message_builder.py`; `tensorflow_serving.py` and `open_inference.py` are the two protocols.
"""
