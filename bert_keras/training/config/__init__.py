"""Settings of a training run, validated strictly, from a recipe, a TOML file and options; no TensorFlow here.

Start with `recipes.py` (pretraining) and `finetuning_settings.py`; `tables.py` documents every setting of pretraining.
"""
