"""The bars of the figures against the numbers that they show."""

import pytest

from bert_keras.analysis.cost_model.components import Component, Flops
from bert_keras.analysis.cost_model.plan_figures import (
    InferenceMemory,
    draw_flops,
    draw_inference_memory,
    draw_parameters,
    draw_training_memory,
    make_parameters_section,
)
from bert_keras.analysis.cost_model.step_memory import Memory


def bars(figure) -> dict[str, list[tuple[float, float]]]:
    """Return width and height of each bar, keyed by the name in the legend."""
    (axes,) = figure.axes
    sizes = ([(bar.get_width(), bar.get_height()) for bar in container] for container in axes.containers)
    return dict(zip((container.get_label() for container in axes.containers), sizes, strict=True))


def test_parameters_are_grouped_and_other_components_are_heads():
    components = [
        Component("token embeddings", 5_000_000, 1),
        Component("position embeddings", 1_000_000, 1),
        Component("attention Q", 2_000_000, 2),
        Component("feed-forward out", 3_000_000, 2),
        Component("embedding norm", 500_000, 1),
        Component("classifier", 250_000, 1),
    ]
    widths = {name: widths[0][0] for name, widths in bars(draw_parameters({"mine": components})).items()}
    expected = {"embeddings": 6, "attention": 2, "feed-forward": 3, "norms": 0.5, "pooler": 0, "heads": 0.25}
    assert widths == pytest.approx(expected)


def test_a_model_is_compared_with_base_and_large():
    section = make_parameters_section([Component("pooler", 7, 1)])
    totals = [sum(group[place][0] for group in bars(section.figure).values()) for place in range(3)]
    assert totals == pytest.approx([7e-6, 109.482240, 335.141888])


def test_flops_of_the_forward_and_backward_pass():
    widths = bars(draw_flops([Flops("QKV", 1, 0)], [Flops("QKV", 2_000_000_000, 4_000_000_000)]))
    assert (widths["forward"][0][0], widths["backward"][0][0]) == (2, 4)
    assert list(bars(draw_flops([Flops("QKV", 1_000_000_000, 0)], None))) == ["forward"]


def test_training_memory_by_length():
    sizes = {"weights": 3, "gradients": 2, "optimizer": 6, "activations": 10, "attention_scores": 4}
    millions = {name: size * 1_000_000 for name, size in sizes.items()}
    rest = {"tensors": 0, "process": 0, "largest_batch": 0}
    memories = [Memory("float32", False, 8, length, **millions, **rest) for length in (32, 64)]
    heights = {name: heights[1][1] for name, heights in bars(draw_training_memory(memories)).items()}
    expected = {"weights": 3, "gradients": 2, "optimizer": 6, "activations": 6, "attention scores": 4}
    assert heights == pytest.approx(expected)


def test_inference_memory_by_length():
    widths = bars(draw_inference_memory([InferenceMemory(32, 9, 2_000_000, 5_000_000)]))
    assert [heights[0][1] for heights in widths.values()] == pytest.approx([2, 5])
