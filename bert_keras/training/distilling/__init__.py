"""`bk.distill`: train a small student on the outputs of a fine-tuned teacher.

Start with `distilling_to_folder.py`.
"""
