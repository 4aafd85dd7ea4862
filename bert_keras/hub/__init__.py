"""The Hugging Face Hub: download model folders named `hf://ORG/NAME`, and check whether files can be uploaded.

Nothing here runs unless a name starts with `hf://` or `push` is called. Start with `names.py`; `client.py` opens
huggingface_hub and turns its errors into one sentence.
"""
