"""Time: the products that are measured are those that are counted."""

import math

import pytest

import bert_keras as bk
from bert_keras.analysis.cost_model.step_time import MachineSpeed, Product, StepTime
from bert_keras.analysis.cost_model.subjects import HEADS
from bert_keras.analysis.cost_model.tracing.sized_graph import Sizes
from bert_keras.analysis.cost_model.training_memory import TrainingMemory
from bert_keras.analysis.cost_model.workloads import Workload
from tests.marks import slow_except


class CountingMachine(MachineSpeed):
    """A machine that takes a second for each FLOP of a product, and no time to move bytes if no speed is given."""

    def __init__(self, bytes_per_second: float = float("inf")):
        super().__init__()
        self._bytes_per_second = bytes_per_second
        self.products = []

    def seconds_of(self, products) -> list[float]:
        self.products = list(products)
        return [float(flops_of(product)) for product in products]

    @property
    def moved_bytes_a_second(self) -> float:
        return self._bytes_per_second


def flops_of(product: Product) -> int:
    (*stack, rows, columns), (*_, last_rows, last_columns) = product.shapes
    inner, outer = (rows, columns) if product.turned[0] else (columns, rows)
    return 2 * math.prod(stack) * outer * inner * (last_rows if product.turned[1] else last_columns)


@pytest.mark.parametrize(
    ("head", "num_rows"),
    slow_except(
        [(head, num_rows) for head in HEADS for num_rows in (3, 400)],  # more than is measured at once
        quick=[("pretraining", 400)],
    ),
)
def test_its_products_are_those_of_the_training_count(head, num_rows):
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=90, hidden_dim=36, intermediate_dim=52)
    model = HEADS[head](bk.BertEncoder(config), 3)
    counted = sum(one.flops for one in Workload(model, num_rows, 12, 3).training if one.is_product)
    seconds = StepTime(TrainingMemory(model), CountingMachine()).product_seconds(Sizes(num_rows, 12, 3))
    assert seconds == pytest.approx(counted, rel=1e-9)


def test_each_product_is_measured_once():
    machine = MachineSpeed()
    small, large = (Product("MatMul", ((size, 64), (64, 32)), (False, False), "float32") for size in (8, 4096))
    seconds = machine.seconds_of([small, large])
    assert min(seconds) > 0
    assert machine.seconds_of([large, small]) == seconds[::-1]
    turned = Product("BatchMatMulV2", ((2, 3, 8, 4), (2, 3, 5, 4)), (False, True), "bfloat16")
    assert machine.seconds_of([turned])[0] > 0
    assert 1e8 < machine.moved_bytes_a_second < 1e13


@pytest.mark.parametrize(("num_rows", "num_measured"), [(3, 3), (400, 4096 // 12)])
def test_as_many_rows_are_measured_as_tokens_allow(num_rows, num_measured):
    model = HEADS["classification"](bk.BertEncoder(bk.BertConfig.from_preset("tiny", vocabulary_size=90)), 3)
    machine = CountingMachine()
    StepTime(TrainingMemory(model), machine).product_seconds(Sizes(num_rows, 12, 1))
    of_attention = [product.shapes[0] for product in machine.products if product.kind == "BatchMatMulV2"]
    assert {num_rows for num_rows, *_ in of_attention} == {num_measured}


def test_parts_of_a_step_share_the_optimizer():
    model = HEADS["classification"](bk.BertEncoder(bk.BertConfig.from_preset("tiny", vocabulary_size=90)), 3)
    time, sizes = StepTime(TrainingMemory(model), CountingMachine()), Sizes(8, 64, 1)
    one, two, three = (time.seconds(sizes, parts) for parts in (1, 2, 3))
    assert one < two
    assert two - one == pytest.approx(three - two)
    assert two < 2 * one


def test_more_rows_take_longer_than_their_products():
    model = HEADS["classification"](bk.BertEncoder(bk.BertConfig.from_preset("tiny", vocabulary_size=90)), 3)
    time = StepTime(TrainingMemory(model), CountingMachine(bytes_per_second=1e9))
    few, many = (Sizes(rows, 64, 1) for rows in (2, 64))
    assert time.product_seconds(few) < time.seconds(few) < time.seconds(many)
