"""What the readers of all heads share: options, held-out examples, warnings, and examples to answer or to score.

Start with `file_options.py`.
"""
