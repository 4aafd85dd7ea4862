"""Pretrain BERT or ELECTRA on records from make-records.

Settings come from --recipe, --config and the other options, in this order; later ones override earlier ones. The
resolved settings are saved as pretraining.toml in OUT.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bert_keras.cli.console import print_result, print_settings
from bert_keras.cli.interrupts import load_tensorflow
from bert_keras.cli.options.argument_checks import (
    add_flag,
    add_option,
    add_path,
    add_repeatable,
    check_all,
    check_exists,
    non_negative_integer,
    parse_model_path,
    positive_integer,
    positive_number,
    read_model,
)
from bert_keras.cli.options.training_options import (
    add_training_options,
    check_out,
    check_tracking,
    format_backups,
    format_batch,
    get_run_arguments,
    prepare_devices,
    run_in_workers,
)
from bert_keras.config import PRESETS
from bert_keras.training.config.sources import OLD_VALUES
from bert_keras.training.config.tables import DTYPE_POLICIES, MASK_UNITS, OBJECTIVES, OPTIMIZERS

if TYPE_CHECKING:
    import tensorflow as tf

    from bert_keras.training.config.recipes import PhasePlan, Pretraining
    from bert_keras.training.continued_pretraining import Start

_MASK_UNIT_NAMES = {"token": "tokens", "whole_word": "whole words", "span": "spans"}
# flag, key of the setting, type or choices, help
_FLAGS = (
    ("--preset", "model.preset", tuple(PRESETS), "size of a new model (default tiny)"),
    (
        "--objective",
        "model.objective",
        OBJECTIVES,
        "bert: masked LM and sentence pairs; mlm: masked LM; electra: replaced tokens (default bert)",
    ),
    ("--start-from", "model.start_from", str, "checkpoint to continue from; the records must have its tokenizer"),
    ("--dtype", "model.dtype_policy", DTYPE_POLICIES, "Keras dtype policy (default float32)"),
    ("--steps", "budget.steps", positive_integer, "number of optimizer steps (default 1000)"),
    ("--epochs", "budget.epochs", positive_number, "number of epochs, instead of --steps"),
    ("--hours", "budget.hours", positive_number, "wall-clock time limit, instead of --steps"),
    ("--batch-size", "batches.batch_size", positive_integer, "sequences per step (default 32)"),
    ("--accumulation-steps", "batches.accumulation_steps", positive_integer, "micro-batches per step (default 1)"),
    (
        "--masking",
        "batches.masking",
        ("dynamic", "static"),
        "dynamic: new masks in every epoch; static: the same masks (default dynamic)",
    ),
    ("--mask-unit", "batches.mask_unit", MASK_UNITS, "unit that is masked as a whole (default token)"),
    ("--optimizer", "optimizer.name", OPTIMIZERS, "optimizer (default adamw)"),
    (
        "--learning-rate",
        "optimizer.learning_rate",
        positive_number,
        "peak learning rate (default 1e-3; 5e-5 with --start-from)",
    ),
    ("--seed", "seed", non_negative_integer, "random seed of weights, masks, data order and dropout (default 0)"),
    (
        "--evaluate-every",
        "evaluation.every_steps",
        non_negative_integer,
        "steps between evaluations (default 0: only before and after training)",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_path(parser, "records", "records folders from make-records, one per sequence length", nargs="+")
    add_path(parser, "out", "output checkpoint folder")
    parser.add_argument(
        "--recipe",
        help="preset settings: bert, roberta, electra-small, 24h, cramming or fast (docs/guide/pretraining.md)",
    )
    add_option(parser, "--config", pathlib.Path, "TOML file with settings")
    extras = {str: {"metavar": "MODEL"}, MASK_UNITS: {"type": lambda unit: OLD_VALUES.get(("mask_unit", unit), unit)}}
    groups = {table: parser.add_argument_group(table) for table in ("model", "budget", "batches", "optimizer")}
    for flag, key, kind, text in _FLAGS:
        add_option(groups.get(key.split(".")[0], parser), flag, kind, text, dest=key, **extras.get(kind, {}))
    add_flag(parser, "--no-xla", "do not compile the training step: slower steps, but training starts immediately")
    add_repeatable(parser, "--set", "KEY=VALUE", "any other setting, in TOML syntax")
    add_training_options(parser)


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    *_, (settings, manifests) = check_all(
        *(lambda path=path: check_exists(path, "a records folder from make-records") for path in arguments.records),
        lambda: check_out(arguments, *_list_inputs(arguments)),
        lambda: check_tracking(arguments),
        lambda: resolve_settings(arguments),
    )
    start = _read_start(settings, arguments)
    settings = settings if start is None else start.run
    if run_in_workers(arguments):
        return
    plans = settings.plan([manifest["splits"]["train"]["num_records"] for manifest in manifests])
    load_tensorflow()
    strategy = prepare_devices(arguments)
    from bert_keras.training.pretraining_to_folder import describe_metrics, pretrain
    from bert_keras.training.strategies import is_chief
    from bert_keras.training.tracking.tracked_training import FitProgress

    print_settings("pretrain", _describe_settings(arguments, settings, plans, manifests, strategy, start))
    num_seconds = None if plans[0].seconds is None else sum(plan.seconds for plan in plans)
    num_steps = sum(plan.num_steps or 0 for plan in plans)
    with FitProgress(num_steps, num_seconds=num_seconds) as progress:
        trained = pretrain(
            arguments.records,
            arguments.out,
            settings=settings,
            **get_run_arguments(arguments, progress, strategy),
        )
    if not is_chief(strategy):
        return
    sentence = f"wrote {arguments.out}: {describe_metrics(trained.metrics)}"
    print_result(sentence, {"out": str(arguments.out), **trained.metrics}, as_json=arguments.json)


def _list_inputs(arguments: argparse.Namespace) -> list[pathlib.Path]:
    """Return all paths that the run reads."""
    named = (arguments.config, vars(arguments)["model.start_from"])
    return [*arguments.records, *(pathlib.Path(path) for path in named if path is not None)]


def resolve_settings(arguments: argparse.Namespace) -> tuple[Pretraining, list[dict]]:
    """Resolve the settings and read the manifests of the records, which provide the settings that are not given.

    Raises:
        InputError: settings are unknown, invalid, or incompatible with each other or with the records.
    """
    from bert_keras.pipelines.records.manifest import read_manifest
    from bert_keras.training.config.recipes import Pretraining
    from bert_keras.training.config.sources import infer_settings, parse_assignments

    overrides = {key: vars(arguments)[key] for _, key, _, _ in _FLAGS} | parse_assignments(arguments.set)
    if arguments.no_xla or arguments.deterministic:  # Keras does not compile then, and would warn
        overrides["speed.jit_compile"] = False
    if arguments.gradient_checkpointing is not None:
        overrides["speed.gradient_checkpointing"] = arguments.gradient_checkpointing
    # no split is checked here, because `pretrain` hashes the shards
    manifests = [read_manifest(folder, checked_splits=()) for folder in arguments.records]
    settings = Pretraining.resolve(arguments.config, arguments.recipe, overrides, infer_settings(manifests))
    settings.check_records(manifests, [str(folder) for folder in arguments.records])
    return settings, manifests


def _read_start(settings: Pretraining, arguments: argparse.Namespace) -> Start | None:
    """Read the checkpoint to continue from, and check that it is compatible with the settings and the records."""
    if settings.model.start_from is None:
        return None
    from bert_keras.training.continued_pretraining import check_start_tokenizer, resolve_start

    folder = parse_model_path(settings.model.start_from)
    if isinstance(folder, pathlib.Path):
        check_exists(folder, "a checkpoint folder")
        check_out(arguments, folder)  # `--config` may name it as well
    # before TensorFlow is loaded, which some formats need
    check_start_tokenizer(settings.model.start_from, arguments.records)
    return resolve_start(settings, read_model(folder))


def _describe_settings(
    arguments: argparse.Namespace,
    settings: Pretraining,
    plans: Sequence[PhasePlan],
    manifests: Sequence[Mapping],
    strategy: tf.distribute.Strategy,
    start: Start | None,
) -> dict[str, object]:
    """Return the settings to print."""
    config = settings.model.bert_config(manifests[0]["vocabulary_size"], max(settings.records.max_sequence_lengths))
    shown = {"records": ", ".join(f"{folder}" for folder in arguments.records), "out": arguments.out}
    if settings.recipe:
        shown["recipe"] = settings.recipe + (", except its model" if start else "")
    if start is not None:
        shown["start from"] = start
    shown["model"] = (
        f"{settings.model.objective}, {config.num_layers} layers, hidden size {config.hidden_dim}, "
        f"{config.vocabulary_size:,} tokens, {settings.model.dtype_policy}"
    )
    if not settings.model.pretraining_dropout:
        shown["model"] += ", no dropout"
    if settings.model.output_bias == "token_frequency":
        shown["model"] += ", output bias from token frequencies"
    for number, plan in enumerate(plans, 1):
        shown[f"phase {number}" if len(plans) > 1 else "budget"] = _format_budget(plan, manifests[plan.records])
    parts = settings.batches.accumulation_steps
    divisions = dict.fromkeys(format_batch(plan.batch_size, strategy, parts) for plan in plans)
    units = _MASK_UNIT_NAMES[settings.batches.mask_unit]
    shown["batches"] = (
        f"{' then '.join(divisions)}, {settings.batches.masking} masks of {units}, "
        f"at most {plans[0].max_predictions} masked positions per sequence"
    )
    shown["optimizer"] = (
        f"{settings.optimizer.name}, peak learning rate {settings.optimizer.learning_rate:g}, "
        f"{settings.optimizer.schedule} schedule, {settings.optimizer.warmup_ratio:.0%} warm-up"
    )
    held_out = manifests[0]["splits"]["held_out"]["num_records"]
    shown["held out"] = (
        f"{held_out:,} sequences" if held_out else "none: no evaluation (see make-records --held-out-rate)"
    )
    return shown | {"seed": settings.seed, "backups": format_backups(arguments)}


def _format_budget(plan: PhasePlan, manifest: Mapping) -> str:
    num_sequences = manifest["splits"]["train"]["num_records"]
    data = f"{num_sequences:,} sequences of {plan.max_sequence_length} tokens"
    if plan.num_steps is None:
        return f"{plan.seconds / 3600:g} hours on {data}"
    num_epochs = plan.num_steps * plan.batch_size / num_sequences
    return f"{plan.num_steps:,} steps of {plan.batch_size} on {data}: {num_epochs:.1f} epochs"
