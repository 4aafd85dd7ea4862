"""What a SavedModel answers to raw text, in the graph: for each task what `Task.answers` gives in Python."""
