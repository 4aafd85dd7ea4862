"""The search for the settings of a fine-tuning.

Start with `settings_search.py`; `searched_finetuning.py` has the ranges, `trials.py` the record of the trials on disk.
"""
