"""Export checkpoints as SavedModel, TFLite and ONNX files, and compare each artifact with its checkpoint.

Start with `artifacts.py` (`bk.export_model`), which writes the artifacts of one checkpoint, and with
`parity/parity_check.py`, which reloads an artifact in a fresh process and compares its outputs with the model's.

Example:
    >>> import bert_keras.export.artifacts
    >>> bk.export.artifacts.export_model is bk.export_model
    True
"""
