"""AdamW, LAMB and Muon as BERT uses them, learning-rate schedules, and layer-wise learning-rate decay.

Start with `schedules.py`.
"""
