"""Warnings about likely mistakes in the examples of a task, each with a fix."""

import collections
from collections.abc import Hashable, Mapping, Sequence

from bert_keras.checks import quote
from bert_keras.heads.classify.task import TextExample, get_labels
from bert_keras.heads.examples.held_out import HeldOut
from bert_keras.heads.task import Task
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.pipelines.readers.tables.column_names import is_label_name, is_text_name
from bert_keras.pipelines.readers.tables.raw_examples import describe_place

_NUM_SHOWN = 3
_MANY_NUMBERS = 20  # more classes than this that are all numbers are probably values to predict


def find_data_warnings(
    task: Task,
    train: Sequence,
    dev: Sequence,
    train_source: object,
    dev_source: object,
    *,
    held_out: HeldOut | None = None,
    has_named_columns: bool = False,
    spell: Spell = spell_flag,
) -> list[str]:
    """Return warnings about training and held-out examples.

    Args:
        task: the task.
        train, dev: its training and held-out examples.
        train_source, dev_source: their sources, for messages.
        held_out: how `dev` was held out of `train`; None: `dev` has its own source.
        has_named_columns: whether the user named all columns, so that the files have no header line.
        spell: spells options in messages.

    Returns:
        One sentence per likely mistake.
    """
    warnings = []
    sources = [(train, train_source)] if held_out else [(train, train_source), (dev, dev_source)]
    for examples, source in sources:
        if isinstance(examples[0], TextExample):
            warnings += _warn_about_header(examples[0], source, has_named_columns, spell)
    labels = [task.list_labels(example) for example in ([*train, *dev] if held_out else train)]
    warnings += _warn_about_labels(labels, train_source, held_out, spell)
    if task.has_confusion_matrix:
        warnings += _warn_about_contradictions(train, train_source)
    if not held_out:
        warnings += _warn_about_leaks(train, dev, dev_source)
    return warnings


def _warn_about_header(first: TextExample, source: object, has_named_columns: bool, spell: Spell) -> list[str]:
    """Return a warning if the first example looks like a header line."""
    labels = [] if isinstance(first.label, float | None) else get_labels(first)
    looks_like_names = [is_text_name(first.text), any(map(is_label_name, labels))]
    if not (any(looks_like_names) if has_named_columns else all(looks_like_names)):
        return []
    return [
        f"{describe_place(source, first.line)}: the first example is {quote(first.text)} with the label "
        f"{_format_labels(labels) or first.label}, which are usual names of columns: if it is the header line, leave "
        f"{spell('columns')} out, or remove the line"
    ]


def _warn_about_labels(
    labels: Sequence[Sequence[str]], source: object, held_out: HeldOut | None, spell: Spell
) -> list[str]:
    counts = collections.Counter(label for names in labels for label in set(names))
    warnings = _warn_about_similar_labels(counts, source)
    rare = sorted(label for label, number in counts.items() if number == 1)
    num_examples = sum(bool(names) for names in labels)
    if len(counts) == num_examples > 2 and len(rare) == num_examples:
        return [
            *warnings,
            f"{source}: there are as many classes as examples ({num_examples:,}), so none can be learned: name the "
            f"column of classes with {spell('label_column')}, or learn numbers with {spell('problem', 'regression')}",
        ]
    if rare:
        stays = ", which remains a training example" if held_out else ""
        classes = f"{len(rare):,} classes have" if len(rare) > 1 else "a class has"
        warnings.append(
            f"{source}: {classes} only one example{stays} ({_format_labels(rare)}): add some, or look for a typo"
        )
    if len(counts) > _MANY_NUMBERS and all(_parse_number(label) is not None for label in counts):
        warnings.append(
            f"{source}: the {len(counts):,} classes are all numbers: to learn values, add "
            f"{spell('problem', 'regression')}"
        )
    return warnings


def _warn_about_similar_labels(counts: Mapping[str, int], source: object) -> list[str]:
    """Return warnings about labels that differ only by case or spaces, or are the same number."""
    warnings = []
    for normalize, what in ((_normalize_case, "differ only by case or spaces"), (_parse_number, "are the same number")):
        similar = collections.defaultdict(list)
        for label in sorted(counts):
            if (key := normalize(label)) is not None:
                similar[key].append(label)
        groups = [names for names in similar.values() if len(names) > 1]
        listed = [" and ".join(f"{quote(name)} ({counts[name]:,})" for name in names) for names in groups[:_NUM_SHOWN]]
        more = f"; and {len(groups) - _NUM_SHOWN:,} more" if len(groups) > _NUM_SHOWN else ""
        if groups:
            warnings.append(
                f"{source}: the labels {'; '.join(listed)}{more} {what}: spell them the same way if they are one class"
            )
    return warnings


def _warn_about_contradictions(examples: Sequence[TextExample], source: object) -> list[str]:
    """Return a warning if the same text has different labels."""
    first: dict[Hashable, TextExample] = {}
    contradictions: dict[Hashable, tuple[TextExample, TextExample]] = {}
    for example in examples:
        before = first.setdefault(_get_input(example), example)
        if before.label != example.label:
            contradictions.setdefault(_get_input(example), (before, example))
    if not contradictions:
        return []
    before, after = next(iter(contradictions.values()))
    texts = f"{len(contradictions):,} texts have" if len(contradictions) > 1 else "a text has"
    return [
        f"{source}: {texts} different labels in different places, such as {quote(before.text)}, {quote(before.label)} "
        f"in {_describe_line(source, before)} and {quote(after.label)} in {_describe_line(source, after)}: correct "
        "them, or remove one"
    ]


def _warn_about_leaks(train: Sequence, dev: Sequence, source: object) -> list[str]:
    known = {_get_input(example) for example in train}
    num_known = sum(_get_input(example) in known for example in dev)
    if not num_known:
        return []
    are = "is" if num_known == 1 else "are"
    return [
        f"{source}: {num_known:,} of {len(dev):,} held-out examples ({num_known / len(dev):.1%}) {are} also "
        "in the training examples, which makes the scores too good: remove them from one of the two"
    ]


def _get_input(example: object) -> Hashable:
    """Return the input of an example, without its label."""
    if hasattr(example, "words"):
        return example.words
    if hasattr(example, "context"):
        return example.question, example.context
    return example.texts


def _describe_line(source: object, example: TextExample) -> str:
    return describe_place(source, example.line).removeprefix(f"{source}").removeprefix(", ")


def _normalize_case(label: str) -> str:
    return " ".join(label.casefold().split())


def _parse_number(label: str) -> float | None:
    try:
        return float(label)
    except ValueError:
        return None


def _format_labels(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NUM_SHOWN:,} more" if len(names) > _NUM_SHOWN else ""
    return ", ".join(quote(name) for name in names[:_NUM_SHOWN]) + more
