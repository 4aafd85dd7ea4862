"""Options of the commands that train: devices, worker processes, and backups of the training state."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from bert_keras.cli.options.argument_checks import add_option, add_overwrite, non_negative_integer, positive_integer
from bert_keras.errors import InputError
from bert_keras.publishing import check_writable_folder, get_companion_folder, write_or_keep
from bert_keras.staging import lock_folder
from bert_keras.training.config.tables import STRATEGIES
from bert_keras.training.config.tf_config import check_tf_config

if TYPE_CHECKING:
    import tensorflow as tf

    from bert_keras.training.backups import BackupFolder, BackupOptions

_BACKUP_STEPS = 500


def add_training_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for devices, workers and backups, and `--overwrite`."""
    strategies = "mirrored: all GPUs here; multi-worker: the machines in TF_CONFIG; tpu"
    add_option(parser, "--strategy", STRATEGIES, strategies, "one-device")
    add_option(parser, "--workers", positive_integer, "start N multi-worker processes on this machine")
    add_option(
        parser,
        "--backup-every",
        non_negative_integer,
        "save the training state next to OUT every N steps, for --resume; 0: only at SIGTERM",
        _BACKUP_STEPS,
    )
    parser.add_argument("--resume", action="store_true", help="resume from the latest backup, if there is one")
    parser.add_argument("--allow-changes", action="store_true", help="resume with different settings or data")
    parser.add_argument(
        "--gradient-checkpointing",
        action="store_true",
        help="recompute the activations of each block in the backward pass: less memory, a third more computation",
    )
    parser.add_argument(
        "--deterministic",
        action="store_true",
        help="bit-identical results on every run, also on GPUs; disables XLA (docs/guide/training.md)",
    )
    add_overwrite(parser, "replace OUT if this command wrote it before; delete its backups unless --resume is given")


def run_in_workers(arguments: argparse.Namespace) -> bool:
    """Run the same command in `--workers` processes; return False if the option was not given.

    Raises:
        SystemExit: a worker failed; the exit status is that of the worker.
    """
    if arguments.workers is None:
        return False
    from bert_keras.cli.local_workers import run_workers

    argv = list(arguments.argv)
    index = next(index for index, arg in enumerate(argv) if arg.split("=")[0] == "--workers")
    del argv[index : index + (1 if "=" in argv[index] else 2)]
    status = run_workers(
        [sys.executable, "-m", "bert_keras.cli.main", *argv, "--strategy", "multi-worker"], arguments.workers
    )
    if status:
        raise SystemExit(status)
    return True


def make_backup_options(arguments: argparse.Namespace, strategy: tf.distribute.Strategy) -> BackupOptions:
    """Return where and when backups are saved; with `--overwrite`, delete those of an earlier run."""
    from bert_keras.training.backups import BackupOptions
    from bert_keras.training.strategies import is_chief

    backups = backup_folder(arguments.out)
    if arguments.overwrite and not arguments.resume and is_chief(strategy):
        backups.remove()
    return BackupOptions(backups, arguments.backup_every, arguments.resume, arguments.allow_changes)


def format_batch(batch_size: int, strategy: tf.distribute.Strategy, num_micro_batches: int) -> str:
    """Format how a batch is divided among replicas and micro-batches.

    Raises:
        InputError: the batch cannot be divided evenly.
    """
    num_replicas = strategy.num_replicas_in_sync
    divisor = num_replicas * num_micro_batches
    if batch_size % divisor:
        raise InputError(
            f"a batch of {batch_size} sequences cannot be divided among {num_replicas} replicas with "
            f"{num_micro_batches} micro-batches each: make it a multiple of {divisor}"
        )
    text = f"{batch_size} sequences per step"
    if divisor > 1:
        text += f" = {num_replicas} replicas x {num_micro_batches} micro-batches x {batch_size // divisor}"
    return text


def format_backups(arguments: argparse.Namespace) -> str:
    """Format when and where backups are saved, and with `--resume` which one is the latest."""
    when = f"every {arguments.backup_every:,} steps" if arguments.backup_every else "only at SIGTERM"
    text = f"{when}, in {get_companion_folder(arguments.out, 'training')}"
    if not arguments.resume:
        return text
    steps = backup_folder(arguments.out).steps()
    return f"{text}; " + (f"the latest is from step {steps[-1]:,}" if steps else "there is none to resume from")


def check_out(arguments: argparse.Namespace, *inputs: pathlib.Path) -> None:
    """Check that OUT can be written, that no interrupted training is overlooked, and that the workers are known.

    Raises:
        InputError: one of these checks failed.
    """
    check_writable_folder(arguments.out, arguments.command, overwrite=arguments.overwrite, inputs=inputs)
    if arguments.strategy == "multi-worker" and arguments.workers is None:
        check_tf_config()
    backups = backup_folder(arguments.out)
    steps = backups.steps()
    if steps and not arguments.resume and not arguments.overwrite:
        raise InputError(
            f"training of {arguments.out} was interrupted, and its backup from step {steps[-1]:,} is in "
            f"{backups.path}: continue with --resume, or start over with --overwrite"
        )


def backup_folder(out: pathlib.Path) -> BackupFolder:
    """Return the folder for the backups of a training of `out`."""
    from bert_keras.training.backups import BackupFolder

    return BackupFolder(get_companion_folder(out, "training").absolute())


@contextlib.contextmanager
def lock_training(out: pathlib.Path, strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Hold the lock of OUT's backup folder, and remove the folder at the end if it is empty; only the chief does so.

    Raises:
        InputError: another training of OUT is running.
    """
    from bert_keras.training.strategies import is_chief

    if not is_chief(strategy):
        yield
        return
    folder = backup_folder(out).path
    try:
        with lock_folder(folder):
            yield
    finally:
        with contextlib.suppress(OSError):  # the folder has backups, or was removed
            folder.rmdir()


def publish_model(arguments: argparse.Namespace, write: Callable[[pathlib.Path], None]) -> None:
    """Write OUT, then delete the backups.

    Args:
        arguments: arguments of the command.
        write: function that writes the model to a given folder, see `write_or_keep`.

    Raises:
        InputError: OUT cannot be written. The message says where the model was saved instead; the backups stay.
    """
    backups = backup_folder(arguments.out)
    write_or_keep(arguments.out, write, if_lost=lambda: _format_recovery(backups))
    backups.remove()


def _format_recovery(backups: BackupFolder) -> str:
    """Format what remains of a trained model that could not be written anywhere, and what to do."""
    steps = backups.steps()
    if not steps:
        return "the trained model is lost, because there is no backup either: free disk space before training again"
    return (
        f"the state after step {steps[-1]:,} is in {backups.path}: free disk space, and run the same command again "
        "with --resume"
    )


def prepare_devices(arguments: argparse.Namespace) -> tf.distribute.Strategy:
    """Configure the process for training and return the strategy. Call this right after TensorFlow is loaded.

    Raises:
        InputError: the device does not exist, or `TF_CONFIG` is invalid.
    """
    from bert_keras.training.freed_memory import keep_freed_memory
    from bert_keras.training.strategies import make_strategy

    keep_freed_memory()
    if arguments.deterministic:
        import tensorflow

        tensorflow.config.experimental.enable_op_determinism()
    return make_strategy(arguments.strategy)
