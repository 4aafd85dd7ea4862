"""Pretrain a new BERT on records: masked LM and next sentence."""

import argparse
import pathlib

from bert_keras.cli.checks import add_overwrite, check_all, check_exists, positive_integer, positive_number
from bert_keras.cli.quiet import load_tensorflow
from bert_keras.cli.report import print_result, print_settings
from bert_keras.config import PRESETS, BertConfig
from bert_keras.files import check_writable_target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("records", type=pathlib.Path, metavar="RECORDS", help="a folder that make-records wrote")
    parser.add_argument("out", type=pathlib.Path, metavar="OUT", help="the checkpoint folder to write")
    parser.add_argument("--preset", choices=PRESETS, default="tiny", help="the size (default %(default)s)")
    parser.add_argument("--steps", type=positive_integer, default=1000, help="optimizer steps (default %(default)s)")
    parser.add_argument("--batch-size", type=positive_integer, default=32, help="examples a step (default %(default)s)")
    parser.add_argument(
        "--learning-rate", type=positive_number, default=1e-3, help="the peak; base takes 1e-4 (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="draws weights, masks and order (default %(default)s)")
    add_overwrite(parser)


def run(arguments: argparse.Namespace) -> None:
    check_all(
        lambda: check_exists(arguments.records, "a folder that make-records wrote"),
        lambda: check_writable_target(arguments.out, overwrite=arguments.overwrite),
    )
    load_tensorflow()
    from bert_keras.checkpoints import save
    from bert_keras.cli.fit_progress import FitProgress
    from bert_keras.pipelines.batches import pretraining_batches
    from bert_keras.pipelines.records import read_manifest
    from bert_keras.pipelines.tokenizer import BertTokenizer
    from bert_keras.training import pretrain

    manifest = read_manifest(arguments.records)
    length = manifest["max_sequence_length"]
    tokenizer = BertTokenizer.from_checkpoint(arguments.records)
    config = BertConfig.from_preset(
        arguments.preset, vocabulary_size=tokenizer.vocabulary_size, max_sequence_length=length
    )
    print_settings(
        "pretrain",
        {
            "records": f"{arguments.records} ({manifest['num_examples']:,} examples of {length} pieces)",
            "out": arguments.out,
            "model": f"{arguments.preset}: {config.num_layers} layers, {config.hidden_dim} wide",
            "vocabulary_size": config.vocabulary_size,
            "steps": arguments.steps,
            "batch_size": arguments.batch_size,
            "epochs": f"{arguments.steps * arguments.batch_size / manifest['num_examples']:.1f}",
            "learning_rate": arguments.learning_rate,
            "seed": arguments.seed,
        },
    )
    batches = pretraining_batches(
        arguments.records, tokenizer, batch_size=arguments.batch_size, seed=arguments.seed, epochs=None
    )
    model, metrics = pretrain(
        batches,
        config,
        num_steps=arguments.steps,
        learning_rate=arguments.learning_rate,
        seed=arguments.seed,
        callbacks=[FitProgress(arguments.steps)],
    )
    save(model, tokenizer, arguments.out, overwrite=arguments.overwrite)
    sentence = (
        f"wrote {arguments.out}: loss {metrics['loss']:.3f}, masked words right "
        f"{metrics['mlm_logits_accuracy']:.1%}, next sentences right {metrics['next_sentence_logits_accuracy']:.1%} "
        "(means over all steps)"
    )
    print_result(sentence, {"out": str(arguments.out), **metrics}, as_json=arguments.json)
