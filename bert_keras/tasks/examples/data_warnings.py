"""What is probably wrong with the examples of a task, in sentences for people, each with its remedy."""

import collections
from collections.abc import Hashable, Mapping, Sequence

from bert_keras.checks import quote
from bert_keras.metrics.tag_schemes import get_entity_label
from bert_keras.pipelines.readers.tables.column_names import is_usual_label, is_usual_text
from bert_keras.pipelines.readers.tables.listed_examples import describe_place
from bert_keras.tasks.base import Task
from bert_keras.tasks.examples.held_out import HeldOut
from bert_keras.tasks.examples.labelled_files import get_labels
from bert_keras.tasks.text_classification import TextClassification, TextExample
from bert_keras.tasks.token_classification import TokenClassification

_NUM_SHOWN = 3
_MANY_NUMBERS = 20  # different numbers as classes, from which they are rather values


def data_warnings(
    task: Task,
    train: Sequence,
    dev: Sequence,
    train_source: object,
    dev_source: object,
    *,
    held_out: HeldOut | None = None,
    named_columns: bool = False,
) -> list[str]:
    """Return what is probably wrong with examples to learn from and to score on.

    Args:
        task: the task.
        train, dev: its examples.
        train_source, dev_source: where they are from.
        held_out: how `dev` was held out of `train`; None: it has a source of its own.
        named_columns: whether the user named the columns, so that no line of the files does.
    """
    warnings = []
    sources = [(train, train_source)] if held_out else [(train, train_source), (dev, dev_source)]
    for examples, source in sources:
        if isinstance(examples[0], TextExample):
            warnings += _header_warnings(examples[0], source, named_columns)
    if labels := _labels_of_examples(task, [*train, *dev] if held_out else train):
        warnings += _label_warnings(labels, train_source, held_out)
    if isinstance(task, TextClassification) and task.problem == "single_label":
        warnings += _unlike_warnings(train, train_source)
    if not held_out:
        warnings += _leak_warnings(train, dev, dev_source)
    return warnings


def _header_warnings(first: TextExample, source: object, named_columns: bool) -> list[str]:
    """Return a warning if the first example is rather the line that names the columns."""
    labels = [] if isinstance(first.label, float | None) else get_labels(first)
    looks_so = [is_usual_text(first.text), any(map(is_usual_label, labels))]
    if not (any(looks_so) if named_columns else all(looks_so)):
        return []
    return [
        f"{describe_place(source, first.line)}: the first example is {quote(first.text)} with the label "
        f"{_listed(labels) or first.label}, which are usual names of columns: if it is the header, leave --columns "
        "out, or take the line out"
    ]


def _labels_of_examples(task: Task, examples: Sequence) -> list[Sequence[str]]:
    """Return the labels of each example; none where they are numbers or answers."""
    if isinstance(task, TextClassification) and task.problem != "regression":
        return [get_labels(example) for example in examples]
    if isinstance(task, TokenClassification):
        is_plain = task.scheme == "none"
        return [
            [tag if is_plain else get_entity_label(tag) for tag in example.tags if tag != "O"] for example in examples
        ]
    return []


def _label_warnings(labels: Sequence[Sequence[str]], source: object, held_out: HeldOut | None) -> list[str]:
    counts = collections.Counter(label for names in labels for label in set(names))
    warnings = [*_alike_warnings(counts, source)]
    rare = sorted(label for label, number in counts.items() if number == 1)
    num_examples = sum(bool(names) for names in labels)
    if len(counts) == num_examples > 2 and len(rare) == num_examples:
        return [
            *warnings,
            f"{source}: there are as many classes as examples ({num_examples:,}), so none can be learned: name the "
            "column of classes with --label-column, or learn numbers with --problem regression",
        ]
    if rare:
        stays = ", which stays among the training examples" if held_out else ""
        classes = f"{len(rare):,} classes have" if len(rare) > 1 else "a class has"
        warnings.append(
            f"{source}: {classes} only one example{stays} ({_listed(rare)}): add some, or look for a slip of the pen"
        )
    if len(counts) > _MANY_NUMBERS and all(_number(label) is not None for label in counts):
        warnings.append(
            f"{source}: the {len(counts):,} classes are all numbers: to learn values, add --problem regression"
        )
    return warnings


def _alike_warnings(counts: Mapping[str, int], source: object) -> list[str]:
    """Return a warning for labels that differ only by case or spaces, and for those that are one number."""
    warnings = []
    for normal, what in ((_without_case, "differ only by case or spaces"), (_number, "are the same number")):
        alike = collections.defaultdict(list)
        for label in sorted(counts):
            if (key := normal(label)) is not None:
                alike[key].append(label)
        groups = [names for names in alike.values() if len(names) > 1]
        spelled = [" and ".join(f"{quote(name)} ({counts[name]:,})" for name in names) for names in groups[:_NUM_SHOWN]]
        more = f"; and {len(groups) - _NUM_SHOWN:,} more" if len(groups) > _NUM_SHOWN else ""
        if groups:
            warnings.append(
                f"{source}: the labels {'; '.join(spelled)}{more} {what}: spell them alike if they are one class"
            )
    return warnings


def _unlike_warnings(examples: Sequence[TextExample], source: object) -> list[str]:
    """Return a warning if one text has different labels."""
    first: dict[Hashable, TextExample] = {}
    unlike: dict[Hashable, tuple[TextExample, TextExample]] = {}
    for example in examples:
        before = first.setdefault(_content(example), example)
        if before.label != example.label:
            unlike.setdefault(_content(example), (before, example))
    if not unlike:
        return []
    before, after = next(iter(unlike.values()))
    texts = f"{len(unlike):,} texts have" if len(unlike) > 1 else "a text has"
    return [
        f"{source}: {texts} different labels at different places, such as {quote(before.text)}, {quote(before.label)} "
        f"in {_at(source, before)} and {quote(after.label)} in {_at(source, after)}: correct them, or take one out"
    ]


def _leak_warnings(train: Sequence, dev: Sequence, source: object) -> list[str]:
    known = {_content(example) for example in train}
    num_known = sum(_content(example) in known for example in dev)
    if not num_known:
        return []
    are = "is" if num_known == 1 else "are"
    return [
        f"{source}: {num_known:,} of {len(dev):,} held-out examples ({num_known / len(dev):.1%}) {are} among the "
        "training examples, which flatters the scores: take them out of one of the two"
    ]


def _content(example) -> Hashable:
    """Return what a model reads of an example."""
    if hasattr(example, "words"):
        return example.words
    if hasattr(example, "context"):
        return example.question, example.context
    return example.text, example.second_text


def _at(source: object, example: TextExample) -> str:
    return describe_place(source, example.line).removeprefix(f"{source}").removeprefix(", ")


def _without_case(label: str) -> str:
    return " ".join(label.casefold().split())


def _number(label: str) -> float | None:
    try:
        return float(label)
    except ValueError:
        return None


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NUM_SHOWN:,} more" if len(names) > _NUM_SHOWN else ""
    return ", ".join(quote(name) for name in names[:_NUM_SHOWN]) + more
