"""The HTTP side of the server: the application, its limits, its metrics and its pages.

Start with `application.py`; what clients can call is in `../protocols/`.
"""
