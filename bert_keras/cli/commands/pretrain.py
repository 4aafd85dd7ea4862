"""Pretrain a BERT on records: masked words, sentences, ELECTRA; by a recipe, a file, flags.

Settings come from --recipe, then --config, then the flags; the later wins. What all of them say together
is stored as pretraining.toml beside the model, and the main of it is printed.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bert_keras.cli.console.quiet import load_tensorflow
from bert_keras.cli.console.report import print_result, print_settings
from bert_keras.cli.options.argument_checks import (
    check_all,
    check_exists,
    positive_integer,
    positive_number,
    whole_number,
)
from bert_keras.cli.options.model_folder import read_model
from bert_keras.cli.options.training_options import (
    add_training_options,
    backups_shown,
    batch_arithmetic,
    check_out,
    make_backup_options,
    only_training_of,
    prepare_devices,
    publish,
    started_workers,
)
from bert_keras.config import PRESETS
from bert_keras.training.config.sources import OLD_VALUES
from bert_keras.training.config.tables import DTYPE_POLICIES, MASK_UNITS, OBJECTIVES, OPTIMIZERS

if TYPE_CHECKING:
    from bert_keras.training.config.recipes import Pretraining
    from bert_keras.training.continued_pretraining import Start

# flag, key of the setting, type or choices, help
_FLAGS = (
    ("--preset", "model.preset", tuple(PRESETS), "the size of a new model (default tiny)"),
    ("--objective", "model.objective", OBJECTIVES, "masked words and sentences, words, replaced words"),
    ("--start-from", "model.start_from", str, "train this checkpoint further, on records of its tokenizer"),
    ("--dtype", "model.dtype_policy", DTYPE_POLICIES, "precision (default float32)"),
    ("--steps", "budget.steps", positive_integer, "optimizer steps (default 1000)"),
    ("--epochs", "budget.epochs", positive_number, "passes over the records, instead of steps"),
    ("--hours", "budget.hours", positive_number, "time on the clock, instead of steps"),
    ("--batch-size", "batches.batch_size", positive_integer, "rows a step (default 32)"),
    ("--accumulation-steps", "batches.accumulation_steps", positive_integer, "parts a step is computed in (default 1)"),
    ("--masking", "batches.masking", ("dynamic", "static"), "new masks in every epoch, or the same (default dynamic)"),
    ("--mask-unit", "batches.mask_unit", MASK_UNITS, "what is masked as a whole (default token)"),
    ("--optimizer", "optimizer.name", OPTIMIZERS, "default adamw"),
    ("--learning-rate", "optimizer.learning_rate", positive_number, "the peak (default 1e-3, with --start-from 5e-5)"),
    ("--seed", "seed", whole_number, "draws weights, masks, order, dropout (default 0)"),
    (
        "--evaluate-every",
        "evaluation.every_steps",
        whole_number,
        "steps between evaluations (default 0: one before, one after)",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "records", type=pathlib.Path, nargs="+", metavar="RECORDS", help="folders that make-records wrote, one a length"
    )
    parser.add_argument("out", type=pathlib.Path, metavar="OUT", help="the checkpoint folder to write")
    parser.add_argument("--recipe", help="bert, roberta, electra-small, 24h or cramming (docs/guide/pretraining.md)")
    parser.add_argument("--config", type=pathlib.Path, metavar="FILE", help="a TOML file of settings")
    for flag, key, kind, text in _FLAGS:
        name = "MODEL" if flag == "--start-from" else flag.removeprefix("--").replace("-", "_").upper()
        typed = {"choices": kind} if isinstance(kind, tuple) else {"type": kind, "metavar": name}
        if kind is MASK_UNITS:
            typed["type"] = lambda unit: OLD_VALUES.get(("mask_unit", unit), unit)
        parser.add_argument(flag, dest=key, help=text, **typed)
    parser.add_argument("--no-xla", action="store_true", help="do not compile the step: slower, but starts at once")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any other setting, as in TOML; repeatable"
    )
    parser.add_argument("--tensorboard", type=pathlib.Path, metavar="DIR", help="write events for TensorBoard there")
    add_training_options(parser)


def run(arguments: argparse.Namespace) -> None:
    *_, (settings, manifests) = check_all(
        *(lambda path=path: check_exists(path, "a folder that make-records wrote") for path in arguments.records),
        lambda: check_out(arguments, *_inputs(arguments)),
        lambda: settings_of(arguments),
    )
    start = _start(settings, arguments)
    settings = settings if start is None else start.run
    if started_workers(arguments):
        return
    plans = settings.plan([manifest["splits"]["train"]["num_records"] for manifest in manifests])
    load_tensorflow()
    strategy = prepare_devices(arguments)
    from bert_keras.checkpoints import save
    from bert_keras.checkpoints.huggingface.model_card import build_model_card
    from bert_keras.cli.console.fit_progress import FitProgress
    from bert_keras.training import run_pretraining
    from bert_keras.training.strategies import is_chief
    from bert_keras.training.training_log import TensorBoardScalars

    print_settings("pretrain", _shown(arguments, settings, plans, manifests, strategy, start))
    watched = arguments.tensorboard is not None and is_chief(strategy)
    listeners = [TensorBoardScalars(arguments.tensorboard)] if watched else []
    num_seconds = None if plans[0].seconds is None else sum(plan.seconds for plan in plans)
    num_steps = sum(plan.num_steps or 0 for plan in plans)
    with only_training_of(arguments.out, strategy):
        with FitProgress(num_steps, num_seconds=num_seconds) as progress:
            trained = run_pretraining(
                settings,
                arguments.records,
                callbacks=[progress],
                listeners=listeners,
                strategy=strategy,
                backup=make_backup_options(arguments, strategy),
            )
        if not is_chief(strategy):
            return
        notes = {"pretraining.toml": settings.to_toml(), "training_log.jsonl": trained.log}
        card = build_model_card(
            trained.model, trained.tokenizer, history=_history(settings, manifests, trained.metrics, start)
        )
        parts = {"notes": notes, "card": card, "overwrite": arguments.overwrite, "written_by": "pretrain"}
        publish(arguments, lambda folder: save(trained.model, trained.tokenizer, folder, **parts))
    sentence = f"wrote {arguments.out}: {_summary(trained.metrics)}"
    print_result(sentence, {"out": str(arguments.out), **trained.metrics}, as_json=arguments.json)


def _inputs(arguments: argparse.Namespace) -> list[pathlib.Path]:
    """Returns every path that the run reads."""
    named = (arguments.config, vars(arguments)["model.start_from"])
    return [*arguments.records, *(pathlib.Path(path) for path in named if path is not None)]


def settings_of(arguments: argparse.Namespace) -> tuple[Pretraining, list[dict]]:
    """Puts the run together, and reads the manifests: what nothing says of the records, they say themselves.

    Raises:
        InputError: settings that are unknown, wrong or do not fit together or to the records.
    """
    from bert_keras.pipelines.records import read_manifest
    from bert_keras.training.config.recipes import Pretraining, parse_assignments
    from bert_keras.training.config.sources import infer_settings

    overrides = {key: vars(arguments)[key] for _, key, _, _ in _FLAGS} | parse_assignments(arguments.set)
    if arguments.no_xla or arguments.deterministic:  # Keras compiles nothing then, and warns where it was asked to
        overrides["speed.jit_compile"] = False
    if arguments.gradient_checkpointing:
        overrides["speed.gradient_checkpointing"] = True
    # `pretrain` hashes the shards
    manifests = [read_manifest(folder, checked_splits=()) for folder in arguments.records]
    settings = Pretraining.resolve(arguments.config, arguments.recipe, overrides, infer_settings(manifests))
    settings.check_records(manifests, [str(folder) for folder in arguments.records])
    return settings, manifests


def _start(settings: Pretraining, arguments: argparse.Namespace) -> Start | None:
    """Read the checkpoint that a run starts from, if any, and compare it with the settings and the records.

    Raises:
        InputError: it cannot be read or trained further on these records with these settings.
    """
    if settings.model.start_from is None:
        return None
    from bert_keras.training.continued_pretraining import check_start_tokenizer, resolve_start

    folder = pathlib.Path(settings.model.start_from)
    check_exists(folder, "a checkpoint folder")
    check_out(arguments, folder)  # a file of settings may name it, too
    check_start_tokenizer(settings.model.start_from, arguments.records)  # before TensorFlow, which some formats need
    return resolve_start(settings, read_model(folder))


def _shown(
    arguments, settings: Pretraining, plans, manifests: Sequence[Mapping], strategy, start: Start | None
) -> dict[str, object]:
    """Returns what is printed before the work begins."""
    config = settings.model.bert_config(manifests[0]["vocabulary_size"], max(settings.records.max_sequence_lengths))
    shown = {"records": ", ".join(f"{folder}" for folder in arguments.records), "out": arguments.out}
    if settings.recipe:
        shown["recipe"] = settings.recipe + (", without its model" if start else "")
    if start is not None:
        shown["start from"] = start
    shown["model"] = (
        f"{settings.model.objective}, {config.num_layers} layers, {config.hidden_dim} wide, "
        f"{config.vocabulary_size:,} tokens, {settings.model.dtype_policy}"
    )
    for number, plan in enumerate(plans, 1):
        shown[f"phase {number}" if len(plans) > 1 else "budget"] = _budget(plan, manifests[plan.records])
    parts = settings.batches.accumulation_steps
    divisions = dict.fromkeys(batch_arithmetic(plan.batch_size, strategy, parts) for plan in plans)
    shown["batches"] = (
        f"{' then '.join(divisions)}, {settings.batches.masking} masks, {settings.batches.mask_unit}, "
        f"{plans[0].max_predictions} slots a row"
    )
    shown["optimizer"] = (
        f"{settings.optimizer.name}, {settings.optimizer.schedule} to {settings.optimizer.learning_rate:g}, "
        f"{settings.optimizer.warmup_ratio:.0%} warm-up"
    )
    held_out = manifests[0]["splits"]["held_out"]["num_records"]
    shown["held out"] = f"{held_out:,} rows" if held_out else "nothing: no evaluation (make-records --held-out-rate)"
    return shown | {"seed": settings.seed, "backups": backups_shown(arguments)}


def _budget(plan, manifest: Mapping) -> str:
    rows = manifest["splits"]["train"]["num_records"]
    what = f"{rows:,} rows of {plan.max_sequence_length} tokens"
    if plan.num_steps is None:
        return f"{plan.seconds / 3600:g} hours on {what}"
    return (
        f"{plan.num_steps:,} steps of {plan.batch_size} on {what}: {plan.num_steps * plan.batch_size / rows:.1f} epochs"
    )


def _summary(metrics: Mapping[str, float]) -> str:
    """Returns the numbers of the end, those of held-out records where there are any."""
    where = "held_out_" if "held_out_loss" in metrics else ""
    names = {"mlm_accuracy": "masked words right", "next_sentence_accuracy": "sentences right"}
    names["replaced_accuracy"] = "tokens judged right"
    parts = [f"loss {metrics[where + 'loss']:.3f}"]
    parts += [f"{text} {metrics[where + name]:.1%}" for name, text in names.items() if where + name in metrics]
    return ", ".join(parts) + (" on held-out records" if where else " (mean of the last steps)")


def _history(
    settings: Pretraining, manifests: Sequence[Mapping], metrics: Mapping[str, float], start: Start | None
) -> str:
    """Returns the model card's sentence on how the model came to be."""
    rows = sum(manifest["splits"]["train"]["num_records"] for manifest in manifests)
    further = f" further (started from {start})" if start else ""
    recipe = f" by the recipe `{settings.recipe}`" if settings.recipe else ""
    return (
        f"Pretrained{further}{recipe} on {rows:,} sequences: {_summary(metrics)}. Every setting stands in "
        "`pretraining.toml`, the course of the training in `training_log.jsonl`."
    )
