"""Where a training runs: one device, all devices of a machine, several machines, a TPU."""

from collections.abc import Callable

import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.pipelines.batches.batch_share import BatchShare
from bert_keras.training.config.tables import STRATEGIES
from bert_keras.training.config.tf_config import check_tf_config


def make_strategy(name: str) -> tf.distribute.Strategy:
    """Returns the `tf.distribute` strategy of that name. To be called before TensorFlow is used.

    Args:
        name: "one-device": TensorFlow's default; "mirrored": all GPUs of this machine, or its logical CPUs;
            "multi-worker": the machines that `TF_CONFIG` lists, as TensorFlow defines it; "tpu": this machine's, or the
            one that `TPU_NAME` names.

    Raises:
        InputError: an unknown name, no `TF_CONFIG` or a wrong one, or no TPU.
    """
    if name not in STRATEGIES:
        raise InputError(f"there is no strategy {name!r}; expected one of {', '.join(STRATEGIES)}")
    if name == "mirrored":
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    if name == "multi-worker":
        check_tf_config()
        return tf.distribute.MultiWorkerMirroredStrategy()
    if name == "tpu":
        return _tpu_strategy()
    return tf.distribute.get_strategy()


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process is the one that writes files."""
    resolver = getattr(strategy, "cluster_resolver", None)
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) or not resolver.cluster_spec().jobs:
        return True
    if "chief" in resolver.cluster_spec().jobs:
        return resolver.task_type == "chief"
    return resolver.task_id == 0


def distribute_batches(strategy: tf.distribute.Strategy, make_batches: Callable[[BatchShare], tf.data.Dataset]):
    """Returns batches for `model.fit`: a dataset, or one a worker, in which each replica finds its own rows.

    Args:
        strategy: what `fit` runs under.
        make_batches: makes the batches of a share.
    """

    def batches_of_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
        num_workers = context.num_input_pipelines
        share = BatchShare(num_workers, context.input_pipeline_id, context.num_replicas_in_sync // num_workers)
        return make_batches(share)

    return strategy.distribute_datasets_from_function(batches_of_worker)


def make_all_reduce_any(strategy: tf.distribute.Strategy) -> Callable[[bool], bool]:
    """Returns a function by which all workers learn whether any of them said yes. All must call it at the same time."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) or strategy.num_replicas_in_sync == 1:
        return bool

    @tf.function(autograph=False)
    def total(vote):
        def add(vote):
            # a copy, because a tensor from outside is on no device of its own
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(vote))

        return strategy.experimental_local_results(strategy.run(add, args=(vote,)))[0]

    return lambda vote: float(total(tf.constant(float(vote)))) > 0


def _tpu_strategy() -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    except (ValueError, tf.errors.OpError, RuntimeError) as error:
        raise InputError(
            f"no TPU was found ({str(error).splitlines()[0]}): run this on a machine with a TPU, with TPU_NAME set "
            "where there are several, or choose another strategy"
        ) from error
    return tf.distribute.TPUStrategy(resolver)
