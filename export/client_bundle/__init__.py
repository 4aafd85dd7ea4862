"""The files next to TFLite and ONNX files for programs on phones, in browsers and on edge devices.

Start with `client_description.py`, which describes a model in `model.json`; `bundle_files.py` writes all files.
"""
