"""Keras's own formats: KerasHub preset folders (`keras_hub_preset.py`) and `.keras` files (`../loading.py`).

Start with `keras_hub_preset.py`; `keras_weights.py` checks the files before Keras builds the models in them.
"""
