"""The tables that `plan` prints."""

import datetime
from collections.abc import Iterator, Mapping

from bert_keras.cli.console.report import aligned

_MEGABYTE, _GIGABYTE = 1e6, 1e9


def tables_of(planned) -> list[str]:
    """Returns the tables of a plan, all but the steps."""
    tables = [_parameters(planned), _flops(planned), _files(planned)]
    if planned.memory:
        tables += [_memory(planned), _memory_by_shape(planned), _time(planned)]
    return tables


def steps(planned) -> str:
    """Returns the forward pass, a step a line."""
    rows = [("layer", "step", "equation", "reads", "weights", "writes")]
    for layer, step in _folded(planned.steps, planned.config.num_layers):
        shapes = (" ".join(map(_shape, some)) for some in (step.inputs, step.weights, [step.output]))
        rows.append((layer, step.name, step.equation, *shapes))
    return aligned(rows, left=True)


def _parameters(planned) -> str:
    rows = [("parameters", "number", "share", "layers")]
    for component in planned.parameters:
        share = f"{component.parameters / planned.num_parameters:.1%}"
        rows.append((component.name, f"{component.parameters:,}", share, str(component.num_layers)))
    return aligned([*rows, ("all", f"{planned.num_parameters:,}", "", "")])


def _flops(planned) -> str:
    of_block = {flops.part: flops.forward for flops in planned.block_flops}
    header = ("floating-point operations", "first block", "forward")
    columns: list[Mapping[str, int]] = [of_block, {flops.part: flops.forward for flops in planned.forward_flops}]
    if planned.training_flops is not None:
        header = (*header, "training step")
        columns.append({flops.part: flops.forward + flops.backward for flops in planned.training_flops})
    parts = dict.fromkeys(part for column in columns[::-1] for part in column)
    rows = [(part, *(f"{column[part]:,}" if part in column else "" for column in columns)) for part in parts]
    totals = ("all", *(f"{sum(column.values()):,}" for column in columns))
    return f"{_batch(planned)}\n{aligned([header, *rows, totals])}"


def _files(planned) -> str:
    rows = [(name, _megabytes(size)) for name, size in planned.artifacts.items()]
    scores = sum(planned.score_bytes)
    layers = f"attention scores of {len(planned.score_bytes)} layers in inference"
    return aligned([("weights in files", "MB"), *rows, (layers, _megabytes(scores))])


def _memory(planned) -> str:
    limit = f"{planned.memory_limit / _GIGABYTE:,.1f} GB"
    header = ("training, MB", "weights", "gradients", "AdamW", "kept", "of these scores", "tensors at once", "process")
    rows = [(*header, f"rows in {limit}")]
    for one in planned.memory:
        name = one.dtype_policy + (", checkpointing" if one.gradient_checkpointing else "")
        sizes = (one.weights, one.gradients, one.optimizer, one.activations, one.attention_scores, one.tensors)
        rows.append((name, *map(_megabytes, (*sizes, one.process)), f"{one.largest_batch:,}"))
    return aligned(rows)


def _memory_by_shape(planned) -> str:
    table: dict[int, dict[int, int]] = {}
    for one in planned.memory_by_shape:
        table.setdefault(one.length, {})[one.batch_size] = one.process
    sizes = next(iter(table.values()))
    header = ("process, MB, float32", *(f"{size} row{'s' if size > 1 else ''}" for size in sizes))
    return aligned([header, *((f"{length} tokens", *map(_megabytes, row.values())) for length, row in table.items())])


def _time(planned) -> str:
    tokens = planned.batch_size * planned.length
    if not planned.phases:
        header = ("time on this machine", "seconds", "tokens a second")
        of_step = (f"a step of {tokens:,} tokens", f"{planned.step_seconds:,.3f}")
        return aligned([header, (*of_step, f"{tokens / planned.step_seconds:,.0f}")])
    header = ("time on this machine", "rows", "length", "steps", "tokens", "seconds a step", "time", "rows that fit")
    rows = [
        (
            f"phase {number}",
            f"{phase.batch_size:,}",
            f"{phase.length:,}",
            f"{phase.num_steps:,}",
            f"{phase.tokens:,}",
            f"{phase.step_seconds:,.2f}",
            _duration(phase.seconds),
            f"{phase.largest_batch:,}",
        )
        for number, phase in enumerate(planned.phases, 1)
    ]
    sums = (sum(phase.num_steps for phase in planned.phases), sum(phase.tokens for phase in planned.phases))
    seconds = sum(phase.seconds for phase in planned.phases)
    return aligned([header, *rows, ("all", "", "", *(f"{one:,}" for one in sums), "", _duration(seconds), "")])


def _batch(planned) -> str:
    rows = "1 row" if planned.batch_size == 1 else f"{planned.batch_size:,} rows"
    return f"{rows} of {planned.length:,} tokens"


def _megabytes(number: int) -> str:
    return f"{number / _MEGABYTE:,.1f}"


def _duration(seconds: float) -> str:
    days, rest = divmod(round(seconds), 86_400)
    clock = str(datetime.timedelta(seconds=rest))
    return f"{days:,} d {clock}" if days else clock


def _folded(all_steps, num_layers: int) -> Iterator[tuple]:
    """Yields the layers and steps; blocks that are all alike once, under the numbers of the first and the last."""
    blocks = [[step for step in all_steps if step.layer.split("/")[0] == f"block_{i}"] for i in range(num_layers)]
    plain = [[(step.name, step.inputs, step.weights, step.output) for step in block] for block in blocks]
    alike = 1
    while alike < num_layers and plain[alike] == plain[0]:
        alike += 1
    hidden = {id(step) for block in blocks[1:alike] for step in block}
    for step in all_steps:
        if id(step) not in hidden:
            is_first = alike > 1 and step.layer.split("/")[0] == "block_0"
            yield step.layer.replace("block_0", f"block_0-{alike - 1}", 1) if is_first else step.layer, step


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))})"
