"""Options of the verbs that train: on which devices, by how many processes, and what a killed training leaves."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from bert_keras.cli.options.argument_checks import add_overwrite, positive_integer, whole_number
from bert_keras.errors import InputError
from bert_keras.publishing import check_writable_folder, get_companion_folder, write_or_keep
from bert_keras.staging import lock_folder
from bert_keras.training.config.tables import STRATEGIES
from bert_keras.training.config.tf_config import check_tf_config

if TYPE_CHECKING:
    from bert_keras.training.backups import BackupFolder, BackupOptions

_BACKUP_STEPS = 500


def add_training_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of every training, and `--overwrite`."""
    parser.add_argument(
        "--strategy",
        choices=STRATEGIES,
        default="one-device",
        help="all GPUs here (mirrored), the machines of TF_CONFIG (multi-worker), a TPU (default %(default)s)",
    )
    parser.add_argument(
        "--workers", type=positive_integer, metavar="N", help="start N workers on this machine, multi-worker"
    )
    parser.add_argument(
        "--backup-every",
        type=whole_number,
        default=_BACKUP_STEPS,
        metavar="STEPS",
        help="keep the state of the training beside OUT, to be resumed (default %(default)s; 0: only at SIGTERM)",
    )
    parser.add_argument("--resume", action="store_true", help="go on from the newest backup, if there is one")
    parser.add_argument("--allow-changes", action="store_true", help="resume with other settings or other records")
    parser.add_argument(
        "--gradient-checkpointing",
        action="store_true",
        help="compute the inside of each block twice instead of keeping it: less memory, a third more work",
    )
    parser.add_argument(
        "--deterministic",
        action="store_true",
        help="the same bits on every run, also on GPUs; without XLA (docs/guide/training.md)",
    )
    add_overwrite(
        parser, "replace OUT if an earlier run of this command wrote it; drop its backups, unless --resume is given"
    )


def started_workers(arguments: argparse.Namespace) -> bool:
    """Runs the same command in `--workers` processes, if that was asked for; returns whether it was.

    Raises:
        SystemExit: a worker failed; its status is handed on.
    """
    if arguments.workers is None:
        return False
    from bert_keras.cli.local_workers import run_workers

    words = list(arguments.words)
    place = next(index for index, word in enumerate(words) if word.split("=")[0] == "--workers")
    del words[place : place + (1 if "=" in words[place] else 2)]
    status = run_workers(
        [sys.executable, "-m", "bert_keras.cli.main", *words, "--strategy", "multi-worker"], arguments.workers
    )
    if status:
        raise SystemExit(status)
    return True


def make_backup_options(arguments: argparse.Namespace, strategy) -> BackupOptions:
    """Returns what is kept of the training; what was kept of an earlier one goes, if that is meant."""
    from bert_keras.training.backups import BackupOptions
    from bert_keras.training.strategies import is_chief

    backups = backups_of(arguments.out)
    if arguments.overwrite and not arguments.resume and is_chief(strategy):
        backups.remove()
    return BackupOptions(backups, arguments.backup_every, arguments.resume, arguments.allow_changes)


def batch_arithmetic(batch_size: int, strategy, num_parts: int) -> str:
    """Returns how a batch is divided, in words.

    Raises:
        InputError: it cannot be divided evenly.
    """
    num_replicas = strategy.num_replicas_in_sync
    if batch_size % (num_replicas * num_parts):
        raise InputError(
            f"a batch of {batch_size} rows cannot be divided among {num_replicas} replicas of {num_parts} parts: make "
            f"it a multiple of {num_replicas * num_parts}"
        )
    if num_replicas * num_parts == 1:
        return f"{batch_size} rows a step"
    rows = batch_size // num_replicas // num_parts
    return f"{batch_size} rows a step = {num_replicas} replicas x {num_parts} parts x {rows}"


def backups_shown(arguments: argparse.Namespace) -> str:
    """Returns where backups go and when, in words."""
    backups = backups_of(arguments.out)
    when = f"every {arguments.backup_every:,} steps" if arguments.backup_every else "when told to stop"
    steps = backups.steps()
    newest = f"the newest is of step {steps[-1]:,}" if steps else "there is none to go on from"
    return f"{when}, in {get_companion_folder(arguments.out, 'training')}" + (f"; {newest}" if arguments.resume else "")


def check_out(arguments: argparse.Namespace, *inputs: pathlib.Path) -> None:
    """Raises `InputError` if OUT may not be written, or was being trained before, or if workers are not known."""
    check_writable_folder(arguments.out, arguments.command, overwrite=arguments.overwrite, inputs=inputs)
    if arguments.strategy == "multi-worker" and arguments.workers is None:
        check_tf_config()
    steps = backups_of(arguments.out).steps()
    if steps and not arguments.resume and not arguments.overwrite:
        raise InputError(
            f"a training of {arguments.out} was interrupted, and its backup of step {steps[-1]:,} is in "
            f"{backups_of(arguments.out).path}: go on with --resume, or begin anew with --overwrite"
        )


def backups_of(out: pathlib.Path) -> BackupFolder:
    """Returns where the state of a training of `out` is kept."""
    from bert_keras.training.backups import BackupFolder

    return BackupFolder(get_companion_folder(out, "training").absolute())


@contextlib.contextmanager
def only_training_of(out: pathlib.Path, strategy) -> Iterator[None]:
    """Hold the lock of the backups of OUT, and remove their folder at the end if it is empty; workers do neither.

    Raises:
        InputError: another training of OUT is running.
    """
    from bert_keras.training.strategies import is_chief

    if not is_chief(strategy):
        yield
        return
    folder = backups_of(out).path
    try:
        with lock_folder(folder):
            yield
    finally:
        with contextlib.suppress(OSError):  # it has backups, or is gone
            folder.rmdir()


def publish(arguments: argparse.Namespace, write: Callable[[pathlib.Path], None]) -> None:
    """Write OUT, and then drop the backups.

    Args:
        arguments: of the command.
        write: writes the model to the folder that it is given, see `write_or_keep`.

    Raises:
        InputError: OUT cannot be written; the message says where the model is. The backups stay.
    """
    backups = backups_of(arguments.out)
    write_or_keep(arguments.out, write, if_lost=lambda: _kept_backup(backups))
    backups.remove()


def _kept_backup(backups: BackupFolder) -> str:
    """Return which backup there is, and what to do, in words."""
    steps = backups.steps()
    if not steps:
        return "the training is lost, because there is no backup either: make room before you train again"
    return (
        f"the training up to step {steps[-1]:,} is in {backups.path}: make room, and run the same command again with "
        "--resume"
    )


def prepare_devices(arguments: argparse.Namespace):
    """Prepare the process for training and return the strategy. To be called right after TensorFlow is loaded.

    Raises:
        InputError: there is no such device, or `TF_CONFIG` is wrong.
    """
    from bert_keras.training.freed_memory import keep_freed_memory
    from bert_keras.training.strategies import make_strategy

    keep_freed_memory()
    if arguments.deterministic:
        import tensorflow as tf

        tf.config.experimental.enable_op_determinism()
    return make_strategy(arguments.strategy)
