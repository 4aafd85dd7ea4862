"""Pretrain BERT or ELECTRA on records from make-records.

Settings come from --recipe, --config and the other options, in this order; later ones override earlier ones. The
resolved settings are saved as pretraining.toml in OUT.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bert_keras.cli.console import Result, print_settings
from bert_keras.cli.interrupts import load_tensorflow
from bert_keras.cli.options import training_options
from bert_keras.cli.options.argument_checks import check_all, check_exists, read_model
from bert_keras.cli.options.declaring import (
    Options,
    parse_model_path,
)
from bert_keras.training.config.sources import OLD_VALUES
from bert_keras.training.config.tables import RunSettings

if TYPE_CHECKING:
    import tensorflow as tf

    from bert_keras.training.config.recipes import PhasePlan, Pretraining
    from bert_keras.training.continued_pretraining import Start

_MASK_UNIT_NAMES = {"token": "tokens", "whole_word": "whole words", "span": "spans"}
_KEYS = (  # settings with an option
    *("model.preset", "model.objective", "model.start_from", "model.dtype_policy"),
    *("budget.steps", "budget.epochs", "budget.hours"),
    *("batches.batch_size", "batches.accumulation_steps", "batches.masking", "batches.mask_unit"),
    *("optimizer.name", "optimizer.learning_rate", "seed", "evaluation.every_steps"),
)
_EXTRAS = {  # further arguments of `Options.add_setting`
    "model.start_from": {"metavar": "MODEL"},
    "model.dtype_policy": {"flag": "--dtype"},
    "batches.mask_unit": {"type": lambda unit: OLD_VALUES.get(("mask_unit", unit), unit)},
    "optimizer.name": {"flag": "--optimizer"},
    "evaluation.every_steps": {"flag": "--evaluate-every"},
}


def add_arguments(options: Options) -> None:
    """Declare the arguments of the command."""
    options.add_path("records", "records folders from make-records, one per sequence length", nargs="+")
    options.add_path("out", "output checkpoint folder")
    options.add_argument(
        "--recipe",
        help="preset settings: bert, roberta, electra-small, 24h, cramming or fast (docs/guide/pretraining.md)",
    )
    options.add_option("--config", pathlib.Path, "TOML file with settings")
    tables = {field.name: field.type for field in dataclasses.fields(RunSettings)}
    groups = {table: options.add_group(table) for table in ("model", "budget", "batches", "optimizer")}
    for key in _KEYS:
        table, _, name = key.rpartition(".")
        settings = tables[table] if table else RunSettings
        groups.get(table, options).add_setting(settings, name, dest=key, **_EXTRAS.get(key, {}))
    options.add_flag("--no-xla", "do not compile the training step: slower steps, but training starts immediately")
    options.add_repeatable("--set", "KEY=VALUE", "any other setting, in TOML syntax")
    training_options.add_training_options(options)


def run(arguments: argparse.Namespace) -> Result:
    """Run the command, and return its result to print."""
    named = [path for path in (arguments.config, vars(arguments)["model.start_from"]) if path is not None]
    *_, (settings, manifests) = check_all(
        *(lambda path=path: check_exists(path, "a records folder from make-records") for path in arguments.records),
        lambda: training_options.check_out(arguments, *arguments.records, *map(pathlib.Path, named)),
        lambda: training_options.check_tracking(arguments),
        lambda: resolve_settings(arguments),
    )
    start = _read_start(settings, arguments)
    settings = settings if start is None else start.run
    if training_options.run_in_workers(arguments):
        return None
    plans = settings.plan([manifest["splits"]["train"]["num_records"] for manifest in manifests])
    load_tensorflow()
    strategy = training_options.prepare_devices(arguments)
    from bert_keras.training.pretraining import describe_metrics, pretrain
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
            **training_options.get_run_arguments(arguments, progress, strategy),
        )
    if not is_chief(strategy):
        return None
    sentence = f"wrote {arguments.out}: {describe_metrics(trained.metrics)}"
    return sentence, {"out": str(arguments.out), **trained.metrics}


def resolve_settings(arguments: argparse.Namespace) -> tuple[Pretraining, list[dict]]:
    """Resolve the settings and read the manifests of the records, which provide the settings that are not given.

    Raises:
        InputError: settings are unknown, invalid, or incompatible with each other or with the records.
    """
    from bert_keras.pipelines.records.manifest import read_manifest
    from bert_keras.training.config.recipes import Pretraining
    from bert_keras.training.config.sources import infer_settings, parse_assignments

    overrides = {key: vars(arguments)[key] for key in _KEYS} | parse_assignments(arguments.set)
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
        training_options.check_out(arguments, folder)  # `--config` may name it as well
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
    divisions = dict.fromkeys(training_options.format_batch(plan.batch_size, strategy, parts) for plan in plans)
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
    return shown | {"seed": settings.seed, "backups": training_options.format_backups(arguments)}


def _format_budget(plan: PhasePlan, manifest: Mapping) -> str:
    num_sequences = manifest["splits"]["train"]["num_records"]
    data = f"{num_sequences:,} sequences of {plan.max_sequence_length} tokens"
    if plan.num_steps is None:
        return f"{plan.seconds / 3600:g} hours on {data}"
    num_epochs = plan.num_steps * plan.batch_size / num_sequences
    return f"{plan.num_steps:,} steps of {plan.batch_size} on {data}: {num_epochs:.1f} epochs"
