"""Memory from one trace against traces of the very shape, functions worked out by hand, and the real optimizer."""

import importlib.util
import json
import pathlib
import subprocess
import sys
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_keras as bk
from bert_keras.analysis.cost_model.subjects import HEADS
from bert_keras.analysis.cost_model.tracing.lifetimes import Lifetimes
from bert_keras.analysis.cost_model.tracing.recording import graph_of
from bert_keras.analysis.cost_model.tracing.sized_graph import SizedGraph, Sizes
from bert_keras.analysis.cost_model.training_memory import TrainingMemory, machine_memory, memories_of
from bert_keras.analysis.cost_model.workloads import Workload
from bert_keras.errors import InputError
from bert_keras.training.optimizers.adamw_and_lamb import BertAdamW
from tests.marks import slow_except

BENCHMARK = pathlib.Path(__file__).parents[3] / "benchmarks" / "planning.py"
SIZES = Sizes(batch_size=60, length=24, num_slots=20)  # TensorFlow makes fewer than 1,000 zeros a constant


def model_with(head: str, vocabulary_size: int = 90):
    sizes = {"hidden_dim": 36, "intermediate_dim": 52}
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=vocabulary_size, **sizes)
    if head == "electra":
        return bk.ElectraPretrainer(bk.BertEncoder(config, pooler=False), generator_config=config)
    return HEADS[head](bk.BertEncoder(config), 3)


@pytest.mark.parametrize(
    ("head", "gradient_checkpointing", "vocabulary_size"),
    slow_except(
        [
            *((head, is_on, 90) for head in (*HEADS, "electra") for is_on in (False, True)),
            ("electra", False, 73 * 128),  # it looks ids up in 73 blocks, and 73 slots would be traced
        ],
        quick=[("pretraining", True, 90)],
    ),
)
def test_one_trace_tells_the_tensors_of_every_shape(head, gradient_checkpointing, vocabulary_size):
    model = model_with(head, vocabulary_size)
    graph = TrainingMemory(model, gradient_checkpointing=gradient_checkpointing).graph
    specs = Workload(model, SIZES.batch_size, SIZES.length, SIZES.num_slots).examples()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Gradients do not exist")  # of the pooler
        whole = graph_of(model.train_step, specs)
    traced = {tensor.name: tensor for operation in whole.get_operations() for tensor in operation.outputs}
    seen = 0
    for operation in graph.operations:
        for number, tensor in enumerate(operation.outputs):
            twin = traced[f"{operation.name}:{number}"]
            if tensor.num_bytes:
                assert graph.shape_of(tensor, SIZES) == tuple(twin.shape)
                assert graph.bytes_of([tensor])(SIZES) == np.prod(twin.shape) * twin.dtype.size
                seen += 1
    assert seen > 500


def test_primes_that_divide_a_constant_are_not_taken():
    weights = tf.ones((101 * 2, 509))
    graph = SizedGraph(lambda x: x @ weights, lambda sizes: [tf.TensorSpec((sizes.batch_size, 202))], 512, {202, 509})
    assert graph.traced_on == Sizes(97, 503, 73)
    (output,) = graph.outputs
    assert graph.shape_of(output, Sizes(3, 1, 1)) == (3, 509)


def lifetimes_of(function, *shapes):
    """Traces a function of float32 tensors with B rows each."""
    specs = [lambda sizes, shape=shape: tf.TensorSpec((sizes.batch_size, *shape)) for shape in shapes]
    return Lifetimes(SizedGraph(function, lambda sizes: [spec(sizes) for spec in specs], 512, {4, 8}))


def test_a_peak_is_what_lives_together():
    def function(x):  # (B, 4)
        wide = x @ tf.ones((4, 8))  # 32 B bytes, read twice
        squared = tf.square(wide)  # another 32 B: the first is still needed
        product = squared @ tf.ones((8, 4))  # 16 B beside both
        return product, tf.reduce_sum(wide, axis=1)  # the squares are gone; 4 B

    assert lifetimes_of(function, (4,)).peak_bytes(Sizes(10, 1, 1)) == 10 * (32 + 32 + 16)


def test_an_elementwise_operation_writes_over_what_nobody_reads_again():
    lifetimes = lifetimes_of(lambda x: tf.exp(tf.tanh(x @ tf.ones((4, 8)))), (4,))
    assert lifetimes.peak_bytes(Sizes(10, 1, 1)) == 10 * 32


def test_kept_is_what_the_gradients_read():
    def function(x):
        weights = tf.ones((4, 8))
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = tf.reduce_sum(tf.exp(x @ weights))
        return tape.gradient(loss, weights)

    assert lifetimes_of(function, (4,)).kept_bytes(Sizes(10, 1, 1)) == 10 * 32  # exp is its own derivative


@pytest.fixture(scope="module")
def asked_about():
    """A model, and its weights before it was asked about."""
    model = model_with("pretraining")
    return model, [keras.ops.convert_to_numpy(weight) for weight in model.weights]


@pytest.fixture(scope="module")
def memories(asked_about):
    return memories_of(asked_about[0], jit_compile=False)


def at(memories, sizes, policy="float32", checkpointing=False):
    return memories[policy, checkpointing].at(sizes)


def test_weights_gradients_and_adamw_are_those_of_the_real_ones(memories):
    model = model_with("pretraining")
    optimizer = BertAdamW()
    optimizer.build(model.trainable_weights)
    slots = [variable for variable in optimizer.variables if "momentum" in variable.path or "velocity" in variable.path]
    memory = at(memories, SIZES)
    assert memory.weights == memory.gradients == 4 * model.count_params()
    assert memory.optimizer == 4 * sum(np.prod(variable.shape) for variable in slots) == 8 * model.count_params()


def test_activations_grow_with_rows_and_scores_with_the_square_of_tokens(memories):
    short, long = (at(memories, Sizes(8, length, 4)) for length in (64, 128))
    twice = at(memories, Sizes(16, 64, 4))
    assert twice.attention_scores == 2 * short.attention_scores
    assert long.attention_scores > 3 * short.attention_scores
    assert twice.activations == pytest.approx(2 * short.activations, rel=0.005)  # seen: 0.28 %
    assert long.activations - long.attention_scores < 2.1 * (short.activations - short.attention_scores)


def test_the_scores_that_are_kept_hold_the_softmax_of_each_layer(memories):
    num_rows, length = 8, 64
    of_a_layer = num_rows * 2 * length * length * 4  # two heads; the masked slots alone look in the last layer
    assert at(memories, Sizes(num_rows, length, 4)).attention_scores >= of_a_layer


def test_turned_keys_are_no_scores():
    kept = TrainingMemory(model_with("tagging")).at(Sizes(8, 40, 1)).attention_scores
    assert kept > 0
    assert kept % (8 * 2 * 40 * 40) == 0  # two times (8, 2, 18, 40) of 4 bytes is no multiple of it


def test_checkpointing_and_16_bits_keep_less(memories):
    sizes = Sizes(32, 128, 20)
    plain, thrifty = at(memories, sizes), at(memories, sizes, checkpointing=True)
    half = at(memories, sizes, policy="mixed_bfloat16")
    assert thrifty.activations < half.activations < plain.activations
    assert thrifty.attention_scores == 0 < half.attention_scores < plain.attention_scores
    assert plain.tensors > plain.activations
    assert plain.process - plain.tensors == thrifty.process - thrifty.tensors - own_operations(memories)


def own_operations(memories) -> int:
    """Returns what the process needs for the operations that checkpointing adds."""
    plain, thrifty = (memories["float32", checkpointing].graph.operations for checkpointing in (False, True))
    return 44_000 * (len(thrifty) - len(plain))


def test_the_largest_batch_fits_and_one_row_more_does_not(memories):
    memory, limit = memories["float32", False], 3_000_000_000
    rows = memory.at(SIZES, limit).largest_batch
    assert memory.process_bytes(Sizes(rows, 24, 20)) <= limit < memory.process_bytes(Sizes(rows + 1, 24, 20))
    assert memory.at(SIZES, 1_000_000).largest_batch == 0


@pytest.mark.slow
def test_a_compiled_step_on_a_cpu_saves_nothing_by_16_bits():
    found = memories_of(model_with("masked_lm"), jit_compile=True)
    float32, thrifty, half, thrifty_half = (one.at(SIZES) for one in found.values())
    assert (half.process, thrifty_half.process) == (float32.process, thrifty.process)
    assert half.activations < float32.activations


def test_the_model_that_is_asked_about_stays_as_it_is(asked_about, memories):
    model, before = asked_about
    assert memories
    assert not model.compiled
    assert all(np.array_equal(one, weight) for one, weight in zip(before, model.weights, strict=True))


def test_positions_that_no_weight_has_are_not_traced():
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=90, position_type="sinusoidal", max_sequence_length=509)
    assert TrainingMemory(bk.BertMaskedLM(bk.BertEncoder(config, pooler=False))).graph.traced_on.length == 503


def test_a_step_in_parts_keeps_the_sum_of_their_gradients(memories):
    memory = memories["float32", False]
    more = memory.process_bytes(SIZES, parts=4) - memory.process_bytes(SIZES)
    assert more == memory.at(SIZES).gradients
    assert memory.largest_batch(SIZES, 3e9, parts=4) <= memory.largest_batch(SIZES, 3e9)


def test_rows_too_short_to_tell_anything_are_refused():
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=90, max_sequence_length=3, intermediate_dim=6)
    with pytest.raises(InputError, match="rows of at most 3 tokens are too short to tell what grows with them"):
        TrainingMemory(bk.BertMaskedLM(bk.BertEncoder(config, pooler=False)))


def test_this_machine_has_memory():
    assert 1e9 < machine_memory() < 1e14


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 5])
def test_real_steps_peak_where_the_plan_says(number):
    benchmark = importlib.util.spec_from_file_location("planning_benchmark", BENCHMARK)
    module = importlib.util.module_from_spec(benchmark)
    benchmark.loader.exec_module(module)
    found = {
        side: json.loads(
            subprocess.run(
                [sys.executable, str(BENCHMARK), "--child", side, "--shapes", str(number)],
                check=True,
                capture_output=True,
                text=True,
            ).stdout.splitlines()[-1]
        )["memory"]
        for side in module.SIDES
    }
    assert found["predicted"] == pytest.approx(found["measured"], rel=0.2)
