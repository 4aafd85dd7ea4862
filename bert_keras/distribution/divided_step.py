"""`DividedStep`: `fit` and `evaluate` of a Keras model whose steps are cut into parts and spread over replicas.

Whatever the division, a step is the one that a single device would take with the whole batch: losses are means over
everything that counts in it, gradients are clipped when they are whole, and metrics count every row once.
"""

import math
from collections.abc import Callable

import keras
import tensorflow as tf

from bert_keras.distribution.step import Step, within_step
from bert_keras.errors import InputError


class DividedStep:
    """What a `keras.Model` needs to train in parts and under every `tf.distribute` strategy; to be mixed in.

    Attributes:
        accumulation_steps: the parts that each replica computes one after the other.
        jit_update: whether XLA compiles the optimizer's part of a step that is not compiled as a whole: its shapes
            never change, those of batches may. It takes half the time then (23 million weights: 45 ms, not 95).
    """

    accumulation_steps = 1
    jit_update = False
    divides_steps = True

    def label_weights(self, x, y, sample_weight):
        """Returns what each label counts, by output; losses that are not means over them need not be named."""
        return {}

    def train_step(self, data):
        """Takes one step; `data` is this replica's share of the batch."""
        replica = tf.distribute.get_replica_context()
        step = self._whole_step(data, replica)

        def gradients_of(data, number, first_row, total_weights):
            of_replica = Step(number, first_row, step.num_rows, total_weights, compiled=step.compiled)
            return self._over_parts(self._gradients, data, of_replica)

        if replica.num_replicas_in_sync > 1 and self.jit_compile:
            gradients_of = tf.function(gradients_of, jit_compile=True)  # a new one: another replica's has its weights
        gradients = gradients_of(data, step.number, step.first_row, step.total_weights)
        weights = self.trainable_weights
        if replica.num_replicas_in_sync > 1:
            weights = [weight for weight, gradient in zip(weights, gradients, strict=True) if gradient is not None]
            gradients = [gradient for gradient in gradients if gradient is not None]
            gradients = replica.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        self._update(gradients, weights, alone=replica.num_replicas_in_sync == 1)
        return self._results(replica)

    def _update(self, gradients: list[tf.Tensor | None], weights: list, *, alone: bool) -> None:
        """Moves the weights; in one compiled pass over them, if so wished and the whole step is not compiled anyway."""

        def update(gradients):
            self.optimizer.apply_gradients(zip(gradients, weights, strict=True))

        if self.jit_update and alone and not self.jit_compile and not self.run_eagerly:
            update = tf.function(update, jit_compile=True, autograph=False)
        update(gradients)

    def test_step(self, data):
        """Evaluates one batch; `data` is this replica's share of it."""
        replica = tf.distribute.get_replica_context()
        self._over_parts(self._scores, data, self._whole_step(data, replica))
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
        self._loss_tracker.update_state(loss * num_replicas, sample_weight=_num_rows(data))

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
        if self.distribute_strategy.num_replicas_in_sync == 1:
            super().make_train_function(force)
        elif self.train_function is None or force:
            _take_whole_gradients(self.optimizer)
            self.train_function = self._on_replicas(self.train_step)

    def make_test_function(self, force=False):
        """As Keras's; several replicas evaluate together."""
        if self.distribute_strategy.num_replicas_in_sync == 1:
            super().make_test_function(force)
        elif self.test_function is None or force:
            self.test_function = self._on_replicas(self.test_step)

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
        """Makes the variables of the optimizer and the metrics; `fit` does it too, with its first batch.

        Args:
            element_spec: of the dataset or the distributed dataset to train on.
        """
        with self.distribute_strategy.scope():
            self._symbolic_build(data_batch=_each(_example, element_spec))

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Makes what is missing from the shapes of a batch.

        Keras does so only under a strategy, and takes a batch from the data for it, which is then lost. Without one it
        makes the variables when the step is traced, and TensorFlow then traces it a second time.
        """
        self.build_step(data_batch if iterator is None else iterator._distributed_dataset.element_spec)


def _take_whole_gradients(optimizer: keras.optimizers.Optimizer) -> None:
    """Keeps an optimizer from summing gradients over replicas: it would clip each replica's own before, not the sum."""
    getattr(optimizer, "inner_optimizer", optimizer)._all_reduce_sum_gradients = list


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


def _example(spec) -> tf.Tensor:
    """Returns zeros of the shape that a tensor, its spec or its spec on replicas says; an unknown size becomes 2."""
    spec = getattr(spec, "_value_specs", (spec,))[0]
    return tf.zeros([size or 2 for size in spec.shape], spec.dtype)  # of 1, Keras warns that a softmax makes no sense
