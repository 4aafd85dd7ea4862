"""Evaluate a checkpoint on labelled examples, or a masked LM on records or texts.

FILE has one of the formats of finetune; on its held-out file, the scores equal those in metrics.json. For a model with
a masked-LM head, FILE is a records folder (loss, accuracy, perplexity) or a file of texts (pseudo-perplexity).
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bert_keras.checks import format_count
from bert_keras.cli.console import ProgressBar, Result, print_settings
from bert_keras.cli.interrupts import load_tensorflow
from bert_keras.cli.options import task_options
from bert_keras.cli.options.argument_checks import check_all, check_exists, read_model
from bert_keras.cli.options.declaring import Options, non_negative_integer, positive_integer
from bert_keras.errors import InputError
from bert_keras.files import write_json
from bert_keras.heads.known_heads import get_head
from bert_keras.publishing import check_writable_file, publish_file

if TYPE_CHECKING:
    from bert_keras.checkpoints.checkpoint import Checkpoint
    from bert_keras.pipelines.readers.bad_examples import BadExamples


_TEXT_ENDINGS = (".text", ".md", "")  # in addition to .txt
_RECORDS_OPTIONS = ("split", "seed")
_TABLE_OPTIONS = ("format", "text_column", "columns", "delimiter")


def add_arguments(options: Options) -> None:
    """Declare the arguments of the command."""
    options.add_model("checkpoint", "fine-tuned or pretrained checkpoint folder")
    options.add_path("file", "labelled examples; for a masked LM, a records folder or texts")
    options.add_option("--out", pathlib.Path, "write the scores to this JSON file")
    options.add_option("--plot", pathlib.Path, "draw the confusion matrix to this PNG file")
    task_options.add_length_options(options, length="as in training", overlap="as in training")
    task_options.add_prompt(options, default="the model's default prompt")
    task_options.add_file_options(options)
    task_options.add_on_error(options)
    group = options.add_group("masked LMs (docs/guide/pretraining.md)")
    group.add_option("--limit", positive_integer, "evaluate only the first N sequences or texts")
    group.add_option("--split", ("held_out", "train"), "split of the records (default held_out)")
    group.add_option("--seed", non_negative_integer, "random seed of the masks in records (default 0)")
    options.add_overwrite("replace existing files")


def run(arguments: argparse.Namespace) -> Result:
    """Run the command, and return its result to print."""
    from bert_keras.heads.examples.scoring_data import find_labelled_columns

    inputs, outs = [arguments.checkpoint, arguments.file], [path for path in (arguments.out, arguments.plot) if path]
    checkpoint, *_ = check_all(
        lambda: read_model(arguments.checkpoint),
        lambda: check_exists(arguments.file, "a file of labelled examples or texts, or a records folder"),
        *(lambda path=path: check_writable_file(path, overwrite=arguments.overwrite, inputs=inputs) for path in outs),
        lambda: _check_distinct(outs),
    )
    if get_head(checkpoint.model).fills_masks or checkpoint.generator is not None:  # a generator has the head, too
        return _evaluate_masked_lm(arguments, checkpoint)
    task, changes = task_options.read_task(arguments, checkpoint)
    examples, bad = task_options.read_labelled_examples(
        arguments,
        task,
        arguments.file,
        lambda: _check_no_masked_lm_options(arguments),
        *([lambda: task_options.check_can_plot(task)] if arguments.plot else []),
    )
    columns = find_labelled_columns(task, arguments.file, task_options.get_file_options(arguments))
    shown = {"file": f"{arguments.file} ({len(examples):,} examples)", **task_options.describe_columns(columns)}
    described = task_options.describe_task(task, **shown, **task_options.describe_skipped(bad))
    print_settings("evaluate", {"checkpoint": arguments.checkpoint, **described})
    load_tensorflow()
    from bert_keras.engines.predictor import Predictor

    predictor = Predictor.from_checkpoint(checkpoint, **changes)
    with ProgressBar("evaluating", "examples") as bar:
        answers = predictor.answer(examples, progress=bar.update)
    scores = task.score(answers, examples)
    _write_scores(arguments.out, scores)
    if arguments.plot:
        from bert_keras.metrics.confusion_figure import render_confusion_matrix

        with publish_file(arguments.plot) as staging:
            matrix = task.compute_confusion_matrix(answers, examples)
            staging.write_bytes(render_confusion_matrix(matrix, task.labels))
    sentence = f"{arguments.file}: {task_options.format_scores(scores, task.main_score)} on {len(examples):,} examples"
    sentence += f"; {format_count(bad.num_bad, 'bad example')} skipped" if bad.num_bad else ""
    return sentence, {"examples": len(examples), "skipped": bad.num_bad, **scores}


def _check_no_masked_lm_options(arguments: argparse.Namespace) -> None:
    """Raise `InputError` if an option for masked LMs was given."""
    if given := task_options.get_given_options(arguments, "limit", *_RECORDS_OPTIONS):
        raise InputError(f"{task_options.format_options(given)} is for models with a masked-LM head: leave it out")


def _evaluate_masked_lm(arguments: argparse.Namespace, checkpoint: Checkpoint) -> Result:
    """Evaluate a masked LM on a records folder or on texts."""
    is_records = arguments.file.is_dir()
    _check_options(arguments, is_records=is_records)
    scores = _score_records(arguments, checkpoint) if is_records else _score_texts(arguments, checkpoint)
    _write_scores(arguments.out, scores)
    return f"{arguments.file}: {_format_summary(scores)}", scores


def _score_records(arguments: argparse.Namespace, checkpoint: Checkpoint) -> dict[str, float]:
    from bert_keras.checkpoints.reading import read_tokenizer_settings
    from bert_keras.checkpoints.vocabulary_file import check_same_tokenizer
    from bert_keras.heads.fill_mask.mask_checks import check_records

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
    from bert_keras.engines.masked_lm_scores import score_records

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
    from bert_keras.engines.masked_lm_scores import score_texts

    with ProgressBar("evaluating", "tokens") as bar:
        return score_texts(*_load_model(checkpoint), texts, progress=bar.update)


def _read_texts(arguments: argparse.Namespace, bad: BadExamples) -> Iterator[str]:
    """Yield the texts of a file: its non-blank lines, or the text column of a table."""
    from bert_keras.heads.examples.file_options import guess_format
    from bert_keras.pipelines.corpus.text_lines import open_lines
    from bert_keras.pipelines.readers.tables.raw_examples import get_file_ending

    form = arguments.format or guess_format(arguments.file)
    if form in ("conll", "conllu"):
        raise InputError(
            f"{arguments.file} contains words, not texts; expected .txt, .csv, .tsv, .jsonl or .json: see --format"
        )
    if form == "txt" or (form is None and get_file_ending(arguments.file) in _TEXT_ENDINGS):
        with open_lines(arguments.file) as (_, lines):
            found = (line for line in lines if line.error is not None or line.text.strip())
            yield from (line.text.strip() for line in bad.keep_good(found))
    else:
        yield from _read_table_texts(arguments, bad)


def _read_table_texts(arguments: argparse.Namespace, bad: BadExamples) -> Iterator[str]:
    from bert_keras.pipelines.readers.labelled_texts import read_text_examples
    from bert_keras.pipelines.readers.tables.column_names import guess_columns

    with task_options.get_file_options(arguments).open_table(arguments.file) as table:
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
    given = [*task_options.get_given_options(arguments, *others)]
    given += ["on_error"] if is_records and arguments.on_error == "skip" else []
    if given:
        data = "a folder of records" if is_records else "a file of texts"
        raise InputError(f"{task_options.format_options(given)} is not for a masked LM on {data}: leave it out")


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


def _check_distinct(outs: list[pathlib.Path]) -> None:
    if len({path.resolve() for path in outs}) < len(outs):
        raise InputError(f"--out and --plot are both {outs[0]}; expected two different files: name another one")


def _write_scores(out: pathlib.Path | None, scores: Mapping[str, float]) -> None:
    if out is not None:
        with publish_file(out) as staging:
            write_json(staging, scores)
