"""What a training shows and records while it runs: log, progress bars, TensorBoard, callbacks of other packages.

Start with `tracked_training.py`.
"""
