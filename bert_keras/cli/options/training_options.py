"""Options of the commands that train: devices, worker processes, and backups of the training state."""

from __future__ import annotations

import argparse
import pathlib
from typing import TYPE_CHECKING

from bert_keras.cli.options.argument_checks import add_option, add_overwrite, non_negative_integer, positive_integer
from bert_keras.cli.options.tracking_options import add_tracking_options
from bert_keras.errors import InputError
from bert_keras.extras import check_tf_config, make_python_command
from bert_keras.pipelines.readers.option_spelling import spell_flag
from bert_keras.publishing import check_writable_folder, get_companion_folder
from bert_keras.training.config.tables import STRATEGIES

if TYPE_CHECKING:
    import tensorflow as tf


_BACKUP_STEPS = 500


def add_training_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for devices, workers and backups as a group of the help, and `--overwrite`."""
    group = parser.add_argument_group("devices and backups")
    strategies = "mirrored: all GPUs here; multi-worker: the machines in TF_CONFIG; tpu"
    add_option(group, "--strategy", STRATEGIES, strategies, "one-device")
    add_option(group, "--workers", positive_integer, "start N multi-worker processes on this machine")
    add_option(
        group,
        "--backup-every",
        non_negative_integer,
        "save the training state next to OUT every N steps, for --resume; 0: only at SIGTERM",
        _BACKUP_STEPS,
    )
    group.add_argument("--resume", action="store_true", help="resume from the latest backup, if there is one")
    group.add_argument("--allow-changes", action="store_true", help="resume with different settings or data")
    group.add_argument(
        "--gradient-checkpointing",
        action=argparse.BooleanOptionalAction,
        help="recompute the activations of each block in the backward pass: less memory, a third more computation",
    )
    group.add_argument(
        "--deterministic",
        action="store_true",
        help="bit-identical results on every run, also on GPUs; disables XLA (docs/guide/training.md)",
    )
    add_tracking_options(parser)
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
        [*make_python_command("bert_keras.cli.main"), *argv, "--strategy", "multi-worker"], arguments.workers
    )
    if status:
        raise SystemExit(status)
    return True


def get_backup_arguments(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the arguments of `bk.pretrain` and `bk.finetune` about OUT and its backups."""
    return {
        "overwrite": arguments.overwrite,
        "backup_every": arguments.backup_every,
        "resume": arguments.resume,
        "allow_changes": arguments.allow_changes,
        "spell": spell_flag,
    }


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
    from bert_keras.training.backups import get_backup_folder

    steps = get_backup_folder(arguments.out).steps()
    return f"{text}; " + (f"the latest is from step {steps[-1]:,}" if steps else "there is none to resume from")


def check_out(arguments: argparse.Namespace, *inputs: pathlib.Path) -> None:
    """Check that OUT can be written, that no interrupted training is overlooked, and that the workers are known.

    Raises:
        InputError: one of these checks failed.
    """
    check_writable_folder(arguments.out, arguments.command, overwrite=arguments.overwrite, inputs=inputs)
    if arguments.strategy == "multi-worker" and arguments.workers is None:
        check_tf_config()
    from bert_keras.training.backups import check_no_backup

    check_no_backup(arguments.out, resume=arguments.resume, overwrite=arguments.overwrite, spell=spell_flag)


def prepare_devices(arguments: argparse.Namespace) -> tf.distribute.Strategy:
    """Configure the process for training and return the strategy. Call this right after TensorFlow is loaded.

    Raises:
        InputError: the device does not exist, or `TF_CONFIG` is invalid.
    """
    from bert_keras.training.strategies import keep_freed_memory, make_strategy

    keep_freed_memory()
    if arguments.deterministic:
        import tensorflow

        tensorflow.config.experimental.enable_op_determinism()
    return make_strategy(arguments.strategy)
