"""Hold out a share of the training examples for scoring, in proportion for each class, with equal texts on one side."""

import collections
import dataclasses
import hashlib
import numbers
from collections.abc import Hashable, Iterable, Mapping, Sequence

from bert_keras.checks import format_count, format_names, quote
from bert_keras.errors import InputError
from bert_keras.heads.classify.task import TextExample
from bert_keras.heads.examples.option_checks import DEV_SHARE
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.pipelines.readers.questions import Question
from bert_keras.pipelines.readers.words.tagged_sentences import TaggedSentence


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """How examples were held out.

    Attributes:
        share: the requested share.
        seed: selects the held-out examples, together with their texts.
        unit: what is never split: "texts", "first texts", "pairs", "examples", "sentences", "contexts" or
            "articles".
        is_stratified: whether each class is held out in proportion.
    """

    share: float
    seed: int
    unit: str
    is_stratified: bool

    def describe(self) -> str:
        """Return a description for people."""
        each = ", each class in proportion" if self.is_stratified else ""
        return f"{self.share:.3g} of the {self.unit} held out with seed {self.seed}{each}"

    def settings(self) -> dict[str, object]:
        """Return the attributes as a dict, for `metrics.json`."""
        return dataclasses.asdict(self)


def check_dev_share(share: float) -> float:
    """Return the share of the examples to hold out.

    Raises:
        InputError: the share is not a number between 0 and 1.
    """
    if isinstance(share, bool) or not isinstance(share, numbers.Real) or not 0 < share < 1:
        raise InputError(f"the held-out share is {quote(share)}; expected a number between 0 and 1, such as 0.1")
    return share


def hold_out(
    examples: Sequence, source: object, *, share: float = DEV_SHARE, seed: int = 0, spell: Spell = spell_flag
) -> tuple[list, list, HeldOut]:
    """Split labelled examples into training and held-out examples.

    Examples with the same text stay together. So do pairs with the same first text if first texts repeat (one premise
    with several hypotheses), unless there are too few first texts; and questions about the same article, or else the
    same context. The second text of a pair can still be on both sides. The share is taken of each class, rounded so
    that the total is right, and never all of a class; a text with several labels, or a sentence with several tags,
    counts for its rarest one. A hash of the seed and the text selects the examples of a class, so the result depends
    neither on their order nor on the machine.

    Args:
        examples: `TextExample`, `TaggedSentence` or `Question` objects, at least one.
        source: their source, for messages.
        share: the share to hold out, between 0 and 1.
        seed: selects the held-out examples.
        spell: spells options in messages.

    Returns:
        The training examples and the held-out examples, each in their order, and how they were split.

    Raises:
        InputError: there are too few examples.
    """
    check_dev_share(share)
    labels = [_get_labels(example) for example in examples]
    for grouping in _list_groupings(examples, share):
        unit, keys = grouping
        groups = collections.defaultdict(list)
        for index, key in enumerate(keys):
            groups[key].append(index)
        chosen = _choose_groups(groups, _stratify(groups, labels), share, seed)
        _keep_labels_in_training(chosen, groups, labels)
        if chosen:
            break
    else:
        raise InputError(_explain_too_few(examples, source, unit, len(groups), spell))
    held_out = {index for key in chosen for index in groups[key]}
    train = [example for index, example in enumerate(examples) if index not in held_out]
    dev = [example for index, example in enumerate(examples) if index in held_out]
    return train, dev, HeldOut(share, seed, unit, any(labels))


def _explain_too_few(examples: Sequence, source: object, unit: str, num_groups: int, spell: Spell) -> str:
    """Return the error message for examples that cannot be split."""
    labels = [getattr(example, "label", None) for example in examples]
    classes = list(dict.fromkeys(label for label in labels if isinstance(label, str)))
    if len(classes) >= num_groups > 1:
        return (
            f"{source}: each of the {num_groups:,} {unit} has its own class ({format_names(classes)}); expected two "
            f"{unit} of a class or more: name the column of classes with {spell('label_column')}, learn numbers with "
            f"{spell('problem', 'regression')}, or name held-out examples with {spell('dev')}"
        )
    found = f"{format_count(len(examples), 'example')} of {format_count(num_groups, unit.removesuffix('s'))}"
    return (
        f"{source} has {found}, too few to hold some out; expected two {unit} or more, and not each with its own "
        f"class: name held-out examples with {spell('dev')}"
    )


def _list_groupings(examples: Sequence, share: float) -> list[tuple[str, list[Hashable]]]:
    """Return the possible groupings, the best first: the name of a group in the plural, and the key of each example."""
    first = examples[0]
    if isinstance(first, TaggedSentence):
        return [("sentences", [example.words for example in examples])]
    if isinstance(first, Question):
        return [_group_questions(examples, share)]
    # a single text is still (text, None), as in version 0.2, so that the same texts are held out
    pairs = [(example.text, example.second_text, *example.more_texts) for example in examples]
    if first.second_text is None:
        return [("texts", pairs)]
    num_firsts = len({text for text, *_ in pairs})
    has_repeats = num_firsts < len(set(pairs)) and num_firsts * share >= 1 and num_firsts * (1 - share) >= 1
    by_first = [("first texts", [text for text, *_ in pairs])] if has_repeats else []
    return [*by_first, ("examples" if first.more_texts else "pairs", pairs)]


def _group_questions(questions: Sequence[Question], share: float) -> tuple[str, list[Hashable]]:
    titles: dict[str, str] = {}
    for question in questions:
        titles.setdefault(question.context, question.title)
    num_articles = len(set(titles.values()))
    if "" not in titles.values() and num_articles * share >= 1:
        return "articles", [titles[question.context] for question in questions]
    return "contexts", [question.context for question in questions]


def _get_labels(example: TextExample | TaggedSentence | Question) -> frozenset[str]:
    """Return the labels of an example; none if they are numbers or answers."""
    if isinstance(example, TaggedSentence):
        return frozenset(example.tags)
    label = getattr(example, "label", None)
    if isinstance(label, str):
        return frozenset([label])
    return frozenset(label) if isinstance(label, list | tuple) else frozenset()


def _join_labels(indices: Iterable[int], labels: Sequence[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*(labels[index] for index in indices))


def _stratify(groups: Mapping[Hashable, list[int]], labels: Sequence[frozenset[str]]) -> dict[str, list[Hashable]]:
    """Return the keys of groups, keyed by their rarest label, or "" if they have none."""
    group_labels = {key: _join_labels(indices, labels) for key, indices in groups.items()}
    counts = collections.Counter(label for names in group_labels.values() for label in names)
    strata = collections.defaultdict(list)
    for key, names in group_labels.items():
        strata[min(names, key=lambda name: (counts[name], name), default="")].append(key)
    return strata


def _choose_groups(
    groups: Mapping[Hashable, list[int]], strata: Mapping[str, list[Hashable]], share: float, seed: int
) -> set[Hashable]:
    """Return the keys of the groups to hold out."""
    sizes = {name: sum(len(groups[key]) for key in keys) for name, keys in strata.items() if len(keys) > 1}
    total = sum(len(indices) for indices in groups.values())
    chosen = set()
    for name, target in _compute_targets(sizes, share, total, seed).items():
        keys = sorted(strata[name], key=lambda key: (_hash(seed, key), repr(key)))
        num_held_out, num_left = 0, len(keys) - 1
        for key in keys:
            missing = target - num_held_out
            if num_left and abs(missing - len(groups[key])) < abs(missing):  # closer to the target with this group
                chosen.add(key)
                num_held_out += len(groups[key])
                num_left -= 1
    divisible = [key for name in sizes for key in strata[name]]
    if not chosen and divisible:  # only large groups: hold out the smallest
        chosen.add(min(divisible, key=lambda key: (len(groups[key]), _hash(seed, key))))
    return chosen


def _compute_targets(sizes: Mapping[str, int], share: float, total: int, seed: int) -> dict[str, int]:
    """Return the number of examples to hold out of each class: the share, rounded so that the total is right."""
    targets = {name: min(int(size * share), size - 1) for name, size in sizes.items()}
    num_left = max(round(total * share), 1) - sum(targets.values())
    by_rounding = sorted(sizes, key=lambda name: (targets[name] - sizes[name] * share, _hash(seed, name)))
    for name in by_rounding[: max(num_left, 0)]:
        targets[name] = min(targets[name] + 1, sizes[name] - 1)
    return targets


def _keep_labels_in_training(
    chosen: set[Hashable], groups: Mapping[Hashable, list[int]], labels: Sequence[frozenset[str]]
) -> None:
    """Remove groups from `chosen` until every label remains in the training examples."""
    left = collections.Counter(
        name for key in groups if key not in chosen for name in _join_labels(groups[key], labels)
    )
    for key in sorted(chosen, key=repr):
        names = _join_labels(groups[key], labels)
        if any(not left[name] for name in names):
            chosen.remove(key)
            left.update(names)


def _hash(seed: int, key: Hashable) -> bytes:
    return hashlib.blake2b(f"{seed} {key!r}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
