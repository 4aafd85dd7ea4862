"""Checkpoint to artifact, each with a verdict. Import it as `bert_keras.export`."""
