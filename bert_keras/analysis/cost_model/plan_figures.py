"""Figures of a plan: parameters, FLOPs and memory."""

import dataclasses
import functools
import os
import typing
from collections.abc import Mapping, Sequence

import keras

from bert_keras.analysis.cost_model.components import ELEMENTWISE, Component, Flops, count_parameters
from bert_keras.analysis.cost_model.planning import Plan
from bert_keras.analysis.cost_model.sized_graph import Lifetimes, SizedGraph
from bert_keras.analysis.cost_model.step_memory import Memory, count_bytes
from bert_keras.analysis.cost_model.workloads import BatchShape, Workload, choose_default_lengths, list_dimensions
from bert_keras.architectures.encoder import BertEncoder
from bert_keras.architectures.layers import zero_initialization
from bert_keras.checkpoints.building import get_encoder
from bert_keras.config import BertConfig
from bert_keras.figures import COLORS, FigureSection, check_matplotlib, create_figure, save_figures, simplify_axes
from bert_keras.publishing import publish_folder

_REFERENCE_PRESETS = ("base", "large")
# Components by group; all other components are heads
_GROUPS = {
    "embeddings": ("token embeddings", "segment embeddings", "position embeddings", "embedding projection"),
    "attention": ("attention Q", "attention K", "attention V", "attention output"),
    "feed-forward": ("feed-forward in", "feed-forward out"),
    "norms": ("embedding norm", "attention norm", "feed-forward norm"),
    "pooler": ("pooler",),
}
_HEADS = "heads"
_GROUP_OF_COMPONENT = {name: group for group, names in _GROUPS.items() for name in names}
_MEGABYTE, _MILLION, _BILLION = 1e6, 1e6, 1e9


@dataclasses.dataclass(frozen=True)
class InferenceMemory:
    """Memory of a forward pass over one text in inference, in bytes.

    Attributes:
        length: S.
        weights: weights of the model.
        tensors: peak of all other tensors.
        attention_scores: float32 attention probabilities of all blocks, (N, S, S) each. If the head uses only some
            positions, the last block has only the queries at these positions.
    """

    length: int
    weights: int
    tensors: int
    attention_scores: int


def save_plan_figures(plan: Plan, out: str | os.PathLike, *, overwrite: bool = False) -> list[str]:
    """Write the figures of a plan as PNG and SVG: parameters, FLOPs, and memory of training by sequence length.

    Args:
        plan: the plan; a quick plan has no figure of memory.
        out: the folder; it is written completely or not at all.
        overwrite: replace a folder that `plan` wrote.

    Returns:
        The file names.

    Raises:
        InputError: the folder exists and is not empty, or (`MissingExtraError`) matplotlib is not installed.
    """
    check_matplotlib()
    sections = [
        make_parameters_section(plan.parameters),
        FigureSection("operations", "FLOPs", "", draw_flops(plan.forward_flops, plan.training_flops)),
    ]
    if plan.memory_by_shape:
        limit = max(8, plan.batch_size)
        batch_size = max(one.batch_size for one in plan.memory_by_shape if one.batch_size <= limit)
        memories = [one for one in plan.memory_by_shape if one.batch_size == batch_size]
        sections.append(FigureSection("memory", "Memory of a training step", "", draw_training_memory(memories)))
    with publish_folder(out, "plan", overwrite=overwrite) as folder:
        return save_figures(sections, folder)


def make_parameters_section(parameters: Sequence[Component]) -> FigureSection:
    """Create a section with the parameters of a model, compared with those of base and large."""
    models = {"this model": parameters} | {preset: _count_preset(preset) for preset in _REFERENCE_PRESETS}
    sentence = (
        "Parameters by component, compared with the encoders of BERT base and large (with pooler). Tied weights count "
        "once."
    )
    return FigureSection("parameters", "Parameters", sentence, draw_parameters(models))


@functools.cache
def _count_preset(name: str) -> list[Component]:
    """Count the parameters of a preset on a single block, because all blocks are equal."""
    config = BertConfig.from_preset(name)
    with zero_initialization():
        components = count_parameters(BertEncoder(dataclasses.replace(config, num_layers=1)))
    counts = []
    for component in components:
        factor = config.num_layers if component.name.startswith(("attention", "feed-forward")) else 1
        counts.append(Component(component.name, factor * component.parameters, factor * component.num_layers))
    return counts


def make_inference_memory_section(model: keras.Model) -> FigureSection:
    """Create a section with the memory of a forward pass over one text, by sequence length."""
    memories = estimate_inference_memory(model)
    weights = memories[0].weights / _MEGABYTE
    sentence = (
        "Memory of a forward pass over one text, by sequence length S, from the traced model: peak memory of the "
        "tensors, and size of the attention scores of all layers, (N, S, S) per layer in float32 (last layer: only the "
        f"queries that the head uses), which grows with S². The weights add {weights:,.1f} MB at any length."
    )
    return FigureSection("memory", "Memory by sequence length", sentence, draw_inference_memory(memories))


def estimate_inference_memory(model: keras.Model) -> list[InferenceMemory]:
    """Estimate the memory of a forward pass over one text of 32, 64, 128, ... tokens, up to the model's maximum.

    The model is traced once, and nothing is computed.
    """
    max_length = get_encoder(model).config.max_sequence_length

    def make_specs(shape: BatchShape) -> tuple:
        return (Workload(model, shape).feature_specs(),)

    graph = SizedGraph(lambda features: model(features, training=False), make_specs, max_length, list_dimensions(model))
    lifetimes, weights = Lifetimes(graph), count_bytes(model.weights)
    softmaxes = [one for one in graph.operations if one.kind == "Softmax" and "/attention" in one.name]
    count_scores = graph.byte_counter([softmax.outputs[0] for softmax in softmaxes])
    shapes = [BatchShape(1, length) for length in choose_default_lengths(max_length)]
    return [
        InferenceMemory(one.length, weights, lifetimes.peak_bytes(one), int(count_scores(one).sum())) for one in shapes
    ]


def draw_inference_memory(memories: Sequence[InferenceMemory]) -> typing.Any:
    """Draw two bars per length: the peak memory of the tensors, and the attention scores of all layers."""
    figure = create_figure(figsize=(7, 3.4), layout="constrained")
    axes = figure.add_subplot()
    series = {
        "tensors, peak": [one.tensors for one in memories],
        "attention scores, all layers": [one.attention_scores for one in memories],
    }
    for index, ((label, sizes), color) in enumerate(zip(series.items(), COLORS, strict=False)):
        places = [number + 0.4 * (index - 0.5) for number in range(len(memories))]
        axes.bar(places, [size / _MEGABYTE for size in sizes], width=0.4, color=color, label=label)
    axes.set_xticks(range(len(memories)), [str(one.length) for one in memories])
    axes.set(xlabel="sequence length (tokens)", ylabel="MB")
    simplify_axes(axes)
    return figure


def draw_parameters(models: Mapping[str, Sequence[Component]]) -> typing.Any:
    """Draw one stacked bar per model, in millions of parameters.

    Args:
        models: the components of each model, keyed by its name.
    """
    figure = create_figure(figsize=(8, 1.2 + 0.55 * len(models)), layout="constrained")
    axes = figure.add_subplot()
    left = dict.fromkeys(models, 0.0)
    for group, color in zip((*_GROUPS, _HEADS), COLORS, strict=True):
        widths = {
            name: sum(one.parameters for one in components if _GROUP_OF_COMPONENT.get(one.name, _HEADS) == group)
            / _MILLION
            for name, components in models.items()
        }
        axes.barh(list(models), list(widths.values()), left=list(left.values()), color=color, label=group)
        left = {name: left[name] + widths[name] for name in models}
    for place, end in enumerate(left.values()):
        axes.annotate(f"{end:,.1f}", (end, place), (4, 0), textcoords="offset points", va="center", fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel("parameters (millions)")
    simplify_axes(axes)
    return figure


def draw_flops(forward: Sequence[Flops], training: Sequence[Flops] | None) -> typing.Any:
    """Draw the FLOPs by part: of a training step, forward and backward, or else of a forward pass in inference."""
    parts = training or forward
    figure = create_figure(figsize=(8, 1.1 + 0.34 * len(parts)), layout="constrained")
    axes = figure.add_subplot()
    names = [f"{one.part} (not matrix products)" if one.part == ELEMENTWISE else one.part for one in parts]
    widths = [one.forward / _BILLION for one in parts]
    axes.barh(names, widths, color=COLORS[0], label="forward")
    if training:
        axes.barh(names, [one.backward / _BILLION for one in parts], left=widths, color=COLORS[1], label="backward")
    axes.invert_yaxis()
    axes.set_xlabel("GFLOPs")
    simplify_axes(axes)
    return figure


def draw_training_memory(memories: Sequence[Memory]) -> typing.Any:
    """Draw one stacked bar per sequence length with the memory of a training step.

    Args:
        memories: memory of batches that differ only in their length.
    """
    parts = {
        "weights": [one.weights for one in memories],
        "gradients": [one.gradients for one in memories],
        "optimizer": [one.optimizer for one in memories],
        "activations": [one.activations - one.attention_scores for one in memories],
        "attention scores": [one.attention_scores for one in memories],
    }
    figure = create_figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.add_subplot()
    names, bottom = [str(one.length) for one in memories], [0.0] * len(memories)
    for (part, sizes), color in zip(parts.items(), COLORS, strict=False):
        heights = [size / _MEGABYTE for size in sizes]
        if any(heights):
            axes.bar(names, heights, bottom=bottom, color=color, label=part)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    axes.set(xlabel="sequence length (tokens)", ylabel="MB")
    simplify_axes(axes)
    axes.set_title(f"training step, batch size {memories[0].batch_size}, {memories[0].dtype_policy}", fontsize=10)
    return figure
