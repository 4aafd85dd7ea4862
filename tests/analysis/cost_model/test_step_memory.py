"""Memory estimates against traces of the exact shape, manual computations, and the real optimizer."""

import dataclasses
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
from bert_keras.analysis.cost_model.machine_memory import get_machine_memory
from bert_keras.analysis.cost_model.plan_figures import estimate_inference_memory
from bert_keras.analysis.cost_model.sized_graph import Lifetimes, SizedGraph
from bert_keras.analysis.cost_model.step_memory import (
    TrainingMemory,
    trace_training_memory,
)
from bert_keras.analysis.cost_model.subjects import HEADS, add_head
from bert_keras.analysis.cost_model.workloads import BatchShape, Workload, trace_graph
from bert_keras.errors import InputError
from bert_keras.training.optimizers.update_rules import BertAdamW
from tests.marks import slow_except

BENCHMARK = pathlib.Path(__file__).parents[3] / "benchmarks" / "planning.py"
SHAPE = BatchShape(batch_size=60, length=24, num_masked=20)  # TensorFlow turns fewer than 1,000 zeros into a constant


def make_model(head: str, vocabulary_size: int = 90) -> keras.Model:
    sizes = {"hidden_dim": 36, "intermediate_dim": 52}
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=vocabulary_size, **sizes)
    if head == "electra":
        return bk.ElectraPretrainer(bk.BertEncoder(config, pooler=False), generator_config=config)
    return add_head(bk.BertEncoder(config), head, 3)


@pytest.mark.parametrize(
    ("head", "gradient_checkpointing", "vocabulary_size"),
    slow_except(
        [
            *((head, is_on, 90) for head in (*HEADS, "electra") for is_on in (False, True)),
            ("electra", False, 73 * 128),  # looks ids up in 73 blocks, so that M = 73 cannot be traced
        ],
        quick=[("masked_lm", True, 90)],
    ),
)
def test_one_trace_predicts_the_tensors_of_another_shape(head, gradient_checkpointing, vocabulary_size):
    model = make_model(head, vocabulary_size)
    graph = TrainingMemory(model, gradient_checkpointing=gradient_checkpointing).graph
    specs = Workload(model, SHAPE).example_specs()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Gradients do not exist")  # for the pooler
        exact = trace_graph(model.train_step, specs)
    traced = {tensor.name: tensor for operation in exact.get_operations() for tensor in operation.outputs}
    num_checked = 0
    for operation in graph.operations:
        for number, tensor in enumerate(operation.outputs):
            expected = traced[f"{operation.name}:{number}"]
            if tensor.num_bytes:
                assert graph.scale_shape(tensor, SHAPE) == tuple(expected.shape)
                assert graph.byte_counter([tensor])(SHAPE) == np.prod(expected.shape) * expected.dtype.size
                num_checked += 1
    assert num_checked > 500


def test_primes_that_divide_a_constant_are_skipped():
    weights = tf.ones((101 * 2, 509))
    graph = SizedGraph(lambda x: x @ weights, lambda shape: [tf.TensorSpec((shape.batch_size, 202))], 512, {202, 509})
    assert graph.traced_shape == BatchShape(97, 503, 73)
    (output,) = graph.outputs
    assert graph.scale_shape(output, BatchShape(3, 1, 1)) == (3, 509)


def trace_lifetimes(function) -> Lifetimes:
    """Trace a function of a float32 tensor (B, 4)."""
    return Lifetimes(SizedGraph(function, lambda shape: [tf.TensorSpec((shape.batch_size, 4))], 512, {4, 8}))


def test_the_peak_counts_tensors_that_live_at_the_same_time():
    def function(x):  # (B, 4)
        wide = x @ tf.ones((4, 8))  # 32 B bytes, used twice
        squared = tf.square(wide)  # another 32 B, because `wide` is still needed
        product = squared @ tf.ones((8, 4))  # 16 B in addition to both
        return product, tf.reduce_sum(wide, axis=1)  # 4 B; `squared` is freed

    assert trace_lifetimes(function).peak_bytes(BatchShape(10, 1, 1)) == 10 * (32 + 32 + 16)


def test_elementwise_operations_overwrite_unneeded_inputs():
    lifetimes = trace_lifetimes(lambda x: tf.exp(tf.tanh(x @ tf.ones((4, 8)))))
    assert lifetimes.peak_bytes(BatchShape(10, 1, 1)) == 10 * 32


def test_activations_are_the_tensors_that_the_backward_pass_uses():
    def function(x):
        weights = tf.ones((4, 8))
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = tf.reduce_sum(tf.exp(x @ weights))
        return tape.gradient(loss, weights)

    # only the output of exp, which is its own derivative
    assert trace_lifetimes(function).activation_bytes(BatchShape(10, 1, 1)) == 10 * 32


@pytest.fixture(scope="module")
def memory_of_steps():
    """The memory of training steps in float32 without checkpointing."""
    return TrainingMemory(make_model("pretraining"))


def test_weights_gradients_and_optimizer_match_the_real_ones(memory_of_steps):
    model = make_model("pretraining")
    optimizer = BertAdamW()
    optimizer.build(model.trainable_weights)
    moments = [
        variable for variable in optimizer.variables if "momentum" in variable.path or "velocity" in variable.path
    ]
    memory = memory_of_steps.estimate(SHAPE)
    assert memory.weights == memory.gradients == 4 * model.count_params()
    assert memory.optimizer == 4 * sum(np.prod(variable.shape) for variable in moments) == 8 * model.count_params()


def test_activations_grow_with_the_batch_and_scores_with_the_square_of_the_length(memory_of_steps):
    short, long = (memory_of_steps.estimate(BatchShape(8, length, 4)) for length in (64, 128))
    double = memory_of_steps.estimate(BatchShape(16, 64, 4))
    assert double.attention_scores == 2 * short.attention_scores
    assert long.attention_scores > 3 * short.attention_scores
    assert double.activations == pytest.approx(2 * short.activations, rel=0.005)  # measured: 0.28 %
    assert long.activations - long.attention_scores < 2.1 * (short.activations - short.attention_scores)


def test_stored_scores_include_the_softmax_of_each_layer(memory_of_steps):
    batch_size, length = 8, 64
    per_layer = batch_size * 2 * length * length * 4  # two heads; in the last layer only masked positions are queries
    assert memory_of_steps.estimate(BatchShape(batch_size, length, 4)).attention_scores >= per_layer


def test_transposed_keys_do_not_count_as_scores():
    scores = TrainingMemory(make_model("tagging")).estimate(BatchShape(8, 40, 1)).attention_scores
    assert scores > 0
    assert scores % (8 * 2 * 40 * 40) == 0  # which the float32 keys of two layers, 2 x (8, 2, 18, 40), are not


@pytest.fixture(scope="module")
def model_and_weights():
    """A model, and its weights before the estimate."""
    model = make_model("pretraining")
    return model, [keras.ops.convert_to_numpy(weight) for weight in model.weights]


@pytest.fixture(scope="module")
def memories(model_and_weights):
    """The memory of its training steps, by dtype policy and checkpointing."""
    return trace_training_memory(model_and_weights[0], jit_compile=False)


@pytest.mark.slow
def test_checkpointing_and_bfloat16_store_less(memories):
    shape = BatchShape(32, 128, 20)
    default, checkpointed = (memories["float32", checkpointing].estimate(shape) for checkpointing in (False, True))
    half = memories["mixed_bfloat16", False].estimate(shape)
    assert checkpointed.activations < half.activations < default.activations
    assert checkpointed.attention_scores == 0 < half.attention_scores < default.attention_scores
    assert default.tensors > default.activations
    runtime = checkpointed.process - checkpointed.tensors - (default.process - default.tensors)
    operations = {checkpointing: memories["float32", checkpointing].graph.operations for checkpointing in (False, True)}
    assert runtime == 44_000 * (len(operations[True]) - len(operations[False]))


def test_the_largest_batch_fits_and_one_more_sequence_does_not(memory_of_steps):
    memory, limit = memory_of_steps, 3_000_000_000
    largest = memory.estimate(SHAPE, limit).largest_batch
    fitting, too_large = (memory.estimate_process(BatchShape(size, 24, 20)) for size in (largest, largest + 1))
    assert fitting <= limit < too_large
    assert memory.estimate(SHAPE, 1_000_000).largest_batch == 0


@pytest.mark.slow
def test_bfloat16_saves_nothing_in_a_compiled_step_on_a_cpu():
    memories = trace_training_memory(make_model("masked_lm"), jit_compile=True)
    float32, checkpointed, half, checkpointed_half = (memory.estimate(SHAPE) for memory in memories.values())
    assert (half.process, checkpointed_half.process) == (float32.process, checkpointed.process)
    assert half.activations < float32.activations


@pytest.mark.slow
def test_estimates_do_not_change_the_model(model_and_weights, memories):
    model, before = model_and_weights
    assert memories
    assert not model.compiled
    assert all(np.array_equal(old, weight) for old, weight in zip(before, model.weights, strict=True))


def test_a_maximum_length_without_position_weights_is_not_traced():
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=90, position_type="sinusoidal", max_sequence_length=509)
    config = dataclasses.replace(config, num_layers=1)
    assert TrainingMemory(bk.BertMaskedLM(bk.BertEncoder(config, pooler=False))).graph.traced_shape.length == 503


def test_micro_batches_need_memory_for_accumulated_gradients(memory_of_steps):
    memory = memory_of_steps
    more = memory.estimate_process(SHAPE, num_micro_batches=4) - memory.estimate_process(SHAPE)
    assert more == memory.estimate(SHAPE).gradients
    assert memory.largest_batch(SHAPE, 3e9, num_micro_batches=4) <= memory.largest_batch(SHAPE, 3e9)


def test_a_model_without_a_prime_length_is_rejected():
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=90, max_sequence_length=3, intermediate_dim=6)
    with pytest.raises(InputError, match="the model accepts only 3 tokens, too few to estimate the memory"):
        TrainingMemory(bk.BertMaskedLM(bk.BertEncoder(config, pooler=False)))


def test_the_memory_of_this_machine_is_plausible():
    assert 1e9 < get_machine_memory() < 1e14


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 5])
def test_the_predicted_peak_matches_a_measurement(number):
    specification = importlib.util.spec_from_file_location("planning_benchmark", BENCHMARK)
    benchmark = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(benchmark)
    memory = {}
    for side in benchmark.SIDES:
        command = [sys.executable, str(BENCHMARK), "--child", side, "--shapes", str(number)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        memory[side] = json.loads(output.splitlines()[-1])["memory"]
    assert memory["predicted"] == pytest.approx(memory["measured"], rel=0.2)


@pytest.mark.parametrize("head", slow_except([None, *HEADS], quick=[None, "masked_lm"]))
def test_scores_in_inference_have_the_size_of_the_real_ones(head):
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=50, max_sequence_length=70)
    encoder = bk.BertEncoder(config)
    model = encoder if head is None else add_head(encoder, head, 3)
    memories = estimate_inference_memory(model)
    assert [memory.length for memory in memories] == [32, 64]
    ids = np.ones((1, 64), np.int32)
    outputs = encoder({"token_ids": ids, "padding_mask": ids}, return_attention_scores=True)
    num_bytes = sum(np.prod(scores.shape) * 4 for scores in outputs["attention_scores"])
    if head in ("classification", "masked_lm", "pretraining"):  # few queries in the last block
        assert num_bytes / 2 < memories[1].attention_scores < num_bytes
    else:
        assert memories[1].attention_scores == num_bytes
    assert memories[1].weights == 4 * model.count_params()
    widest = 64 * config.intermediate_dim * 4  # the first feed-forward layer
    assert widest < memories[1].tensors < 3 * widest


def test_inference_of_a_short_model_is_estimated_at_its_maximum_length():
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=50, max_sequence_length=20)
    assert [memory.length for memory in estimate_inference_memory(bk.BertEncoder(config))] == [20]
