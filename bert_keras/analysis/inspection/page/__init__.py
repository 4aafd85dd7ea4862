"""The HTML pages of an inspection and of a training history; each is one file that needs no network.

Start with `inspection_page.py`.
"""
