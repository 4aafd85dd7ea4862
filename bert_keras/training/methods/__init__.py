"""Methods of fine-tuning: train all weights, or adapters, on labels. Start with `label_training.py`."""
