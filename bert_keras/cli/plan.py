"""Count a model before you train it: parameters, floating-point operations, and every step of its forward pass.

MODEL is a preset (tiny, mini, small, medium, base, large) or a BERT folder. All numbers are counted from the model as
it is built and traced; a multiply and an add count as two operations.
"""

import argparse

from bert_keras.cli.checks import positive_integer
from bert_keras.cli.quiet import load_tensorflow
from bert_keras.cli.report import aligned, print_result, print_settings

HEADS = ("classification", "tagging", "answers", "masked_lm", "pretraining")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a preset, or any BERT folder")
    parser.add_argument("--head", choices=HEADS, help="what goes on top (default: what a folder has; the pooler)")
    parser.add_argument("--num-classes", type=positive_integer, default=2, help="of a new head (default %(default)s)")
    parser.add_argument("--length", type=positive_integer, default=128, help="pieces in a row (default %(default)s)")
    parser.add_argument("--batch-size", type=positive_integer, default=1, help="rows in a batch (default %(default)s)")
    parser.add_argument(
        "--num-slots", type=positive_integer, help="masked slots in a row (default: 15 %% of the pieces)"
    )
    parser.add_argument("--steps", action="store_true", help="print the forward pass too, step by step, with shapes")


def run(arguments: argparse.Namespace) -> None:
    print_settings(
        "plan",
        {
            "model": arguments.model,
            "head": arguments.head or "its own",
            "length": arguments.length,
            "batch_size": arguments.batch_size,
        },
    )
    load_tensorflow()
    from bert_keras.accounting.planning import plan

    planned = plan(
        arguments.model,
        head=arguments.head,
        num_classes=arguments.num_classes,
        length=arguments.length,
        batch_size=arguments.batch_size,
        num_slots=arguments.num_slots,
    )
    tables = [_parameters(planned), _flops(planned)]
    if arguments.steps:
        tables.append(_steps(planned))
    print_result("\n\n".join(tables), planned.to_dict(), as_json=arguments.json)


def _parameters(planned) -> str:
    rows = [("parameters", "number", "share", "layers")]
    for component in planned.parameters:
        share = f"{component.parameters / planned.num_parameters:.1%}"
        rows.append((component.name, f"{component.parameters:,}", share, str(component.num_layers)))
    return aligned([*rows, ("all", f"{planned.num_parameters:,}", "", "")])


def _flops(planned) -> str:
    of_block = {flops.part: flops.forward for flops in planned.block_flops}
    header = ("floating-point operations", "first block", "forward")
    columns = [of_block, {flops.part: flops.forward for flops in planned.forward_flops}]
    if planned.training_flops is not None:
        header = (*header, "training step")
        columns.append({flops.part: flops.forward + flops.backward for flops in planned.training_flops})
    parts = dict.fromkeys(part for column in columns[::-1] for part in column)
    rows = [(part, *(f"{column[part]:,}" if part in column else "" for column in columns)) for part in parts]
    return aligned([header, *rows, ("all", *(f"{sum(column.values()):,}" for column in columns))])


def _steps(planned) -> str:
    rows = [("layer", "step", "equation", "reads", "weights", "writes")]
    for layer, step in _folded(planned.steps, planned.config.num_layers):
        shapes = (" ".join(map(_shape, some)) for some in (step.inputs, step.weights, [step.output]))
        rows.append((layer, step.name, step.equation, *shapes))
    return aligned(rows, left=True)


def _folded(steps, num_layers: int):
    """Yields the layers and steps; blocks that are all alike once, under the numbers of the first and the last."""
    blocks = [[step for step in steps if step.layer.split("/")[0] == f"block_{i}"] for i in range(num_layers)]
    plain = [[(step.name, step.inputs, step.weights, step.output) for step in block] for block in blocks]
    alike = 1
    while alike < num_layers and plain[alike] == plain[0]:
        alike += 1
    hidden = {id(step) for block in blocks[1:alike] for step in block}
    for step in steps:
        if id(step) not in hidden:
            is_first = alike > 1 and step.layer.split("/")[0] == "block_0"
            yield step.layer.replace("block_0", f"block_0-{alike - 1}", 1) if is_first else step.layer, step


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))})"
