"""`bert-keras doctor`: check the installation, the machine, and folders and files of bert-keras.

Start with `examination.py`. Nothing here imports TensorFlow into the calling process.
"""
