"""What a fine-tuning trains: all weights or adapters, on labels. Start with `label_training.py`."""
