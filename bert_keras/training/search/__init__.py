"""Search for the settings of a fine-tuning by successive halving.

Start with `settings_search.py`; `searched_finetuning.py` has the ranges and the record of the trials on disk.
"""
