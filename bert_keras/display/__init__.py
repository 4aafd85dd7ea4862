"""Lines and progress bars on standard error: in terminals, notebooks and logs, as text or JSON; no TensorFlow here.

Start with `printing.py`; `progress_bar.py` chooses the form of a progress bar.
"""
