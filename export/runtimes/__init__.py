"""Each artifact in its own runtime, as a program that knows nothing of this package, in a fresh process."""
