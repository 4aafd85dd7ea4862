"""`DividedStep`: `fit` and `evaluate` of a Keras model whose steps are cut into parts and spread over replicas.

Whatever the division, a step is the one that a single device would take with the whole batch: losses are means over
everything that counts in it, gradients are clipped when they are whole, and metrics count every row once.
"""

import contextlib
import math
import weakref
from collections.abc import Callable

import keras
import tensorflow as tf

from bert_keras.distribution.step import Step, within_step
from bert_keras.distribution.updates import apply_over_replicas
from bert_keras.errors import InputError


class DividedStep:
    """What a `keras.Model` needs to train in parts and under every `tf.distribute` strategy; to be mixed in.

    One replica without parts takes Keras's own step.

    Attributes:
        accumulation_steps: the parts that each replica computes one after the other.
    """

    accumulation_steps = 1
    divides_steps = True
    _strategy: tf.distribute.Strategy | None = None
    _built_for: weakref.ref | None = None

    def __init__(self, *args, **kwargs):
        # For a model that is made under a strategy, Keras's `fit` reads a batch to build it and reduces the batch over
        # all workers, which fails with several of them (3.15.1). No strategy is current in a graph of its own.
        strategy = tf.distribute.get_strategy() if tf.distribute.has_strategy() else None
        with contextlib.nullcontext() if strategy is None else tf.Graph().as_default():
            super().__init__(*args, **kwargs)
        self._strategy = strategy

    @property
    def distribute_strategy(self) -> tf.distribute.Strategy:
        """The strategy that the model was made under, else the current one. Keras runs every step under it."""
        return self._strategy or tf.distribute.get_strategy()

    @property
    def is_divided(self) -> bool:
        """Whether a step has several parts or replicas, and so is not Keras's own."""
        return self.accumulation_steps > 1 or self.distribute_strategy.num_replicas_in_sync > 1

    def label_weights(self, x, y, sample_weight):
        """Returns what each label counts, by output; losses that are not means over them need not be named."""
        return {}

    def train_step(self, data):
        """Takes one step; `data` is this replica's share of the batch."""
        if self.is_divided:
            return self._divided_train_step(data)
        number = tf.cast(self.optimizer.iterations, tf.int32)
        with within_step(Step(number, 0, _num_rows(data), compiled=bool(self.jit_compile))):
            return super().train_step(data)

    def test_step(self, data):
        """Evaluates one batch; `data` is this replica's share of it."""
        if not self.is_divided:
            return super().test_step(data)
        replica = tf.distribute.get_replica_context()
        self._over_parts(self._scores, data, self._whole_step(data, replica))
        return self._results(replica)

    def _divided_train_step(self, data) -> dict[str, tf.Tensor]:
        """Take a step in parts, on this and the other replicas, and return the metrics."""
        replica = tf.distribute.get_replica_context()
        step = self._whole_step(data, replica)

        def gradients_of(data, number, first_row, total_weights):
            of_replica = Step(number, first_row, step.num_rows, total_weights, compiled=step.compiled)
            return self._over_parts(self._gradients, data, of_replica)

        if replica.num_replicas_in_sync > 1 and self.jit_compile:
            gradients_of = tf.function(gradients_of, jit_compile=True)  # a new one: another replica's has its weights
        gradients = gradients_of(data, step.number, step.first_row, step.total_weights)
        if replica.num_replicas_in_sync > 1:
            apply_over_replicas(self.optimizer, gradients, self.trainable_weights)
        else:
            self.optimizer.apply(gradients, self.trainable_weights)
        return self._results(replica)

    def _whole_step(self, data, replica: tf.distribute.ReplicaContext) -> Step:
        """Returns where this replica stands in the step, and what the labels of all replicas weigh."""
        num_rows = _num_rows(data)
        weights = self.label_weights(*keras.utils.unpack_x_y_sample_weight(data))
        weights = weights if isinstance(weights, dict) else {}  # a loss of the caller's
        totals = {name: tf.reduce_sum(tf.cast(values, tf.float32)) for name, values in weights.items()}
        if replica.num_replicas_in_sync > 1 and totals:
            totals = replica.all_reduce(tf.distribute.ReduceOp.SUM, totals)
        first_row = 0
        if replica.num_replicas_in_sync > 1:
            first_row = tf.cast(replica.replica_id_in_sync_group, tf.int32) * num_rows
        number = tf.cast(self.optimizer.iterations, tf.int32)
        return Step(number, first_row, num_rows, totals, compiled=bool(self.jit_compile))

    def _over_parts(self, compute: Callable, data, step: Step) -> list[tf.Tensor | None]:
        """Returns the means over the parts of this replica of what `compute` gives for each; None stays None."""
        parts = self.accumulation_steps
        if parts == 1:
            return compute(data, step)
        if isinstance(step.num_rows, int) and step.num_rows % parts:
            raise InputError(
                f"a batch of {step.num_rows} rows a replica was given, which cannot be cut into accumulation_steps "
                f"{parts} equal parts: change either"
            )
        rows = step.num_rows // parts
        total_weights = {name: total / parts for name, total in step.total_weights.items()}
        cut = _each(lambda values: tf.reshape(values, [parts, rows, *_tail(values)]), data)

        def of_part(index):
            part = Step(step.number, step.first_row + index * rows, rows, total_weights, compiled=step.compiled)
            return compute(_each(lambda values: values[index], cut), part)

        def add_part(index, sums):
            given = [value for value in of_part(index) if value is not None]
            return index + 1, [total + value for total, value in zip(sums, given, strict=True)]

        first = of_part(0)  # its structure is known only now
        sums = [value for value in first if value is not None]
        _, sums = tf.while_loop(lambda index, _: index < parts, add_part, (1, sums), parallel_iterations=1)
        sums = iter(sums)
        return [None if value is None else next(sums) / parts for value in first]

    def _gradients(self, data, step: Step) -> list[tf.Tensor | None]:
        """Returns the gradients of a part of a step, and counts it in the metrics.

        None stands for a weight that the loss does not depend on.
        """
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with within_step(step), tf.GradientTape() as tape:
            outputs = self(x, training=True)
            loss = self.compute_loss(x, y, outputs, sample_weight, training=True)
            scaled = self.optimizer.scale_loss(loss)
        self._track(loss, data)
        self.compute_metrics(x, y, outputs, sample_weight)
        gradients = tape.gradient(scaled, [weight.value for weight in self.trainable_weights])
        return [None if gradient is None else tf.convert_to_tensor(gradient) for gradient in gradients]

    def _scores(self, data, step: Step) -> list[tf.Tensor]:
        """Counts a part of an evaluation in the metrics; there is nothing to sum."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with within_step(step):
            outputs = self(x, training=False)
            loss = self.compute_loss(x, y, outputs, sample_weight, training=False)
        self._track(loss, data)
        self.compute_metrics(x, y, outputs, sample_weight)
        return []

    def _track(self, loss: tf.Tensor, data) -> None:
        """Adds a loss to Keras's mean of losses, which is one over replicas."""
        num_replicas = tf.distribute.get_strategy().num_replicas_in_sync
        self._loss_metric().update_state(loss * num_replicas, sample_weight=_num_rows(data))

    def _loss_metric(self) -> keras.metrics.Metric:
        """Return Keras's mean of losses, which `compile` makes; no other metric of a model has this name."""
        return next(metric for metric in self.metrics if metric.name == "loss")

    def _results(self, replica: tf.distribute.ReplicaContext) -> dict[str, tf.Tensor]:
        """Returns the metrics over all replicas, in each of them."""
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

    def make_train_function(self, force=False):
        """As Keras's; several replicas take their step together."""
        if self.train_function is not None and not force:
            return
        if self.distribute_strategy.num_replicas_in_sync == 1:
            super().make_train_function(force)
        else:
            self.train_function = self._on_replicas(self.train_step)
        self.train_function = self._after_building(self.train_function)

    def make_test_function(self, force=False):
        """As Keras's; several replicas evaluate together."""
        if self.test_function is not None and not force:
            return
        if self.distribute_strategy.num_replicas_in_sync == 1:
            super().make_test_function(force)
        else:
            self.test_function = self._on_replicas(self.test_step)
        self.test_function = self._after_building(self.test_function)

    def _after_building(self, function: Callable) -> Callable:
        """Return a function of an iterator that makes all variables before it calls `function` for the first time.

        Keras makes them while it traces the step, and TensorFlow then traces it a second time; replicas cannot make
        them at all.
        """

        def run(iterator):
            loss = self._loss_metric()  # `compile` makes another one
            if hasattr(iterator, "element_spec") and (self._built_for is None or self._built_for() is not loss):
                self.build_step(iterator.element_spec)
                self._built_for = weakref.ref(loss)
            return function(iterator)

        return run

    def _on_replicas(self, step: Callable) -> Callable:
        """Returns a function of an iterator that runs `step` on every replica, `steps_per_execution` times.

        Keras's own fails with several workers: it reduces what each replica gives, also scalars, which its way of
        doing so does not take (3.15.1).
        """
        strategy = self.distribute_strategy

        def run(iterator):
            for _ in range(self.steps_per_execution):
                results = strategy.run(step, args=(next(iterator),))
            return {name: strategy.experimental_local_results(value)[0] for name, value in results.items()}

        return run if self.run_eagerly else tf.function(run, reduce_retracing=True, autograph=False)

    def build_step(self, element_spec) -> None:
        """Make the variables of the optimizer, the losses and the metrics; `fit` does it with its first batch.

        Args:
            element_spec: of the dataset or the distributed dataset to train on; or an example of a batch.
        """
        data = _each(_spec_in_replica, element_spec)
        with self.distribute_strategy.scope():
            if not self.optimizer.built:
                self.optimizer.build(self.trainable_variables)
            # variables that are made in this scope get their values at its end, not in the graph that is traced
            with keras.StatelessScope():
                trace = tf.function(lambda data: self._scores(data, Step(0, 0, _num_rows(data))), autograph=False)
                trace.get_concrete_function(data)


def _num_rows(data) -> int | tf.Tensor:
    first = next(values for values in tf.nest.flatten(data) if values is not None)
    return tf.shape(first)[0] if first.shape[0] is None else first.shape[0]


def _each(function: Callable, data):
    """Returns the same structure with `function` of every tensor; None stays None."""
    return tf.nest.map_structure(lambda values: None if values is None else function(values), data)


def _tail(values: tf.Tensor) -> list:
    """Returns the shape of a row."""
    shape = tf.shape(values)
    return [shape[place] if size is None else size for place, size in enumerate(values.shape) if place]


def _spec_in_replica(spec) -> tf.TensorSpec | None:
    """Return the spec of a tensor in one replica, from its spec, its spec in all replicas, or an example."""
    if isinstance(spec, tf.OptionalSpec):
        return None  # Keras puts it where there are no sample weights
    first = tf.nest.flatten(spec, expand_composites=True)[0]
    return tf.TensorSpec(first.shape, first.dtype)
