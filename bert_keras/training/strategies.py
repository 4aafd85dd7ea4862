"""Where a training runs (one device, all devices of a machine, several machines, a TPU), in which dtype and memory."""

import contextlib
import ctypes
import logging
from collections.abc import Callable, Iterator

import keras
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.extras import Processor, check_tf_config, read_processor
from bert_keras.pipelines.batches.epochs import BatchShare
from bert_keras.training.config.tables import STRATEGIES

_LOG = logging.getLogger(__name__)
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # the parameter numbers of mallopt in glibc's malloc.h
_MAX_INT = 2**31 - 1  # mallopt accepts an int; free memory at the top of the heap beyond this goes back to the kernel


def make_strategy(name: str) -> tf.distribute.Strategy:
    """Create a `tf.distribute` strategy. Call it before any other use of TensorFlow.

    Args:
        name: "one-device" (TensorFlow's default); "mirrored" (all GPUs of this machine, or else its logical CPUs);
            "multi-worker" (the machines that `TF_CONFIG` lists); or "tpu" (the TPU of this machine, or the one that
            `TPU_NAME` names).

    Raises:
        InputError: the name is unknown, `TF_CONFIG` is missing or invalid, or there is no TPU.
    """
    if name not in STRATEGIES:
        raise InputError(f"there is no strategy {name!r}; expected one of {', '.join(STRATEGIES)}")
    if name == "mirrored":
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    if name == "multi-worker":
        check_tf_config()
        return tf.distribute.MultiWorkerMirroredStrategy()
    if name == "one-device":
        return tf.distribute.get_strategy()
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    except (ValueError, tf.errors.OpError, RuntimeError) as error:
        raise InputError(
            f"no TPU was found ({str(error).splitlines()[0]}): run this on a machine with a TPU, set TPU_NAME if there "
            "are several, or choose another strategy"
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Return whether this process is the one that writes files."""
    resolver = getattr(strategy, "cluster_resolver", None)
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) or not resolver.cluster_spec().jobs:
        return True
    if "chief" in resolver.cluster_spec().jobs:
        return resolver.task_type == "chief"
    return resolver.task_id == 0


def distribute_batches(
    strategy: tf.distribute.Strategy, make_batches: Callable[[BatchShare], tf.data.Dataset]
) -> tf.data.Dataset | tf.distribute.DistributedDataset:
    """Create the batches for `model.fit`, in which each replica finds its own share of the sequences.

    Args:
        strategy: the strategy that `fit` runs under.
        make_batches: a function that creates the batches of one share.
    """

    def make_worker_batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
        num_workers = context.num_input_pipelines
        share = BatchShare(num_workers, context.input_pipeline_id, context.num_replicas_in_sync // num_workers)
        return make_batches(share)

    return strategy.distribute_datasets_from_function(make_worker_batches)


def make_all_reduce_any(strategy: tf.distribute.Strategy) -> Callable[[bool], bool]:
    """Create a function that returns whether any worker passed True. All workers must call it at the same time."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) or strategy.num_replicas_in_sync == 1:
        return bool

    @tf.function(autograph=False)
    def sum_votes(vote: tf.Tensor) -> tf.Tensor:
        def all_reduce(vote: tf.Tensor) -> tf.Tensor:
            # a copy, because a tensor from outside the function has no device
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(vote))

        return strategy.experimental_local_results(strategy.run(all_reduce, args=(vote,)))[0]

    return lambda vote: float(sum_votes(tf.constant(float(vote)))) > 0


def should_compile(jit_compile: bool | str, dtype_policy: str, processor: Processor | None = None) -> bool:
    """Return whether XLA compiles the pretraining step.

    XLA computes bfloat16 in float32 on a CPU, and TensorFlow's own kernels use the processor's bfloat16 instructions.

    Args:
        jit_compile: `speed.jit_compile` of the run; "auto" is yes, except where TensorFlow's own kernels use bfloat16
            instructions and XLA does not.
        dtype_policy: `model.dtype_policy` of the run.
        processor: default: that of this machine.

    Example:
        >>> should_compile("auto", "float32"), should_compile(False, "float32")
        (True, False)
    """
    if jit_compile != "auto":
        return bool(jit_compile)
    if dtype_policy != "mixed_bfloat16" or any(tf.config.list_physical_devices(kind) for kind in ("GPU", "TPU")):
        return True
    return "BF16" not in (processor or read_processor()).features


@contextlib.contextmanager
def dtype_policy_scope(name: str) -> Iterator[None]:
    """Set Keras's default dtype policy within the block, such as "mixed_bfloat16"."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def keep_freed_memory() -> bool:
    """Make glibc keep freed memory for later allocations instead of returning it to the kernel.

    TensorFlow on a CPU allocates the large tensors of each step again. glibc maps each of them with a new `mmap`, and
    the kernel zeroes it page by page. With this setting a step of a tiny model took 29 % less processor time. The
    process never uses less memory than its peak. A second call changes nothing.

    The setting affects the whole process, so only the commands that train call this function, never the library.

    Returns:
        False if the C library is not glibc (macOS, Windows, Alpine), and nothing changed.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    done = all(mallopt(*setting) for setting in ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, _MAX_INT)))
    _LOG.debug("glibc keeps freed memory: %s", done)
    return done
