"""Keras's own formats: `.keras` files (`keras_file.py`) and KerasHub preset folders (`keras_hub_preset.py`).

Start with these two. The other modules check the files before Keras builds the models in them.
"""
