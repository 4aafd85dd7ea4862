"""Raw text as a stream: files, folders, gzip, JSON lines, standard input, and the default corpus.

Start with `text_sources.py`.
"""
