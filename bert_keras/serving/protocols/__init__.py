"""The protocols of clients over HTTP, one module for each. Those of gRPC are in `../grpc_server.py`.

Start with `tasks.py`, our own endpoints; `model_calls.py` chooses the model of a request.
"""
