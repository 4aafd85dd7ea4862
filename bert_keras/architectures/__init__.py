"""One record per architecture in transformers: the names of its tensors and classes. Start with `architecture.py`."""
