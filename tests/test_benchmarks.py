"""The benchmarks use names that exist; most of them take too long to run in tests."""

from benchmarks.finetuning import ROWS


def test_a_row_of_the_finetuning_benchmark_starts_with_its_predecessors():
    assert ROWS["squad2"].with_predecessors() == [ROWS["squad"], ROWS["squad2"]]
    assert ROWS["sst2"].with_predecessors() == [ROWS["sst2"]]
