"""`bk.distill`: train a small student on the outputs of a fine-tuned teacher.

Start with `distilling_to_folder.py`; `teacher_training.py` is what differs from a fine-tuning.
"""
