"""Programs that run an artifact in its own runtime, without importing this package, and the process that starts them.

Start with `fresh_process.py`; the programs `run_*.py` exchange files with it through `exchange.py`.
"""
