"""Options of the commands that train: devices, worker processes, backups, TensorBoard and callbacks."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bert_keras.cli.console import print_line
from bert_keras.cli.options.declaring import Options, non_negative_integer, positive_integer
from bert_keras.errors import InputError
from bert_keras.extras import check_tf_config, make_python_command
from bert_keras.pipelines.readers.option_spelling import spell_flag
from bert_keras.publishing import check_writable_folder, get_companion_folder
from bert_keras.training.config.tables import STRATEGIES
from bert_keras.training.tracking.named_callbacks import CallbackName

if TYPE_CHECKING:
    import keras
    import tensorflow as tf


_POLL_SECONDS = 0.2
_GRACE_SECONDS = 20.0  # for the other workers to exit after one has failed


def add_training_options(options: Options) -> None:
    """Add the options for devices, workers, backups and tracking as groups of the help, and `--overwrite`."""
    group = options.add_group("devices and backups")
    strategies = "mirrored: all GPUs here; multi-worker: the machines in TF_CONFIG; tpu"
    group.add_option("--strategy", STRATEGIES, strategies, "one-device")
    group.add_option("--workers", positive_integer, "start N multi-worker processes on this machine")
    backups = "save the training state next to OUT every N steps, for --resume; 0: only at SIGTERM"
    group.add_option("--backup-every", non_negative_integer, backups, 500)
    group.add_flag("--resume", "resume from the latest backup, if there is one")
    group.add_flag("--allow-changes", "resume with different settings or data")
    text = "recompute the activations of each block in the backward pass: less memory, a third more computation"
    group.add_flag("--gradient-checkpointing", text, has_negative=True)
    bits = "bit-identical results on every run, also on GPUs; disables XLA (docs/guide/training.md)"
    group.add_flag("--deterministic", bits)
    group = options.add_group("tracking")
    text = "write scalars, settings and examples for TensorBoard to this folder"
    group.add_option("--tensorboard", pathlib.Path, text, metavar="DIR")
    group.add_repeatable(
        "--callback",
        "MODULE:NAME[,KEY=VALUE...]",
        "Keras callback, a class or a function that returns one, such as mlflow.keras:MlflowCallback; modules of "
        "the current folder are found too",
    )
    options.add_overwrite("replace OUT if this command wrote it before; delete its backups unless --resume is given")


def check_tracking(arguments: argparse.Namespace) -> None:
    """Check what can be checked before TensorFlow is loaded.

    Raises:
        InputError: `--tensorboard` names a file, or `--callback` a package that is not installed.
    """
    if arguments.tensorboard is not None and arguments.tensorboard.is_file():
        raise InputError(f"--tensorboard {arguments.tensorboard} is a file; expected a folder: choose another name")
    for text in arguments.callback:
        CallbackName.parse(text).check_installed()


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


def get_run_arguments(
    arguments: argparse.Namespace, progress: keras.callbacks.Callback, strategy: tf.distribute.Strategy
) -> dict[str, object]:
    """Return the arguments of `bk.pretrain`, `bk.finetune` and `bk.distill` that all of them have.

    Raises:
        InputError: a callback cannot be imported or created.
    """
    from bert_keras.training.tracking.named_callbacks import make_callback

    return {
        "callbacks": [progress, *(make_callback(CallbackName.parse(text)) for text in arguments.callback)],
        "tensorboard": arguments.tensorboard,
        "verbose": False,
        "strategy": strategy,
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


def run_in_workers(arguments: argparse.Namespace) -> bool:
    """Run the same command in `--workers` processes; return False if the option was not given.

    Raises:
        SystemExit: a worker failed; the exit status is that of the worker.
    """
    if arguments.workers is None:
        return False

    argv = list(arguments.argv)
    index = next(index for index, arg in enumerate(argv) if arg.split("=")[0] == "--workers")
    del argv[index : index + (1 if "=" in argv[index] else 2)]
    status = run_workers(
        [*make_python_command("bert_keras.cli.main"), *argv, "--strategy", "multi-worker"], arguments.workers
    )
    if status:
        raise SystemExit(status)
    return True


def run_workers(command: Sequence[str], num_workers: int) -> int:
    """Run the same command in several processes that train together, and return their exit status.

    The first worker, the chief, prints to the terminal; the output of another one is printed only if it fails. When one
    worker fails, the others are stopped. SIGTERM is forwarded to all of them.

    Args:
        command: command line that each worker runs.
        num_workers: number of workers.

    Returns:
        0, or the exit status of the first worker that failed.
    """
    addresses = [f"127.0.0.1:{port}" for port in _free_ports(num_workers)]
    with contextlib.ExitStack() as files:
        outputs = [files.enter_context(tempfile.TemporaryFile()) for _ in range(num_workers)]
        workers = []
        try:
            for index in range(num_workers):
                config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
                output = {} if index == 0 else {"stdout": outputs[index], "stderr": outputs[index]}
                environment = {**os.environ, "TF_CONFIG": json.dumps(config)}
                workers.append(subprocess.Popen(command, env=environment, **output))
            previous_handler = signal.signal(signal.SIGTERM, lambda *_: _send(workers, signal.SIGTERM))
            status = _wait(workers)
            signal.signal(signal.SIGTERM, previous_handler)
        finally:
            _send(workers, signal.SIGKILL)
            for worker in workers:
                worker.wait()
        for index, worker in enumerate(workers[1:], 1):
            if worker.returncode not in (0, workers[0].returncode, -signal.SIGTERM, -signal.SIGKILL):
                outputs[index].seek(0)
                text = outputs[index].read().decode(errors="replace")
                print_line(f"worker {index} exited with status {worker.returncode}:")
                for line in text.splitlines():
                    print_line(line)
    return status


def _wait(workers: list[subprocess.Popen]) -> int:
    """Wait for all workers, with a time limit once one has failed; return the first failure status, or 0."""
    status, deadline = 0, None
    while any(worker.poll() is None for worker in workers):
        failed = [worker.returncode for worker in workers if worker.returncode]
        if failed and deadline is None:
            status, deadline = failed[0], time.monotonic() + _GRACE_SECONDS
        if deadline is not None and time.monotonic() > deadline:
            _send(workers, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    failed = [worker.returncode for worker in workers if worker.returncode]
    status = status or next(iter(failed), 0)
    return status if status >= 0 else 128 - status


def _send(workers: list[subprocess.Popen], signal_number: int) -> None:
    for worker in workers:
        if worker.poll() is None:
            worker.send_signal(signal_number)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.socket()) for _ in range(count)]
        for bound in sockets:
            bound.bind(("127.0.0.1", 0))
        return [bound.getsockname()[1] for bound in sockets]
