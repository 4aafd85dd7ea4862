"""`tf.data` batches: tokens packed into sequences, windows, masking, and the order of records.

Start with `packing.py` and `pretraining_batches.py`.
"""
