"""LoRA adapters (Hu et al. 2021): train them in a model, merge them, and read and write them in PEFT's format.

Start with `lora_layers.py` for training, and with `merged_checkpoint.py` for adapters that were trained elsewhere.
"""
