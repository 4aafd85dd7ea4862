"""Make pretraining records from text and a vocabulary."""

import argparse
import pathlib

from bert_keras.cli.checks import (
    add_overwrite,
    add_text,
    check_all,
    check_exists,
    documents,
    find_text,
    positive_integer,
    text_name,
)
from bert_keras.cli.quiet import load_tensorflow
from bert_keras.cli.report import ProgressBar, print_result, print_settings
from bert_keras.files import check_writable_target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("vocabulary", type=pathlib.Path, metavar="VOCAB", help="the vocabulary file")
    parser.add_argument("out", type=pathlib.Path, metavar="OUT", help="the folder to write")
    add_text(parser)
    parser.add_argument("--cased", action="store_true", help="the vocabulary keeps capital letters and accents")
    parser.add_argument(
        "--max-sequence-length", type=positive_integer, default=128, help="pieces an example (default %(default)s)"
    )
    parser.add_argument("--num-shards", type=positive_integer, default=1, help="files (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="draws the pairs (default %(default)s)")
    add_overwrite(parser)


def run(arguments: argparse.Namespace) -> None:
    *_, sources = check_all(
        lambda: check_exists(arguments.vocabulary, "a vocabulary file"),
        lambda: check_writable_target(arguments.out, overwrite=arguments.overwrite),
        lambda: find_text(arguments.text, out=arguments.out),
    )
    print_settings(
        "make-records",
        {
            "text": text_name(arguments.text, sources),
            "vocabulary": arguments.vocabulary,
            "out": arguments.out,
            "lowercase": not arguments.cased,
            "max_sequence_length": arguments.max_sequence_length,
            "num_shards": arguments.num_shards,
            "seed": arguments.seed,
        },
    )
    load_tensorflow()
    from bert_keras.pipelines.records import write_records
    from bert_keras.pipelines.tokenizer import BertTokenizer

    tokenizer = BertTokenizer.from_vocabulary(
        arguments.vocabulary, lowercase=not arguments.cased, max_sequence_length=arguments.max_sequence_length
    )
    with ProgressBar("pairing", "documents") as bar:
        manifest = write_records(
            arguments.out,
            documents(sources, arguments.field),
            tokenizer,
            max_sequence_length=arguments.max_sequence_length,
            seed=arguments.seed,
            num_shards=arguments.num_shards,
            overwrite=arguments.overwrite,
            progress=bar.update,
        )
    sentence = (
        f"wrote {arguments.out}: {manifest['num_examples']:,} examples of {manifest['num_documents']:,} documents, "
        f"{manifest['num_tokens']:,} pieces"
    )
    print_result(sentence, {"out": str(arguments.out), **manifest}, as_json=arguments.json)
