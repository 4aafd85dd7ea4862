"""AdamW and LAMB as BERT uses them, learning-rate schedules, and layer-wise learning-rate decay.

Start with `adamw_and_lamb.py`.
"""
