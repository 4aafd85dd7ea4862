"""Settings of a training run, read strictly from a recipe, a TOML file and flags; no TensorFlow here.

Start with `recipes.py` (pretraining) and `finetuning_settings.py`.
"""
