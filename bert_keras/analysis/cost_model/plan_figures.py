"""The pictures of a plan, as figures of matplotlib: where the parameters sit, what takes the time, what the memory."""

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence

import keras

from bert_keras.analysis.cost_model.costs import ELEMENTWISE, Flops
from bert_keras.analysis.cost_model.inference_memory import InferenceMemory, inference_memory
from bert_keras.analysis.cost_model.parameters import Component, parameters_of
from bert_keras.analysis.cost_model.planning import Plan
from bert_keras.analysis.cost_model.training_memory import Memory
from bert_keras.config import BertConfig
from bert_keras.figures import COLORS, FigureSection, check_matplotlib, create_figure, save_figures, simplify_axes
from bert_keras.modeling import BertEncoder
from bert_keras.modeling.initializers import zero_initialization
from bert_keras.publishing import publish_folder

_BESIDE = ("base", "large")
# What a component counts to in the bars: the rest are heads
_GROUPS = {
    "embeddings": ("token embeddings", "segment embeddings", "position embeddings", "embedding projection"),
    "attention": ("attention Q", "attention K", "attention V", "attention output"),
    "feed-forward": ("feed-forward in", "feed-forward out"),
    "norms": ("embedding norm", "attention norm", "feed-forward norm"),
    "pooler": ("pooler",),
}
_HEADS = "heads"
_MEGABYTE, _MILLION = 1e6, 1e6


def save_pictures(planned: Plan, out: str | os.PathLike, *, overwrite: bool = False) -> list[str]:
    """Draws a plan as PNG and SVG: parameters beside those of base and large, operations, and memory by length.

    Args:
        planned: of a quick plan the memory is left out.
        out: the folder; it appears whole or not at all.
        overwrite: replace a folder that `plan` wrote.

    Returns:
        The names of the files.

    Raises:
        InputError: the folder is there and not empty, or (`MissingExtraError`) matplotlib is not installed.
    """
    check_matplotlib()
    sections = [
        parameters_section(planned.parameters),
        FigureSection("operations", "Operations", "", flops_figure(planned.forward_flops, planned.training_flops)),
    ]
    if planned.memory_by_shape:
        rows = max(one.batch_size for one in planned.memory_by_shape if one.batch_size <= max(8, planned.batch_size))
        of_rows = [one for one in planned.memory_by_shape if one.batch_size == rows]
        sections.append(FigureSection("memory", "Memory", "", memory_figure(of_rows)))
    with publish_folder(out, "plan", overwrite=overwrite) as folder:
        return save_figures(sections, folder)


def parameters_section(parameters: Sequence[Component]) -> FigureSection:
    """Returns where the parameters of a model sit, beside those of base and large.

    Args:
        parameters: its components.
    """
    counts = {"this model": parameters} | {preset: _of_preset(preset) for preset in _BESIDE}
    sentence = (
        "Parameters by kind of layer, counted from built models; weights that two layers share count once. base and "
        "large are encoders with a pooler, counted from one and two of their blocks, which are all alike."
    )
    return FigureSection("parameters", "Where the parameters sit", sentence, parameters_figure(counts))


@functools.cache
def _of_preset(name: str) -> list[Component]:
    config = BertConfig.from_preset(name)
    with zero_initialization():
        one, two = (parameters_of(BertEncoder(dataclasses.replace(config, num_layers=number))) for number in (1, 2))
    counted = []
    for first, both in zip(one, two, strict=True):
        of_a_block, layers = both.parameters - first.parameters, both.num_layers - first.num_layers
        more = config.num_layers - 1
        counted.append(Component(first.name, first.parameters + more * of_a_block, first.num_layers + more * layers))
    return counted


def inference_memory_section(model: keras.Model) -> FigureSection:
    """Returns what reading one text takes in memory, by its length."""
    memories = inference_memory(model)
    weights = memories[0].weights / _MEGABYTE
    sentence = (
        "What one text takes in inference, from the model as it is traced: all tensors that are alive at one moment, "
        "and the attention scores of all layers, (N, S, S) each in float32 (of the last one only what is read), which "
        "grow with the square of the tokens. "
        f"The weights take {weights:,.1f} MB whatever the length."
    )
    return FigureSection("memory", "Memory by length", sentence, inference_memory_figure(memories))


def inference_memory_figure(memories: Sequence[InferenceMemory]):
    """Returns two bars for each length: the tensors of a pass at one moment, and the scores of all layers."""
    figure = create_figure(figsize=(7, 3.4), layout="constrained")
    axes = figure.add_subplot()
    sides = {
        "tensors at one moment": lambda one: one.tensors,
        "attention scores, all layers": lambda one: one.attention_scores,
    }
    for place, ((label, bytes_of), color) in enumerate(zip(sides.items(), COLORS, strict=False)):
        places = [number + 0.4 * (place - 0.5) for number in range(len(memories))]
        axes.bar(places, [bytes_of(one) / _MEGABYTE for one in memories], width=0.4, color=color, label=label)
    axes.set_xticks(range(len(memories)), [str(one.length) for one in memories])
    axes.set_ylabel("MB")
    axes.set_xlabel("tokens in a text")
    simplify_axes(axes)
    return figure


def parameters_figure(counts: Mapping[str, Sequence[Component]]):
    """Returns stacked bars, one a model, of millions of parameters.

    Args:
        counts: the components of each model, by its name.
    """
    figure = create_figure(figsize=(8, 1.2 + 0.55 * len(counts)), layout="constrained")
    axes = figure.add_subplot()
    left = dict.fromkeys(counts, 0.0)
    for group, color in zip((*_GROUPS, _HEADS), COLORS, strict=True):
        widths = {name: _of_group(components, group) / _MILLION for name, components in counts.items()}
        axes.barh(list(counts), list(widths.values()), left=list(left.values()), color=color, label=group)
        left = {name: left[name] + widths[name] for name in counts}
    for place, end in enumerate(left.values()):
        axes.annotate(f"{end:,.1f}", (end, place), (4, 0), textcoords="offset points", va="center", fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel("million parameters")
    simplify_axes(axes)
    return figure


def flops_figure(forward: Sequence[Flops], training: Sequence[Flops] | None):
    """Returns bars of floating-point operations by part: of a forward pass in inference, or forward and backward."""
    parts = training or forward
    figure = create_figure(figsize=(8, 1.1 + 0.34 * len(parts)), layout="constrained")
    axes = figure.add_subplot()
    names = [f"{one.part} (all but products)" if one.part == ELEMENTWISE else one.part for one in parts]
    there = [one.forward / 1e9 for one in parts]
    axes.barh(names, there, color=COLORS[0], label="forward")
    if training:
        axes.barh(names, [one.backward / 1e9 for one in parts], left=there, color=COLORS[1], label="backward")
    axes.invert_yaxis()
    axes.set_xlabel("billion floating-point operations")
    simplify_axes(axes)
    return figure


def memory_figure(memories: Sequence[Memory]):
    """Returns stacked bars of what a step holds, one for each length.

    Args:
        memories: of batches that differ in their length alone.
    """
    parts = {
        "weights": lambda one: one.weights,
        "gradients": lambda one: one.gradients,
        "optimizer": lambda one: one.optimizer,
        "activations": lambda one: one.activations - one.attention_scores,
        "attention scores": lambda one: one.attention_scores,
    }
    figure = create_figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.add_subplot()
    names, bottom = [str(one.length) for one in memories], [0.0] * len(memories)
    for (part, bytes_of), color in zip(parts.items(), COLORS, strict=False):
        heights = [bytes_of(one) / _MEGABYTE for one in memories]
        if any(heights):
            axes.bar(names, heights, bottom=bottom, color=color, label=part)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    axes.set_xlabel("tokens in a row")
    simplify_axes(axes)
    axes.set_ylabel("MB")
    first = memories[0]
    axes.set_title(f"a training step, {first.batch_size} rows, {first.dtype_policy}", fontsize=10)
    return figure


def _of_group(components: Sequence[Component], group: str) -> int:
    if group != _HEADS:
        return sum(one.parameters for one in components if one.name in _GROUPS[group])
    grouped = [name for names in _GROUPS.values() for name in names]
    return sum(one.parameters for one in components if one.name not in grouped)
