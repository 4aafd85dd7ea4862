"""The network on `keras.ops`, the same code for TensorFlow and JAX, and one record per architecture in transformers.

Start with `layers.py` (the network) and `encoder.py`, then `architecture.py` (what a record states).
"""

# before the modules of the network, so that plug-ins, which the records load, can import these
from bert_keras.architectures import known_architectures  # noqa: F401
