"""Messages of the gRPC services, compatible on the wire with the official ones, and their tensors as NumPy arrays.

Start with `bert_keras/message_builder.py`, which builds the classes; `tensorflow_serving.py` and `open_inference.py`
are the two protocols.
"""
