"""`.keras` files and KerasHub preset folders, with the checks that run before Keras builds what they describe.

Start with `keras_file.py` and `keras_hub_preset.py`.
"""
