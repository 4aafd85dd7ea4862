"""The part of `evaluate` for masked LMs: scores on records, and pseudo-perplexity on texts."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bert_keras.cli.console.quiet import load_tensorflow
from bert_keras.cli.console.report import ProgressBar, print_result, print_settings
from bert_keras.cli.options import task_options
from bert_keras.cli.options.argument_checks import add_option, non_negative_integer, positive_integer
from bert_keras.errors import InputError
from bert_keras.files import write_json
from bert_keras.pipelines.readers.option_spelling import spell_flag
from bert_keras.publishing import publish_file

if TYPE_CHECKING:
    from bert_keras.checkpoints.checkpoint import Checkpoint
    from bert_keras.pipelines.readers.bad_examples import BadExamples

_MODELS = ("BertMaskedLM", "BertPretrainer")
_TEXT_ENDINGS = (".txt", ".text", ".md", "")
_WORD_ENDINGS = (".conll", ".conllu", ".iob", ".bio")
_RECORDS_OPTIONS = ("split", "seed")
_TABLE_OPTIONS = ("format", "text_column", "columns", "delimiter")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for masked LMs."""
    group = parser.add_argument_group("masked LMs (docs/guide/pretraining.md)")
    add_option(group, "--limit", positive_integer, "evaluate only the first N sequences or texts")
    add_option(group, "--split", ("held_out", "train"), "split of the records (default held_out)")
    add_option(group, "--seed", non_negative_integer, "random seed of the masks in records (default 0)")


def is_masked_lm(checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint has a masked-LM head, or an ELECTRA generator, which has one."""
    return checkpoint.model in _MODELS or checkpoint.generator is not None


def check_no_masked_lm_options(arguments: argparse.Namespace) -> None:
    """Raise `InputError` if an option for masked LMs was given."""
    if given := [f"--{name}" for name in ("limit", *_RECORDS_OPTIONS) if getattr(arguments, name) is not None]:
        raise InputError(f"{', '.join(given)} is for models with a masked-LM head: leave it out")


def evaluate_masked_lm(arguments: argparse.Namespace, checkpoint: Checkpoint) -> None:
    """Evaluate a masked LM on a records folder or on texts, and print the scores.

    Raises:
        InputError: an option does not apply to this model or data, or the data cannot be used.
    """
    is_records = arguments.file.is_dir()
    _check_options(arguments, is_records=is_records)
    scores = _score_records(arguments, checkpoint) if is_records else _score_texts(arguments, checkpoint)
    if arguments.out:
        with publish_file(arguments.out) as staging:
            write_json(staging, scores)
    print_result(f"{arguments.file}: {_format_summary(scores)}", scores, as_json=arguments.json)


def _score_records(arguments: argparse.Namespace, checkpoint: Checkpoint) -> dict[str, float]:
    from bert_keras.checkpoints.reading import read_tokenizer_settings
    from bert_keras.checkpoints.tokenizer_match import check_same_tokenizer
    from bert_keras.tasks.mask_checks import check_records

    folder, split = arguments.file, arguments.split or "held_out"
    num_sequences = check_records(folder, split, checkpoint.config.max_sequence_length)
    check_same_tokenizer(arguments.checkpoint, checkpoint.tokenizer_settings, folder, read_tokenizer_settings(folder))
    options = {"limit": arguments.limit, "seed": arguments.seed or 0}
    _print_settings(
        arguments,
        checkpoint,
        records=f"{folder} ({split}, {min(num_sequences, arguments.limit or num_sequences):,} sequences)",
        masks=f"15 % of the tokens, seed {options['seed']}",
    )
    load_tensorflow()
    from bert_keras.tasks.masked_lm_scores import score_records

    with ProgressBar("evaluating", "sequences") as bar:
        return score_records(*_load_model(checkpoint), folder, split=split, progress=bar.update, **options)


def _score_texts(arguments: argparse.Namespace, checkpoint: Checkpoint) -> dict[str, float]:
    from bert_keras.pipelines.readers.bad_examples import BadExamples

    bad = BadExamples(skip=arguments.on_error == "skip")
    texts = list(itertools.islice(_read_texts(arguments, bad), arguments.limit))
    bad.check()
    if bad.num_bad:
        bad.check_any_left(len(texts), arguments.file)
    if not texts:
        raise InputError(f"{arguments.file} contains no text; expected at least one: name another file")
    masks = "each token in turn, one at a time (Salazar et al. 2020)"
    shown = {"texts": f"{arguments.file} ({len(texts):,} texts)", **task_options.describe_skipped(bad)}
    _print_settings(arguments, checkpoint, **shown, masks=masks)
    load_tensorflow()
    from bert_keras.tasks.masked_lm_scores import score_texts

    with ProgressBar("evaluating", "tokens") as bar:
        return score_texts(*_load_model(checkpoint), texts, progress=bar.update)


def _read_texts(arguments: argparse.Namespace, bad: BadExamples) -> Iterator[str]:
    """Yield the texts of a file: its non-blank lines, or the text column of a table."""
    from bert_keras.pipelines.corpus.text_lines import open_lines
    from bert_keras.pipelines.readers.tables.raw_examples import get_file_ending

    form, ending = arguments.format, get_file_ending(arguments.file)
    if form in ("conll", "conllu") or (form is None and ending in _WORD_ENDINGS):
        raise InputError(
            f"{arguments.file} contains words, not texts; expected .txt, .csv, .tsv, .jsonl or .json: see --format"
        )
    if form == "txt" or (form is None and ending in _TEXT_ENDINGS):
        with open_lines(arguments.file) as (_, lines):
            found = (line for line in lines if line.error is not None or line.text.strip())
            yield from (line.text.strip() for line in bad.keep_good(found))
    else:
        yield from _read_table_texts(arguments, bad)


def _read_table_texts(arguments: argparse.Namespace, bad: BadExamples) -> Iterator[str]:
    from bert_keras.pipelines.readers.labelled_texts import read_text_examples
    from bert_keras.pipelines.readers.tables.column_names import guess_columns
    from bert_keras.pipelines.readers.tables.tables import open_table

    options = {"columns": arguments.columns, "format": arguments.format, "delimiter": arguments.delimiter}
    with open_table(arguments.file, **options) as table:
        guessed = guess_columns(table.columns, text=arguments.text_column, needs_label=False, place=table.place)
        columns = guess_columns(table.columns, text=guessed.text, needs_label=False, place=table.place)  # no pairs
        yield from (row.fields[0] for row in bad.keep_good(read_text_examples(table, columns)))


def _load_model(checkpoint: Checkpoint) -> tuple:
    from bert_keras.checkpoints import load, load_tokenizer

    return load(checkpoint), load_tokenizer(checkpoint)


def _check_options(arguments: argparse.Namespace, *, is_records: bool) -> None:
    """Raise `InputError` that lists every given option that does not apply to this data."""
    used = ("limit", *(_RECORDS_OPTIONS if is_records else _TABLE_OPTIONS))
    others = [name for name in (*task_options.FILE_OPTIONS, *_RECORDS_OPTIONS, "prompt", "plot") if name not in used]
    given = [name for name in others if getattr(arguments, name, None) is not None]
    given += ["on_error"] if is_records and arguments.on_error == "skip" else []
    if given:
        data = "a folder of records" if is_records else "a file of texts"
        options = ", ".join(map(spell_flag, given))
        raise InputError(f"{options} is not for a masked LM on {data}: leave it out")


def _print_settings(arguments: argparse.Namespace, checkpoint: Checkpoint, **shown: str) -> None:
    model = f"{arguments.checkpoint} ({checkpoint.model})"
    print_settings("evaluate", {"checkpoint": model, "task": "masked LM", **shown})


def _format_summary(scores: Mapping[str, float]) -> str:
    if "tokens" in scores:
        unknown = f", {scores['unknown_rate']:.1%} of them [UNK]" if scores["unknown_rate"] else ""
        return (
            f"pseudo-perplexity {scores['pseudo_perplexity']:.4g}, loss {scores['loss']:.4g}, accuracy "
            f"{scores['accuracy']:.4g} on {scores['tokens']:,} tokens of {scores['texts']:,} texts{unknown}"
        )
    sentences = ""
    if "next_sentence_accuracy" in scores:
        sentences = f", next-sentence accuracy {scores['next_sentence_accuracy']:.4g}"
    return (
        f"masked-LM loss {scores['mlm_loss']:.4g}, accuracy {scores['mlm_accuracy']:.4g}, perplexity "
        f"{scores['perplexity']:.4g}{sentences} on {scores['masked_tokens']:,} masked tokens of "
        f"{scores['sequences']:,} sequences"
    )
