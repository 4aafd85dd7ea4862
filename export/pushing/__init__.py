"""Push a checkpoint folder, and artifacts of it, to the Hugging Face Hub with a model card.

Start with `pushing.py` (`bk.push`); `pushed_files.py` chooses the files, and `pushed_card.py` completes the card.
"""
