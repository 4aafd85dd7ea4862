"""Hugging Face and sentence-transformers model folders: config, weight names, weights, modules and model card.

Start with `huggingface_folder.py`, which reads such a folder; `../saving.py` writes it.
"""
