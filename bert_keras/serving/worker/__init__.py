"""The worker process: it owns one version of one model, and answers jobs in batches of tokens.

Start with `worker_process.py`; `jobs.py` is what it exchanges with the server.
"""
