"""Compute the parameters, FLOPs, memory, training time and file sizes of a model before you train it.

MODEL is a preset (tiny, mini, small, medium, base, large), a BERT folder, a pretraining recipe (bert, roberta,
electra-small, 24h, cramming, fast) or its TOML file. Parameters, FLOPs and tensors are counted on the
traced model, a multiply and an add as two FLOPs. Process memory and step time are estimates
for this machine, based on its measured speed.
"""

import argparse
import datetime
import pathlib
import typing
from collections.abc import Iterator, Mapping, Sequence

from bert_keras.cli.console import Result, format_table, print_settings
from bert_keras.cli.interrupts import load_tensorflow
from bert_keras.cli.options.argument_checks import check_all, read_any_model
from bert_keras.cli.options.declaring import Options, parse_model_path, positive_integer, positive_number
from bert_keras.figures import check_matplotlib
from bert_keras.heads import known_heads
from bert_keras.publishing import check_writable_folder

if typing.TYPE_CHECKING:
    from bert_keras.analysis.cost_model.components import Step
    from bert_keras.analysis.cost_model.planning import Plan


HEADS = tuple(head.plan_name for head in known_heads.HEADS if head.plan_name is not None)

_SAME = ("head", "num_classes", "length", "batch_size", "num_masked", "quick")  # arguments of `plan` too
_MEGABYTE, _GIGABYTE = 1e6, 1e9


def add_arguments(options: Options) -> None:
    """Declare the arguments of the command."""
    options.add_argument(
        "model", metavar="MODEL", help="preset, BERT folder, hf://ORG/NAME, recipe, or TOML file of a recipe"
    )
    options.add_option("--head", HEADS, "head of the model (default: the head of the folder, else the pooler)")
    options.add_option("--num-classes", positive_integer, "number of classes of a new head", 2)
    options.add_option("--length", positive_integer, "tokens per sequence (default 128, or that of the recipe)")
    options.add_option("--batch-size", positive_integer, "sequences per batch (default 1, or that of the recipe)")
    options.add_option("--num-masked", positive_integer, "masked positions per sequence (default: 15 %% of the tokens)")
    limit = "memory limit of training (default: the memory of this machine)"
    options.add_option("--memory", positive_number, limit, metavar="GB")
    options.add_flag("--quick", "skip the memory and the time of training")
    options.add_flag("--steps", "print every step of the forward pass with its shapes")
    options.add_option("--pictures", pathlib.Path, "draw charts as PNG and SVG into this folder", metavar="OUT")
    options.add_overwrite()


def run(arguments: argparse.Namespace) -> Result:
    """Run the command, and return its result to print."""
    out, inputs = arguments.pictures, [arguments.model]
    pictures = (
        lambda: check_writable_folder(out, "plan", overwrite=arguments.overwrite, inputs=inputs),
        check_matplotlib,
    )
    check_all(lambda: _check_model(arguments), *(pictures if out else ()))
    settings = {
        "model": arguments.model,
        "head": arguments.head or "that of the model",
        "length": arguments.length or "128, or that of the recipe",
        "batch_size": arguments.batch_size or "1, or that of the recipe",
    }
    print_settings("plan", settings)
    load_tensorflow()
    from bert_keras.analysis.cost_model.planning import plan
    from bert_keras.training.strategies import keep_freed_memory

    keep_freed_memory()  # as in training, because training steps are timed here
    planned = plan(
        arguments.model,
        **{name: getattr(arguments, name) for name in _SAME},
        memory_limit=None if arguments.memory is None else int(arguments.memory * _GIGABYTE),
    )
    if out:
        from bert_keras.analysis.cost_model.plan_figures import save_plan_figures

        save_plan_figures(planned, out, overwrite=arguments.overwrite)
    tables = format_tables(planned)
    if arguments.steps:
        tables.append(format_steps(planned))
    return "\n\n".join(tables).split("\n"), planned.to_dict()


def _check_model(arguments: argparse.Namespace) -> None:
    """Raise `InputError` if MODEL does not exist, or does not accept sequences of the given length."""
    from bert_keras.analysis.cost_model.subjects import check_plan_length, check_preset, read_recipe
    from bert_keras.checkpoints.reading import exists
    from bert_keras.config import BertConfig

    if read_recipe(arguments.model) is not None:
        return
    if exists(arguments.model):
        model = read_any_model(parse_model_path(arguments.model))
        config = None if isinstance(model, pathlib.Path) else model.config
    else:
        check_preset(arguments.model)
        config = BertConfig.from_preset(arguments.model)
    if config is not None and arguments.length is not None:
        check_plan_length(arguments.length, config.max_sequence_length)


def format_tables(plan: "Plan") -> list[str]:
    """Format a plan as tables, without the steps of the forward pass."""
    tables = [_format_parameters(plan), _format_flops(plan), _format_files(plan)]
    if plan.memory:
        tables += [_format_memory(plan), _format_memory_by_shape(plan), _format_time(plan)]
    return tables


def format_steps(plan: "Plan") -> str:
    """Format the forward pass as a table, one step per line."""
    rows = [("layer", "step", "equation", "inputs", "weights", "output")]
    for layer, step in _merge_equal_blocks(plan.steps, plan.config.num_layers):
        groups = (step.inputs, step.weights, [step.output])
        shapes = (" ".join(f"({', '.join(map(str, shape))})" for shape in group) for group in groups)
        rows.append((layer, step.name, step.equation, *shapes))
    return format_table(rows, align_left=True)


def _format_parameters(plan: "Plan") -> str:
    rows = [("component", "parameters", "share", "layers")]
    for component in plan.parameters:
        share = f"{component.parameters / plan.num_parameters:.1%}"
        rows.append((component.name, f"{component.parameters:,}", share, str(component.num_layers)))
    return format_table([*rows, ("total", f"{plan.num_parameters:,}", "", "")])


def _format_flops(plan: "Plan") -> str:
    columns: dict[str, Mapping[str, int]] = {
        "first block": {flops.part: flops.forward for flops in plan.block_flops},
        "forward": {flops.part: flops.forward for flops in plan.forward_flops},
    }
    if plan.training_flops is not None:
        columns["training step"] = {flops.part: flops.forward + flops.backward for flops in plan.training_flops}
    parts = dict.fromkeys(part for column in reversed(columns.values()) for part in column)
    rows = [(part, *(f"{one[part]:,}" if part in one else "" for one in columns.values())) for part in parts]
    totals = ("total", *(f"{sum(column.values()):,}" for column in columns.values()))
    title = f"batch size {plan.batch_size:,}, {plan.length:,} tokens per sequence"
    return f"{title}\n{format_table([('FLOPs', *columns), *rows, totals])}"


def _format_files(plan: "Plan") -> str:
    rows = [(name, _format_megabytes(size)) for name, size in plan.artifacts.items()]
    scores = f"attention scores in inference, {len(plan.score_bytes)} layers"
    return format_table([("weights by file format", "MB"), *rows, (scores, _format_megabytes(sum(plan.score_bytes)))])


def _format_memory(plan: "Plan") -> str:
    sizes = ("weights", "gradients", "AdamW", "activations", "of which scores", "tensors, peak", "process")
    limit = f"{plan.memory_limit / _GIGABYTE:,.1f} GB"
    rows = [("training memory, MB", *sizes, f"largest batch in {limit}")]
    for one in plan.memory:
        name = one.dtype_policy + (", checkpointing" if one.gradient_checkpointing else "")
        memory = (one.weights, one.gradients, one.optimizer, one.activations, one.attention_scores, one.tensors)
        rows.append((name, *map(_format_megabytes, (*memory, one.process)), f"{one.largest_batch:,}"))
    return format_table(rows)


def _format_memory_by_shape(plan: "Plan") -> str:
    table: dict[int, dict[int, int]] = {}
    for one in plan.memory_by_shape:
        table.setdefault(one.length, {})[one.batch_size] = one.process
    header = ("process, MB, float32", *(f"batch size {size}" for size in next(iter(table.values()))))
    rows = [(f"{length} tokens", *map(_format_megabytes, sizes.values())) for length, sizes in table.items()]
    return format_table([header, *rows])


def _format_time(plan: "Plan") -> str:
    tokens = plan.batch_size * plan.length
    if not plan.phases:
        header = ("time on this machine", "s/step", "tokens/s")
        row = (f"step of {tokens:,} tokens", f"{plan.step_seconds:,.3f}", f"{tokens / plan.step_seconds:,.0f}")
        return format_table([header, row])
    names = ("batch size", "length", "steps", "tokens", "s/step", "time", "largest micro-batch")
    rows = [
        (
            f"phase {number}",
            f"{phase.batch_size:,}",
            f"{phase.length:,}",
            f"{phase.num_steps:,}",
            f"{phase.tokens:,}",
            f"{phase.step_seconds:,.2f}",
            _format_duration(phase.seconds),
            f"{phase.largest_batch:,}",
        )
        for number, phase in enumerate(plan.phases, 1)
    ]
    totals = (sum(phase.num_steps for phase in plan.phases), sum(phase.tokens for phase in plan.phases))
    duration = _format_duration(sum(phase.seconds for phase in plan.phases))
    total = ("total", "", "", *(f"{number:,}" for number in totals), "", duration, "")
    return format_table([("time on this machine", *names), *rows, total])


def _format_megabytes(num_bytes: int) -> str:
    return f"{num_bytes / _MEGABYTE:,.1f}"


def _format_duration(seconds: float) -> str:
    days, rest = divmod(round(seconds), 86_400)
    clock = str(datetime.timedelta(seconds=rest))
    return f"{days:,} d {clock}" if days else clock


def _merge_equal_blocks(steps: Sequence["Step"], num_layers: int) -> Iterator[tuple[str, "Step"]]:
    """Yield each step with its layer; leading blocks that are equal are listed once, as `block_0-11`."""
    blocks = [[step for step in steps if step.layer.split("/")[0] == f"block_{i}"] for i in range(num_layers)]
    contents = [[(step.name, step.inputs, step.weights, step.output) for step in block] for block in blocks]
    num_equal = 1
    while num_equal < num_layers and contents[num_equal] == contents[0]:
        num_equal += 1
    skipped = {id(step) for block in blocks[1:num_equal] for step in block}
    for step in steps:
        if id(step) not in skipped:
            is_merged = num_equal > 1 and step.layer.split("/")[0] == "block_0"
            yield step.layer.replace("block_0", f"block_0-{num_equal - 1}", 1) if is_merged else step.layer, step
