"""The parity check: reload an artifact in its own runtime and compare its outputs with the checkpoint's.

Start with `parity_check.py`; `probe_inputs.py` chooses the inputs, `reference.py` computes the expected outputs,
`fresh_process.py` runs the artifact.
"""
