"""Fine-tuning tasks: each encodes examples, decodes a model's outputs into answers, and scores them.

Start with `base.py`; `predictor.py` and `evaluation.py` apply a task to a checkpoint.
"""
