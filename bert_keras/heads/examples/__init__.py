"""Read files and data in memory as the examples of a task.

Start with `training_data.py`; `scoring_data.py` and `prediction_data.py` are its counterparts for a given task.
"""
