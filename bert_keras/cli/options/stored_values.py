"""The action of arguments with a value, which tells the shell's completion which of them are files."""

import argparse
import pathlib

from bert_keras.cli.options.model_folder import parse_model_path

# `shtab.FILE`: the function of each shell's script that completes files and folders; a test compares them
FILES = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f"}


class StoredValue(argparse.Action):
    """Store a value, as argparse's own action does. shtab reads the attribute `complete` of an action."""

    def __init__(self, option_strings: list[str], dest: str, **options: object):
        super().__init__(option_strings, dest, **options)
        if self.type in (pathlib.Path, parse_model_path):
            self.complete = FILES

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Store the value."""
        setattr(namespace, self.dest, values)
