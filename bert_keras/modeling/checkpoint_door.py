"""How `BertClassifier.from_checkpoint(folder)` reaches the reader without importing it.

Folders are read in `bert_keras/checkpoints`, a row below this one in the direction rule,
so that folder hands its reader in here when it is imported (the public names do that).
"""

import os

_readers = []


def open_with(reader) -> None:
    """Installs `reader(model_class, folder, **head)`; the last one installed is used."""
    _readers[:] = [reader]


class CheckpointDoor:
    """Gives a model class `from_checkpoint`."""

    @classmethod
    def from_checkpoint(cls, folder: str | os.PathLike, **head):
        """Builds this model on the weights of a checkpoint folder.

        Args:
            folder: any folder that `bert_keras.load` reads.
            **head: the head's own arguments (`num_classes`, `labels`, ...). A head of the
                same kind and size in the folder is kept; another one starts afresh.

        Raises:
            InputError: the folder cannot be read, or the head's arguments are missing.
        """
        if not _readers:
            raise RuntimeError("import bert_keras.checkpoints first: it reads the folders")
        return _readers[0](cls, folder, **head)
