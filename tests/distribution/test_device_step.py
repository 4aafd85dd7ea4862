"""Requirements of TPUs that a CPU can check: no strings, no Python calls, and XLA compiles the full step."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.training import adamw
from tests.distribution.train_heads import BATCH_SIZE, HEADS, make_data
from tests.marks import slow

HOST_OPERATIONS = {"PyFunc", "EagerPyFunc", "PyFuncStateless", "IteratorGetNext", "Print", "PrintV2"}


@pytest.fixture(params=[("electra", 1), *slow((("electra", 2),), (("token_classifier", 2),))], ids=str)
def model_and_batch(request):
    """Compiled model and a batch of tensors; the heads together have every kind of loss, and ELECTRA's also samples."""
    head, num_micro_batches = request.param
    model = HEADS[head]()
    model.compile(adamw(1e-3, 10), accumulation_steps=num_micro_batches)
    batch = tf.nest.map_structure(tf.constant, tuple(make_data(head, 1)))
    model.build_step(batch)
    return model, batch


def test_training_step_has_no_host_only_operations(model_and_batch):
    model, batch = model_and_batch
    graph = tf.function(model.train_step).get_concrete_function(batch).graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    assert len(nodes) > 500
    assert not HOST_OPERATIONS & {node.op for node in nodes}
    for node in nodes:
        assert tf.string.as_datatype_enum not in {value.type for value in node.attr.values()}, node.name


@pytest.mark.slow
def test_xla_compiles_the_full_training_step(model_and_batch):
    model, batch = model_and_batch
    step = tf.function(model.train_step, jit_compile=True)
    losses = [float(step(batch)["loss"]) for _ in range(3)]
    assert np.isfinite(losses).all()
    assert int(model.optimizer.iterations) == 3
    assert next(iter(batch[0].values())).shape[0] == BATCH_SIZE


@pytest.mark.parametrize(
    ("head", "run_eagerly"), [("token_classifier", True), *slow(("token_classifier", False), ("electra", False))]
)
def test_train_on_batch_and_test_on_batch_work(head, run_eagerly):
    batch = make_data(head, 1)
    model = HEADS[head]()
    model.compile(adamw(1e-3, 10), jit_compile=False, run_eagerly=run_eagerly)
    before = model.test_on_batch(*batch)[0]
    model.train_on_batch(*batch)
    assert int(model.optimizer.iterations) == 1
    model.reset_metrics()  # Keras 3.12 averages over all calls
    after = model.test_on_batch(*batch)[0]
    assert after != pytest.approx(before)
    assert after == pytest.approx(model.evaluate(*batch, batch_size=BATCH_SIZE, verbose=0)[0])
