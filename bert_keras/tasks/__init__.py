"""The tasks: text classification, tagging, question answering, embedding and fill-mask. Text in, answers and scores out.

Start with `base.py` (`Task`) and `predictor.py`.
"""
