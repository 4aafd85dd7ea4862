"""Step time: the measured matrix products are those whose FLOPs are counted."""

import math

import pytest

import bert_keras as bk
from bert_keras.analysis.cost_model.step_memory import MachineSpeed, Product, StepTime, TrainingMemory
from bert_keras.analysis.cost_model.subjects import HEADS, add_head
from bert_keras.analysis.cost_model.workloads import BatchShape, Workload
from tests.marks import slow_except


class CountingMachine(MachineSpeed):
    """A machine that computes one FLOP of a product per second, with a memory of a given (default: infinite) speed."""

    def __init__(self, bytes_per_second: float = float("inf")):
        super().__init__()
        self._bytes_per_second = bytes_per_second  # not measured
        self.products = []

    def time_products(self, products) -> list[float]:
        self.products = list(products)
        return [float(count_flops(product)) for product in products]


def count_flops(product: Product) -> int:
    (*stack, rows, columns), (*_, last_rows, last_columns) = product.shapes
    inner, outer = (rows, columns) if product.transposes[0] else (columns, rows)
    return 2 * math.prod(stack) * outer * inner * (last_rows if product.transposes[1] else last_columns)


@pytest.mark.parametrize(
    ("head", "batch_size"),
    slow_except(
        [(head, batch_size) for head in HEADS for batch_size in (3, 400)],  # more than one measured batch
        quick=[("masked_lm", 400)],
    ),
)
def test_measured_products_have_the_flops_of_a_training_step(head, batch_size):
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=90, hidden_dim=36, intermediate_dim=52)
    model = add_head(bk.BertEncoder(config), head, 3)
    shape = BatchShape(batch_size, 12, 3)
    counted = sum(one.flops for one in Workload(model, shape).training if one.is_matrix_product)
    seconds = StepTime(TrainingMemory(model), CountingMachine()).measure_products(shape)
    assert seconds == pytest.approx(counted, rel=1e-9)


def test_each_product_is_measured_once():
    machine = MachineSpeed()
    small, large = (Product("MatMul", ((size, 64), (64, 32)), (False, False), "float32") for size in (8, 4096))
    seconds = machine.time_products([small, large])
    assert min(seconds) > 0
    assert machine.time_products([large, small]) == seconds[::-1]
    transposed = Product("BatchMatMulV2", ((2, 3, 8, 4), (2, 3, 5, 4)), (False, True), "bfloat16")
    assert machine.time_products([transposed])[0] > 0
    assert 1e8 < machine.bytes_per_second < 1e13


@pytest.fixture(scope="module")
def training():
    """The traced training step of a tiny classifier."""
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=90)
    return TrainingMemory(add_head(bk.BertEncoder(config), "classification", 3))


@pytest.mark.parametrize(("batch_size", "num_measured"), [(3, 3), (400, 4096 // 12)])
def test_measured_batches_have_at_most_4096_tokens(batch_size, num_measured, training):
    machine = CountingMachine()
    StepTime(training, machine).measure_products(BatchShape(batch_size, 12, 1))
    shapes = [product.shapes[0] for product in machine.products if product.kind == "BatchMatMulV2"]
    assert {batch_size for batch_size, *_ in shapes} == {num_measured}


def test_micro_batches_share_one_optimizer_update(training):
    time, shape = StepTime(training, CountingMachine()), BatchShape(8, 64, 1)
    one, two, three = (time.estimate(shape, number) for number in (1, 2, 3))
    assert one < two
    assert two - one == pytest.approx(three - two)
    assert two < 2 * one


def test_a_step_takes_longer_than_its_products(training):
    time = StepTime(training, CountingMachine(bytes_per_second=1e9))
    small, large = (BatchShape(batch_size, 64, 1) for batch_size in (2, 64))
    assert time.measure_products(small) < time.estimate(small) < time.estimate(large)
