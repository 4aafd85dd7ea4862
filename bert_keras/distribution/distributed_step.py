"""`DistributedStep`: `fit` and `evaluate` of a Keras model with micro-batches and replicas; updates on all devices.

However a batch is split, the update is the one that a single device would make for the global batch: losses are
means over the global batch, gradients are clipped after they are summed, and metrics count every example once.
"""

import contextlib
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from bert_keras.distribution.clipping import clip_gradients
from bert_keras.distribution.step import Step, within_step
from bert_keras.errors import InputError


class DistributedStep:
    """Mixin for `keras.Model`: gradient accumulation and training under every `tf.distribute` strategy.

    One replica without gradient accumulation uses Keras's own step.

    Attributes:
        accumulation_steps: number of micro-batches that each replica computes one after the other.
    """

    accumulation_steps = 1
    has_tensorflow_step = True
    _strategy: tf.distribute.Strategy | None = None
    _built_for: weakref.ref | None = None

    def __init__(self, *args, **kwargs):
        # Keras's `fit` builds a model that was created under a strategy on a batch reduced over all workers, which
        # fails with several workers (3.15.1). Inside a separate graph no strategy is current.
        strategy = tf.distribute.get_strategy() if tf.distribute.has_strategy() else None
        with contextlib.nullcontext() if strategy is None else tf.Graph().as_default():
            super().__init__(*args, **kwargs)
        self._strategy = strategy

    @property
    def distribute_strategy(self) -> tf.distribute.Strategy:
        """The strategy that the model was created under, otherwise the current one. Keras runs every step under it."""
        return self._strategy or tf.distribute.get_strategy()

    @property
    def is_distributed(self) -> bool:
        """Whether a step has several micro-batches or replicas, so that it is not Keras's own."""
        return self.accumulation_steps > 1 or self.distribute_strategy.num_replicas_in_sync > 1

    def label_weights(self, x: Any, y: Any, sample_weight: Any):
        """Return the weight of each label, keyed by output; only for losses that are means over labels."""
        return {}

    def train_step(self, data: Any):
        """Run one training step; `data` is this replica's share of the global batch."""
        if self.is_distributed:
            return self._distributed_train_step(data)
        number = tf.cast(self.optimizer.iterations, tf.int32)
        with within_step(Step(number, 0, _get_batch_size(data), compiled=bool(self.jit_compile))):
            return super().train_step(data)

    def test_step(self, data: Any):
        """Evaluate one batch; `data` is this replica's share of it."""
        if not self.is_distributed:
            return super().test_step(data)
        replica = tf.distribute.get_replica_context()
        self._over_micro_batches(self._scores, data, self._replica_step(data, replica))
        return self._results(replica)

    def _distributed_train_step(self, data: Any) -> dict[str, tf.Tensor]:
        """Run a step in micro-batches, on this and the other replicas, and return the metrics."""
        replica = tf.distribute.get_replica_context()
        step = self._replica_step(data, replica)

        def compute_gradients(data: Any, number: tf.Tensor, first_sequence: int | tf.Tensor, total_weights: dict):
            """Return the gradients of this replica's share."""
            share = Step(number, first_sequence, step.num_sequences, total_weights, compiled=step.compiled)
            return self._over_micro_batches(self._gradients, data, share)

        if replica.num_replicas_in_sync > 1 and self.jit_compile:
            # a new function per replica, because each captures the variables of its own replica
            compute_gradients = tf.function(compute_gradients, jit_compile=True)
        gradients = compute_gradients(data, step.number, step.first_sequence, step.total_weights)
        if replica.num_replicas_in_sync > 1:
            apply_over_replicas(self.optimizer, gradients, self.trainable_weights)
        else:
            self.optimizer.apply(gradients, self.trainable_weights)
        return self._results(replica)

    def _replica_step(self, data: Any, replica: tf.distribute.ReplicaContext) -> Step:
        """Return this replica's share of the step, with the label weights summed over all replicas."""
        num_sequences = _get_batch_size(data)
        weights = self.label_weights(*keras.utils.unpack_x_y_sample_weight(data))
        weights = weights if isinstance(weights, dict) else {}  # a custom loss
        totals = {name: tf.reduce_sum(tf.cast(values, tf.float32)) for name, values in weights.items()}
        if replica.num_replicas_in_sync > 1 and totals:
            totals = replica.all_reduce(tf.distribute.ReduceOp.SUM, totals)
        first_sequence = 0
        if replica.num_replicas_in_sync > 1:
            first_sequence = tf.cast(replica.replica_id_in_sync_group, tf.int32) * num_sequences
        number = tf.cast(self.optimizer.iterations, tf.int32)
        return Step(number, first_sequence, num_sequences, totals, compiled=bool(self.jit_compile))

    def _over_micro_batches(self, compute: Callable, data: Any, step: Step) -> list[tf.Tensor | None]:
        """Return the means of `compute` over the micro-batches of this replica; None stays None."""
        count = self.accumulation_steps
        if count == 1:
            return compute(data, step)
        if isinstance(step.num_sequences, int) and step.num_sequences % count:
            raise InputError(
                f"a replica's batch of {step.num_sequences} examples cannot be split into {count} equal micro-batches "
                "(accumulation_steps): change the batch size or accumulation_steps"
            )
        size = step.num_sequences // count
        total_weights = {name: total / count for name, total in step.total_weights.items()}
        split = _map_tensors(lambda values: tf.reshape(values, [count, size, *_get_example_shape(values)]), data)

        def compute_one(index: tf.Tensor):
            """Return the results of one micro-batch."""
            first_sequence = step.first_sequence + index * size
            part = Step(step.number, first_sequence, size, total_weights, compiled=step.compiled)
            return compute(_map_tensors(lambda values: values[index], split), part)

        def add_one(index: tf.Tensor, sums: list):
            """Add the results of one micro-batch to the sums."""
            results = [value for value in compute_one(index) if value is not None]
            return index + 1, [total + value for total, value in zip(sums, results, strict=True)]

        first = compute_one(0)  # outside of the loop, because its structure is not known before
        sums = [value for value in first if value is not None]
        _, sums = tf.while_loop(lambda index, _: index < count, add_one, (1, sums), parallel_iterations=1)
        sums = iter(sums)
        return [None if value is None else next(sums) / count for value in first]

    def _gradients(self, data: Any, step: Step) -> list[tf.Tensor | None]:
        """Return the gradients of a micro-batch and update the metrics; None where the loss ignores a weight."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with within_step(step), tf.GradientTape() as tape:
            outputs = self(x, training=True)
            loss = self.compute_loss(x, y, outputs, sample_weight, training=True)
            scaled = self.optimizer.scale_loss(loss)
        self._track(loss, data)
        self.compute_metrics(x, y, outputs, sample_weight)
        gradients = tape.gradient(scaled, [weight.value for weight in self.trainable_weights])
        return [None if gradient is None else to_dense(gradient) for gradient in gradients]

    def _scores(self, data: Any, step: Step) -> list[tf.Tensor]:
        """Update the metrics with a micro-batch of an evaluation; nothing is summed."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with within_step(step):
            outputs = self(x, training=False)
            loss = self.compute_loss(x, y, outputs, sample_weight, training=False)
        self._track(loss, data)
        self.compute_metrics(x, y, outputs, sample_weight)
        return []

    def _track(self, loss: tf.Tensor, data: Any) -> None:
        """Add a loss to Keras's mean of losses, which divides by the number of replicas."""
        num_replicas = tf.distribute.get_strategy().num_replicas_in_sync
        self._loss_metric().update_state(loss * num_replicas, sample_weight=_get_batch_size(data))

    def _loss_metric(self) -> keras.metrics.Metric:
        """Return Keras's mean of losses, which `compile` creates; no other metric has this name."""
        return next(metric for metric in self.metrics if metric.name == "loss")

    def _results(self, replica: tf.distribute.ReplicaContext) -> dict[str, tf.Tensor]:
        """Return the metrics over all replicas, the same in each replica."""
        if replica.num_replicas_in_sync == 1:
            return self.get_metrics_result()
        variables = [variable for metric in self.metrics for variable in metric.variables]
        flat = tf.concat([tf.reshape(tf.cast(variable.value, tf.float32), [-1]) for variable in variables], axis=0)
        flat = replica.all_reduce(tf.distribute.ReduceOp.SUM, flat)  # the state of every Keras metric is a sum
        values = tf.split(flat, [math.prod(variable.shape) for variable in variables])
        sums = [
            (variable, tf.cast(tf.reshape(value, variable.shape), variable.dtype))
            for variable, value in zip(variables, values, strict=True)
        ]
        with keras.StatelessScope(state_mapping=sums):
            return self.get_metrics_result()

    def make_train_function(self, force: bool = False):
        """Create the training function as Keras does; with several replicas, run the step on all of them."""
        if self.train_function is None or force:
            super().make_train_function(force)
            self.train_function = self._prepare(self.train_function, self.train_step)

    def make_test_function(self, force: bool = False):
        """Create the evaluation function as Keras does; with several replicas, evaluate on all of them."""
        if self.test_function is None or force:
            super().make_test_function(force)
            self.test_function = self._prepare(self.test_function, self.test_step)

    def _prepare(self, function: Callable, step: Callable) -> Callable:
        """Return Keras's function of an iterator; with several replicas, one that runs `step` on each of them.

        All variables are created before its first call. Keras creates them while it traces the step, so that TensorFlow
        traces it a second time; replicas cannot create them at all.
        """
        if self.distribute_strategy.num_replicas_in_sync > 1:
            function = self._on_replicas(step)

        def run(iterator: Iterator):
            """Create the variables before the first call, then call `function`."""
            loss = self._loss_metric()  # each `compile` creates a new one
            if hasattr(iterator, "element_spec") and (self._built_for is None or self._built_for() is not loss):
                self.build_step(iterator.element_spec)
                self._built_for = weakref.ref(loss)
            return function(iterator)

        return run

    def _on_replicas(self, step: Callable) -> Callable:
        """Return a function of an iterator that runs `step` on every replica, `steps_per_execution` times.

        Keras's own fails with several workers: it concatenates the results of the replicas, which scalars cannot be
        (3.15.1).
        """
        strategy = self.distribute_strategy

        def run(iterator: Iterator):
            """Run the step on every replica."""
            for _ in range(self.steps_per_execution):
                results = strategy.run(step, args=(next(iterator),))
            return {name: strategy.experimental_local_results(value)[0] for name, value in results.items()}

        return run if self.run_eagerly else tf.function(run, reduce_retracing=True, autograph=False)

    def build_step(self, element_spec: Any) -> None:
        """Create the variables of the optimizer, the losses and the metrics; `fit` does it with its first batch.

        Args:
            element_spec: element spec of the dataset or distributed dataset to train on, or an example batch.
        """
        data = _map_tensors(_get_spec_in_replica, element_spec)
        with self.distribute_strategy.scope():
            if not self.optimizer.built:
                self.optimizer.build(self.trainable_variables)
            # variables created in this scope get their values at its end, not in the graph that is traced
            with keras.StatelessScope():
                trace = tf.function(lambda data: self._scores(data, Step(0, 0, _get_batch_size(data))), autograph=False)
                trace.get_concrete_function(data)


def _get_batch_size(data: Any) -> int | tf.Tensor:
    first = next(values for values in tf.nest.flatten(data) if values is not None)
    return tf.shape(first)[0] if first.shape[0] is None else first.shape[0]


def _map_tensors(function: Callable, data: Any):
    """Apply `function` to every tensor of a structure; None stays None."""
    return tf.nest.map_structure(lambda values: None if values is None else function(values), data)


def _get_example_shape(values: tf.Tensor) -> list:
    """Return the shape without the batch axis."""
    shape = tf.shape(values)
    return [shape[axis] if size is None else size for axis, size in enumerate(values.shape) if axis]


def _get_spec_in_replica(spec: Any) -> tf.TensorSpec | None:
    """Return the spec of a tensor in one replica, from its spec, its spec over all replicas, or an example tensor."""
    if isinstance(spec, tf.OptionalSpec):
        return None  # Keras uses it for absent sample weights
    first = tf.nest.flatten(spec, expand_composites=True)[0]
    return tf.TensorSpec(first.shape, first.dtype)


def to_dense(gradient: Any) -> tf.Tensor:
    """Return a gradient as a dense tensor; an embedding's is a `tf.IndexedSlices`."""
    return tf.convert_to_tensor(gradient)


def compile_update(update: Callable) -> Callable:
    """Return `update` compiled with XLA; unchanged in eager mode and under a strategy."""
    if tf.executing_eagerly() or tf.distribute.has_strategy():
        return update
    return tf.function(update, jit_compile=True, autograph=False)


def update_copies(update: Callable, variables: Sequence[keras.Variable], gradients: Sequence, *numbers) -> None:
    """Call `update(index, gradient, *numbers)` for each variable, on every device that holds a copy of it.

    Args:
        update: updates the variable with that index and its optimizer variables.
        variables: one per gradient.
        gradients: the same in every replica.
        numbers: further tensors that `update` needs.
    """
    if not tf.distribute.has_strategy():
        for index, gradient in enumerate(gradients):
            update(index, gradient, *numbers)
        return

    def update_all(strategy: tf.distribute.Strategy, gradients: list, numbers: tuple):
        """Update every variable on every device."""
        for index, (variable, gradient) in enumerate(zip(variables, gradients, strict=True)):

            def update_copy(_: Any, gradient: Any, *numbers, index: int = index):
                """Update one copy of the variable."""
                update(index, gradient, *numbers)

            strategy.extended.update(variable.value, update_copy, args=(gradient, *numbers), group=False)

    tf.distribute.get_replica_context().merge_call(update_all, args=(list(gradients), numbers))


def apply_over_replicas(
    optimizer: keras.optimizers.Optimizer, gradients: Sequence[tf.Tensor | None], weights: Sequence[keras.Variable]
) -> None:
    """Update the weights with the gradients summed over all replicas and then clipped.

    Our optimizers take the sum (`takes_summed_gradients`). Keras's optimizers clip first and then sum over replicas, so
    they get the clipped sum divided by the number of replicas: it is within the limits, and their sum restores it. This
    costs a second all-reduce.

    Args:
        optimizer: any Keras optimizer, also wrapped in a `LossScaleOptimizer`.
        gradients: of this replica; None where the loss ignores a weight.
        weights: the weights of these gradients.
    """
    replica = tf.distribute.get_replica_context()
    pairs = [(gradient, weight) for gradient, weight in zip(gradients, weights, strict=True) if gradient is not None]
    weights = [weight for _, weight in pairs]
    summed = replica.all_reduce(tf.distribute.ReduceOp.SUM, [gradient for gradient, _ in pairs])
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if not getattr(inner, "takes_summed_gradients", False):
        # the scale of a loss is a power of two, so it rounds nothing; NaN and infinity are kept
        scale = 1.0 if inner is optimizer else optimizer.dynamic_scale
        clipped = zip(summed, clip_gradients([gradient / scale for gradient in summed], inner), strict=True)
        summed = [tf.where(tf.math.is_finite(gradient), value * scale, gradient) for gradient, value in clipped]
        summed = [gradient / replica.num_replicas_in_sync for gradient in summed]
    optimizer.apply(summed, weights)
