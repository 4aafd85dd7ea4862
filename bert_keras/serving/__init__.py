"""The server `bert-keras serve`: models in worker processes, and the protocols that clients speak.

Start with `server.py`; `worker/` is the process that answers, `repository.py` its side in the server, and
`protocols/` what clients send.
"""
