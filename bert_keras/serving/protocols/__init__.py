"""The protocols of clients, one module for each protocol and transport.

Start with `tasks.py`, our own endpoints; `model_calls.py` chooses the model of a request.
"""
