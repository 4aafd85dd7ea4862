"""The figures of an inspection."""

import typing
from collections.abc import Sequence

import numpy as np

from bert_keras.analysis.inspection import summaries
from bert_keras.analysis.inspection.forward_pass import count_scores
from bert_keras.figures import COLORS, FigureSection, create_figure, simplify_axes

if typing.TYPE_CHECKING:
    from bert_keras.analysis.inspection.inspecting import Inspection

_MAX_LABELS = 48  # per axis; with more tokens, every second, third, ... has a label
_BLUES = "Blues"
_STATISTICS = ("entropy", "distance", "cls", "sep", "itself", "previous", "next")


def draw_figures(inspection: "Inspection") -> list[FigureSection]:
    """Draw all figures of an inspection, in the order of the page."""
    numbers = {"layer": inspection.layer, "head": inspection.head}
    chosen = [f"{name}_{number}" for name, number in numbers.items() if number is not None]
    return [
        FigureSection("_".join(["attention", *chosen]), "Attention", "", draw_attention(inspection)),
        FigureSection("heads", "Attention heads", "", draw_heads(inspection)),
        FigureSection("scores", "Attention scores", "", draw_scores(inspection)),
        FigureSection("similarity", "Token similarity", "", draw_similarity(inspection)),
        FigureSection("positions", "Position embeddings", "", draw_positions(inspection)),
        FigureSection("activations", "Activation functions", "", draw_activations(inspection)),
    ]


def draw_attention(inspection: "Inspection") -> typing.Any:
    """Draw maps of attention: of all heads, of one layer, of one head in all layers, or of a single head."""
    layers = _select(inspection.layer, inspection.config.num_layers)
    heads = _select(inspection.head, inspection.config.num_heads)
    if len(layers) == len(heads) == 1:
        return _draw_attention_map(inspection, layers[0], heads[0])
    if len(layers) > 1 and len(heads) > 1:
        rows, columns = len(layers), len(heads)
    else:
        columns = min(len(layers) * len(heads), 4)
        rows = -(-len(layers) * len(heads) // columns)
    figure = create_figure(figsize=(1.05 * columns + 0.6, 1.12 * rows + 0.7), layout="constrained")
    all_axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in all_axes:
        axes.axis("off")
    maps = [(layer, head) for layer in layers for head in heads]
    for axes, (layer, head) in zip(all_axes, maps, strict=False):
        axes.imshow(np.sqrt(inspection.attention[layer, head]), cmap=_BLUES, vmin=0, vmax=1)
        axes.set_title(f"layer {layer}, head {head}", fontsize=6, pad=2)
    figure.suptitle("attention: rows are queries, columns keys; color: square root of the probability", fontsize=9)
    return figure


def draw_heads(inspection: "Inspection") -> typing.Any:
    """Draw the statistics of the heads as maps of layers by heads."""
    shape = (inspection.config.num_layers, inspection.config.num_heads)
    width, height = 0.24 * shape[1] + 1.1, 0.24 * shape[0] + 0.9
    figure = create_figure(figsize=(4 * max(width, 1.9), 2 * max(height, 1.7)), layout="constrained")
    all_axes = list(figure.subplots(2, 4).flat)
    for axes, name in zip(all_axes, _STATISTICS, strict=False):
        values = np.array([getattr(head, name) for head in inspection.heads]).reshape(shape)
        image = axes.imshow(values, cmap=_BLUES, vmin=0, vmax=max(values.max(), 1e-9), aspect="auto")
        unit = {"entropy": " (bits)", "distance": " (tokens)"}.get(name, " (share)")
        axes.set_title(summaries.HEADINGS.get(name, name) + unit, fontsize=9)
        axes.set_xlabel("head", fontsize=7)
        axes.set_ylabel("layer", fontsize=7)
        axes.tick_params(labelsize=6)
        figure.colorbar(image, ax=axes).ax.tick_params(labelsize=6)
    all_axes[-1].axis("off")
    return figure


def draw_scores(inspection: "Inspection") -> typing.Any:
    """Draw histograms of the scores before and after scaling, of the selected layer or of all layers."""
    histograms = count_scores(inspection.forward_pass)
    layers = _select(inspection.layer, inspection.config.num_layers)
    figure = create_figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.add_subplot()
    counts = histograms.counts[layers].sum(0)
    for edges, label, color in (
        (histograms.raw_edges, "before scaling: Q K^T", COLORS[1]),
        (histograms.scaled_edges, "after scaling: Q K^T / sqrt(H)", COLORS[0]),
    ):
        axes.stairs(counts, edges, fill=True, alpha=0.55, color=color, label=label)
    axes.set_xlabel("score", parse_math=False)
    axes.set(ylabel="count (log scale)", yscale="log")
    title = f"layer {layers[0]}" if len(layers) == 1 else "all layers"
    axes.set_title(f"{title}, all heads; H = {inspection.config.head_dim}", fontsize=10)
    simplify_axes(axes)
    return figure


def draw_similarity(inspection: "Inspection") -> typing.Any:
    """Draw how much each layer changes each token's vector, and how similar different tokens are."""
    similarity, tokens = inspection.similarity, inspection.tokens
    figure = create_figure(figsize=(max(6.5, 0.16 * min(len(tokens), 70) + 2), 6), layout="constrained")
    top, bottom = figure.subplots(2, 1, height_ratios=(3, 2))
    image = top.imshow(similarity.to_previous, cmap=_BLUES, vmax=1, aspect="auto")
    top.set_ylabel("layer")
    top.set_title("cosine of each token's vectors before and after the layer", fontsize=10)
    _label_tokens(top, tokens, label_queries=False)
    figure.colorbar(image, ax=top)
    states = np.arange(len(similarity.anisotropy))
    bottom.plot(states[1:], similarity.to_previous.mean(1), color=COLORS[0], label="before and after the layer")
    bottom.plot(states[1:], similarity.to_embeddings.mean(1), color=COLORS[1], label="to the embeddings")
    bottom.plot(states, similarity.anisotropy, color=COLORS[2], label="two different tokens")
    bottom.set(xlabel="state (0 = embeddings, l + 1 = after layer l)", ylabel="mean cosine")
    simplify_axes(bottom)
    return figure


def draw_positions(inspection: "Inspection") -> typing.Any:
    """Draw the cosines between position embeddings, learned and sinusoidal, as maps and by distance."""
    cosines = {name: summaries.compute_position_similarity(table) for name, table in inspection.positions.items()}
    figure = create_figure(figsize=(3.4 * (len(cosines) + 1), 3.2), layout="constrained")
    *maps, lines = figure.subplots(1, len(cosines) + 1)
    for axes, (name, values) in zip(maps, cosines.items(), strict=True):
        image = axes.imshow(values[: summaries.MAX_POSITIONS, : summaries.MAX_POSITIONS], cmap="RdBu", vmin=-1, vmax=1)
        axes.set_title(f"{name}: cosine of two positions", fontsize=9)
    figure.colorbar(image, ax=maps, shrink=0.8)
    for (name, values), color in zip(cosines.items(), COLORS, strict=False):
        lines.plot(summaries.average_by_distance(values), color=color, label=name)
    lines.set(xlabel="distance (positions)", ylabel="mean cosine")
    simplify_axes(lines)
    return figure


def draw_activations(inspection: "Inspection") -> typing.Any:
    """Draw GELU, its tanh approximation and ReLU, and the difference between the two GELUs."""
    curves = summaries.compute_activations()
    x = curves.pop("x")
    figure = create_figure(figsize=(8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (name, values), color, style in zip(curves.items(), COLORS[:3], ("-", "--", "-"), strict=True):
        suffix = " (this model)" if name == inspection.config.hidden_act else ""
        left.plot(x, values, style, color=color, label=name + suffix)
    left.set_xlabel("x")
    simplify_axes(left)
    right.plot(x, curves["gelu"] - curves["gelu_tanh"], color=COLORS[0])
    largest, place = summaries.measure_gelu_difference()
    right.set_title(f"gelu - gelu_tanh: at most {largest:.2e}, at x = {place:.2f}", fontsize=9)
    right.set_xlabel("x")
    right.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_attention_map(inspection: "Inspection", layer: int, head: int) -> typing.Any:
    tokens = inspection.tokens
    side = max(3.2, 0.19 * min(len(tokens), _MAX_LABELS))
    figure = create_figure(figsize=(side + 1.8, side + 1.1), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(inspection.attention[layer, head], cmap=_BLUES, vmin=0)
    kind = inspection.heads[layer * inspection.config.num_heads + head].kind
    axes.set_title(f"layer {layer}, head {head}: {kind}", fontsize=10)
    axes.set(xlabel="key", ylabel="query")
    _label_tokens(axes, tokens, label_queries=True)
    figure.colorbar(image, ax=axes, shrink=0.8).set_label("attention probability", fontsize=8)
    return figure


def _select(number: int | None, count: int) -> list[int]:
    return list(range(count)) if number is None else [number]


def _label_tokens(axes: typing.Any, tokens: Sequence[str], *, label_queries: bool) -> None:
    """Write the tokens at the x axis and, in a map of attention, also at the y axis."""
    step = -(-len(tokens) // _MAX_LABELS)
    places = range(0, len(tokens), step)
    axes.set_xticks(places, tokens[::step], rotation=90, fontsize=7, parse_math=False)  # "$" is a token, not math
    if label_queries:
        axes.set_yticks(places, tokens[::step], fontsize=7, parse_math=False)
