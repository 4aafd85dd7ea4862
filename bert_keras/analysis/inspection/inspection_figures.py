"""The pictures of an inspection, as figures of matplotlib."""

import numpy as np

from bert_keras.analysis.inspection.curves import (
    MOST_POSITIONS,
    activation_curves,
    by_distance,
    gelu_difference,
    position_similarity,
)
from bert_keras.analysis.inspection.histograms import score_histograms
from bert_keras.figures import COLORS, FigureSection, create_figure, simplify_axes

_MOST_LABELLED = 48  # tokens that stand at the axes; of more, every second, third, ...
_BLUES = "Blues"
_OF_HEADS = ("entropy", "distance", "cls", "sep", "itself", "previous", "next")


def pictures_of(inspection) -> list[FigureSection]:
    """Returns every picture of an inspection, in the order of the page."""
    return [
        FigureSection(_attention_name(inspection), "Attention", "", attention_figure(inspection)),
        FigureSection("heads", "Heads", "", heads_figure(inspection)),
        FigureSection("scores", "Scores", "", scores_figure(inspection)),
        FigureSection("similarity", "Similarity", "", similarity_figure(inspection)),
        FigureSection("positions", "Positions", "", positions_figure(inspection)),
        FigureSection("activations", "Activations", "", activations_figure(inspection)),
    ]


def attention_figure(inspection):
    """Returns the maps of attention: of all heads, of one layer, of one head in all layers, or of one head."""
    layers, heads = (
        _chosen(inspection.layer, inspection.config.num_layers),
        _chosen(inspection.head, inspection.config.num_heads),
    )
    if len(layers) == len(heads) == 1:
        return _one_map(inspection, layers[0], heads[0])
    if len(layers) > 1 and len(heads) > 1:
        rows, columns = len(layers), len(heads)
    else:
        rows, columns = _folded(len(layers) * len(heads))
    figure = create_figure(figsize=(1.05 * columns + 0.6, 1.12 * rows + 0.7), layout="constrained")
    places = [(layer, head) for layer in layers for head in heads]
    all_axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in all_axes:
        axes.axis("off")
    for axes, (layer, head) in zip(all_axes, places, strict=False):
        axes.imshow(np.sqrt(inspection.attention[layer, head]), cmap=_BLUES, vmin=0, vmax=1)
        axes.set_title(f"layer {layer}, head {head}", fontsize=6, pad=2)
    figure.suptitle("attention: row = who looks, column = at whom; colour by the root of the share", fontsize=9)
    return figure


def heads_figure(inspection):
    """Returns the summaries of the heads as maps, layers down and heads across."""
    shape = (inspection.config.num_layers, inspection.config.num_heads)
    width, height = 0.24 * shape[1] + 1.1, 0.24 * shape[0] + 0.9
    figure = create_figure(figsize=(4 * max(width, 1.9), 2 * max(height, 1.7)), layout="constrained")
    all_axes = list(figure.subplots(2, 4).flat)
    for axes, name in zip(all_axes, _OF_HEADS, strict=False):
        values = np.array([getattr(head, name) for head in inspection.heads]).reshape(shape)
        image = axes.imshow(values, cmap=_BLUES, vmin=0, vmax=max(values.max(), 1e-9), aspect="auto")
        unit = {"entropy": " (bits)", "distance": " (tokens)"}.get(name, " (share)")
        axes.set_title({"cls": "[CLS]", "sep": "[SEP]"}.get(name, name) + unit, fontsize=9)
        axes.set_xlabel("head", fontsize=7)
        axes.set_ylabel("layer", fontsize=7)
        axes.tick_params(labelsize=6)
        figure.colorbar(image, ax=axes).ax.tick_params(labelsize=6)
    all_axes[-1].axis("off")
    return figure


def scores_figure(inspection):
    """Returns histograms of the scores before and after they are scaled, of the chosen layer or of all."""
    histograms = score_histograms(inspection.look)
    layers = _chosen(inspection.layer, inspection.config.num_layers)
    figure = create_figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for counts, edges, label, color in (
        (histograms.raw, histograms.raw_edges, "before: Q K^T", COLORS[1]),
        (histograms.scaled, histograms.scaled_edges, "after: Q K^T / sqrt(H)", COLORS[0]),
    ):
        axes.stairs(counts[layers].sum(0), edges, fill=True, alpha=0.55, color=color, label=label)
    axes.set_xlabel("score", parse_math=False)
    axes.set_ylabel("scores, log scale")
    axes.set_yscale("log")
    where = f"layer {layers[0]}" if len(layers) == 1 else "all layers"
    axes.set_title(f"{where}, all heads; H = {inspection.config.head_dim}", fontsize=10)
    simplify_axes(axes)
    return figure


def similarity_figure(inspection):
    """Returns how much each token's vector turns in each layer, and how alike different tokens are."""
    found, tokens = inspection.similarity, inspection.tokens
    figure = create_figure(figsize=(max(6.5, 0.16 * min(len(tokens), 70) + 2), 6), layout="constrained")
    top, bottom = figure.subplots(2, 1, height_ratios=(3, 2))
    image = top.imshow(found.to_previous, cmap=_BLUES, vmax=1, aspect="auto")
    top.set_ylabel("layer")
    top.set_title("cosine of each token's vector with its vector before the layer", fontsize=10)
    _name_tokens(top, tokens, of_rows=False)
    figure.colorbar(image, ax=top)
    states = np.arange(len(found.anisotropy))
    bottom.plot(states[1:], found.to_previous.mean(1), color=COLORS[0], label="with the state before")
    bottom.plot(states[1:], found.to_embeddings.mean(1), color=COLORS[1], label="with the embeddings")
    bottom.plot(states, found.anisotropy, color=COLORS[2], label="of two different tokens")
    bottom.set_xlabel("state: 0 = embeddings, l + 1 = after layer l")
    bottom.set_ylabel("mean cosine")
    simplify_axes(bottom)
    return figure


def positions_figure(inspection):
    """Returns the cosines between position embeddings, learned beside sinusoidal, and by how far they lie apart."""
    cosines = {name: position_similarity(table) for name, table in inspection.positions.items()}
    figure = create_figure(figsize=(3.4 * (len(cosines) + 1), 3.2), layout="constrained")
    *maps, lines = figure.subplots(1, len(cosines) + 1)
    for axes, (name, values) in zip(maps, cosines.items(), strict=True):
        image = axes.imshow(values[:MOST_POSITIONS, :MOST_POSITIONS], cmap="RdBu", vmin=-1, vmax=1)
        axes.set_title(f"{name}: cosine of two positions", fontsize=9)
    figure.colorbar(image, ax=maps, shrink=0.8)
    for (name, values), color in zip(cosines.items(), COLORS, strict=False):
        lines.plot(by_distance(values), color=color, label=name)
    lines.set_xlabel("positions apart")
    lines.set_ylabel("mean cosine")
    simplify_axes(lines)
    return figure


def activations_figure(inspection):
    """Returns GELU beside its tanh form and ReLU, and by how much the two GELUs differ."""
    curves = activation_curves()
    x = curves.pop("x")
    figure = create_figure(figsize=(8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (name, values), color, style in zip(curves.items(), COLORS[:3], ("-", "--", "-"), strict=True):
        used = " (this model's)" if name == inspection.config.hidden_act else ""
        left.plot(x, values, style, color=color, label=name + used)
    left.set_xlabel("x")
    simplify_axes(left)
    right.plot(x, curves["gelu"] - curves["gelu_tanh"], color=COLORS[0])
    largest, place = gelu_difference()
    right.set_title(f"gelu - gelu_tanh: at most {largest:.2e}, at x = {place:.2f}", fontsize=9)
    right.set_xlabel("x")
    right.spines[["top", "right"]].set_visible(False)
    return figure


def _one_map(inspection, layer: int, head: int):
    tokens = inspection.tokens
    side = max(3.2, 0.19 * min(len(tokens), _MOST_LABELLED))
    figure = create_figure(figsize=(side + 1.8, side + 1.1), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(inspection.attention[layer, head], cmap=_BLUES, vmin=0)
    kind = inspection.heads[layer * inspection.config.num_heads + head].kind
    axes.set_title(f"layer {layer}, head {head}: {kind}", fontsize=10)
    axes.set_ylabel("who looks")
    axes.set_xlabel("at whom")
    _name_tokens(axes, tokens, of_rows=True)
    figure.colorbar(image, ax=axes, shrink=0.8).set_label("attention; a row sums to 1", fontsize=8)
    return figure


def _attention_name(inspection) -> str:
    parts = [f"{what}_{number}" for what in ("layer", "head") if (number := getattr(inspection, what)) is not None]
    return "_".join(["attention", *parts])


def _chosen(number: int | None, count: int) -> list[int]:
    return list(range(count)) if number is None else [number]


def _folded(num_maps: int) -> tuple[int, int]:
    """Returns rows and columns for the heads of one layer, or for one head of all layers."""
    num_columns = min(num_maps, 4)
    return -(-num_maps // num_columns), num_columns


def _name_tokens(axes, tokens, *, of_rows: bool) -> None:
    step = -(-len(tokens) // _MOST_LABELLED)
    places = range(0, len(tokens), step)
    axes.set_xticks(places, tokens[::step], rotation=90, fontsize=7, parse_math=False)  # a "$" is no formula
    if of_rows:
        axes.set_yticks(places, tokens[::step], fontsize=7, parse_math=False)
