"""Fine-tune a checkpoint on labelled texts."""

import argparse
import pathlib

from bert_keras.cli.checks import check_all, check_exists, positive_integer, positive_number
from bert_keras.cli.quiet import load_tensorflow
from bert_keras.cli.report import print_result, print_settings
from bert_keras.cli.training_options import (
    add_training_options,
    backups_shown,
    batch_arithmetic,
    check_out,
    keeping_of,
    prepare_devices,
    publish,
    started_workers,
)
from bert_keras.training.tables import DTYPE_POLICIES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=pathlib.Path, metavar="CHECKPOINT", help="any BERT folder with a vocabulary")
    parser.add_argument("out", type=pathlib.Path, metavar="OUT", help="the checkpoint folder to write")
    parser.add_argument(
        "--train", type=pathlib.Path, required=True, metavar="FILE", help="a .csv or .tsv with a header"
    )
    parser.add_argument("--dev", type=pathlib.Path, required=True, metavar="FILE", help="held-out texts, the same form")
    parser.add_argument("--text-column", default="text", help="the column of the text (default %(default)s)")
    parser.add_argument("--label-column", default="label", help="the column of the label (default %(default)s)")
    parser.add_argument(
        "--epochs", type=positive_integer, default=3, help="passes over the texts (default %(default)s)"
    )
    parser.add_argument("--batch-size", type=positive_integer, default=32, help="texts a step (default %(default)s)")
    parser.add_argument("--learning-rate", type=positive_number, default=3e-5, help="the peak (default %(default)s)")
    parser.add_argument(
        "--max-sequence-length", type=positive_integer, default=128, help="pieces a text (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="draws head, dropout and order (default %(default)s)")
    parser.add_argument(
        "--accumulation-steps",
        type=positive_integer,
        default=1,
        help="parts a step is computed in (default %(default)s)",
    )
    parser.add_argument("--dtype", choices=DTYPE_POLICIES, default="float32", help="precision (default %(default)s)")
    add_training_options(parser)


def run(arguments: argparse.Namespace) -> None:
    check_all(
        lambda: check_exists(arguments.checkpoint, "a checkpoint folder"),
        lambda: check_exists(arguments.train, "a .csv or .tsv file"),
        lambda: check_exists(arguments.dev, "a .csv or .tsv file"),
        lambda: check_out(arguments),
    )
    if started_workers(arguments):
        return
    load_tensorflow()
    strategy = prepare_devices(arguments)
    from bert_keras.checkpoints import save
    from bert_keras.cli.fit_progress import FitProgress
    from bert_keras.pipelines.tasks import read_labelled_csv
    from bert_keras.training import finetune_classifier
    from bert_keras.training.strategies import is_chief

    columns = {"text_column": arguments.text_column, "label_column": arguments.label_column}
    train, dev = read_labelled_csv(arguments.train, **columns), read_labelled_csv(arguments.dev, **columns)
    num_steps = arguments.epochs * -(-len(train[0]) // arguments.batch_size)
    print_settings(
        "finetune",
        {
            "checkpoint": arguments.checkpoint,
            "out": arguments.out,
            "train": f"{arguments.train} ({len(train[0]):,} texts, {len(set(train[1]))} labels)",
            "dev": f"{arguments.dev} ({len(dev[0]):,} texts)",
            "epochs": arguments.epochs,
            "batches": batch_arithmetic(arguments.batch_size, strategy, arguments.accumulation_steps),
            "steps": num_steps,
            "learning_rate": arguments.learning_rate,
            "max_sequence_length": arguments.max_sequence_length,
            "seed": arguments.seed,
            "backups": backups_shown(arguments),
        },
    )
    with FitProgress(num_steps) as progress:
        model, tokenizer, scores = finetune_classifier(
            arguments.checkpoint,
            train,
            dev,
            num_epochs=arguments.epochs,
            batch_size=arguments.batch_size,
            learning_rate=arguments.learning_rate,
            max_sequence_length=arguments.max_sequence_length,
            seed=arguments.seed,
            callbacks=[progress],
            strategy=strategy,
            accumulation_steps=arguments.accumulation_steps,
            gradient_checkpointing=arguments.gradient_checkpointing,
            dtype_policy=arguments.dtype,
            keeping=keeping_of(arguments, strategy),
        )
    if not is_chief(strategy):
        return
    publish(arguments, lambda: save(model, tokenizer, arguments.out, overwrite=arguments.overwrite))
    sentence = (
        f"wrote {arguments.out}: {scores['accuracy']:.1%} of the held-out texts right; "
        f"the commonest label alone would be right on {scores['majority_accuracy']:.1%}"
    )
    print_result(sentence, {"out": str(arguments.out), **scores}, as_json=arguments.json)
