"""A share of the training examples is held out to score on: each class in proportion, equal texts on one side."""

import collections
import dataclasses
import hashlib
import numbers
from collections.abc import Hashable, Iterable, Mapping, Sequence

from bert_keras.checks import format_count, format_names, quote
from bert_keras.errors import InputError
from bert_keras.pipelines.readers.questions import Question
from bert_keras.pipelines.readers.words.tagged_sentences import TaggedSentence
from bert_keras.tasks.examples.option_checks import DEV_SHARE
from bert_keras.tasks.text_classification import TextExample


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """What was held out, and how.

    Attributes:
        share: the share that was asked for.
        seed: decides, together with an example, whether it is held out.
        unit: what stays whole, in the plural: "texts", "first texts" or "pairs", "sentences", "contexts" or "articles".
        of_classes: whether each class is held out in proportion.
    """

    share: float
    seed: int
    unit: str
    of_classes: bool

    def describe(self) -> str:
        """Return it in words."""
        each = ", each class in proportion" if self.of_classes else ""
        return f"{self.share:.3g} of the {self.unit} held out with seed {self.seed}{each}"

    def settings(self) -> dict[str, object]:
        """Return it as plain values."""
        return dataclasses.asdict(self)


def check_dev_share(share: float) -> float:
    """Return the share of the examples that is held out.

    Raises:
        InputError: it is no share.
    """
    if isinstance(share, bool) or not isinstance(share, numbers.Real) or not 0 < share < 1:
        raise InputError(
            f"the share that is held out is {quote(share)}; expected a number between 0 and 1, such as 0.1"
        )
    return share


def hold_out(
    examples: Sequence, source: object, *, share: float = DEV_SHARE, seed: int = 0
) -> tuple[list, list, HeldOut]:
    """Divide labelled examples into those to learn from and those to score on.

    Examples of one text stay together. Of pairs, those of one first text do, where first texts repeat (one premise
    with several hypotheses); equal pairs, where there are too few first texts. Of questions, those of one article do,
    or of one context. A text may still be on both sides as the second one of a pair. Of each class the share is held
    out that gives the whole the right size, but never all of a class; a text with several labels, or a sentence with
    several tags, counts for the rarest of them. Which examples of a class go is decided by a hash of the seed and the
    text, so it depends neither on their order nor on the machine.

    Args:
        examples: `TextExample`, `TaggedSentence` or `Question`, one or more.
        source: what messages call them.
        share: how many, from 0 to 1.
        seed: gives another choice.

    Returns:
        The examples to learn from and the held-out ones, each in their order, and how it was done.

    Raises:
        InputError: there are too few.
    """
    check_dev_share(share)
    labels = [_labels(example) for example in examples]
    for choice in _keys(examples, share):
        unit, keys = choice
        units = collections.defaultdict(list)
        for index, key in enumerate(keys):
            units[key].append(index)
        strata = _strata(units, labels)
        chosen = _chosen(units, strata, share, seed)
        _give_back(chosen, units, labels)
        if chosen:
            break
    else:
        raise InputError(_too_few(examples, source, unit, len(units)))
    held_out = {index for key in chosen for index in units[key]}
    train = [example for index, example in enumerate(examples) if index not in held_out]
    dev = [example for index, example in enumerate(examples) if index in held_out]
    return train, dev, HeldOut(share, seed, unit, any(labels))


def _too_few(examples: Sequence, source: object, unit: str, num_units: int) -> str:
    """Return why nothing can be held out, and what to do."""
    labels = [getattr(example, "label", None) for example in examples]
    classes = list(dict.fromkeys(label for label in labels if isinstance(label, str)))
    if len(classes) >= num_units > 1:
        return (
            f"{source}: each of the {num_units:,} {unit} has a class of its own ({format_names(classes)}); expected "
            f"two {unit} of a class or more: name the column of classes with --label-column, learn numbers with "
            "--problem regression, or name held-out examples with --dev"
        )
    found = f"{format_count(len(examples), 'example')} of {format_count(num_units, unit.removesuffix('s'))}"
    return (
        f"{source} has {found}, too few to hold some out; expected two {unit} or more, and not each in a class of its "
        "own: name held-out examples with --dev"
    )


def _keys(examples: Sequence, share: float) -> list[tuple[str, list[Hashable]]]:
    """Return what may be held out whole, in words, and what tells it for each example; the best first."""
    first = examples[0]
    if isinstance(first, TaggedSentence):
        return [("sentences", [example.words for example in examples])]
    if isinstance(first, Question):
        return [_keys_of_questions(examples, share)]
    pairs = [(example.text, example.second_text) for example in examples]
    if first.second_text is None:
        return [("texts", pairs)]
    num_firsts = len({text for text, _ in pairs})
    is_by_first = num_firsts < len(set(pairs)) and num_firsts * share >= 1 and num_firsts * (1 - share) >= 1
    by_first = [("first texts", [text for text, _ in pairs])] if is_by_first else []
    return [*by_first, ("pairs", pairs)]


def _keys_of_questions(questions: Sequence[Question], share: float) -> tuple[str, list[Hashable]]:
    titles: dict[str, str] = {}
    for question in questions:
        titles.setdefault(question.context, question.title)
    num_articles = len(set(titles.values()))
    if "" not in titles.values() and num_articles * share >= 1:
        return "articles", [titles[question.context] for question in questions]
    return "contexts", [question.context for question in questions]


def _labels(example: TextExample | TaggedSentence | Question) -> frozenset[str]:
    """Return the labels of an example; none where they are numbers or answers."""
    if isinstance(example, TaggedSentence):
        return frozenset(example.tags)
    label = getattr(example, "label", None)
    if isinstance(label, str):
        return frozenset([label])
    return frozenset(label) if isinstance(label, list | tuple) else frozenset()


def _strata(units: Mapping[Hashable, list[int]], labels: Sequence[frozenset[str]]) -> dict[str, list[Hashable]]:
    """Return the units by the rarest of their labels; "" are those that have none."""
    of_units = {key: frozenset().union(*(labels[index] for index in indices)) for key, indices in units.items()}
    counts = collections.Counter(label for names in of_units.values() for label in names)
    strata = collections.defaultdict(list)
    for key, names in of_units.items():
        strata[min(names, key=lambda name: (counts[name], name), default="")].append(key)
    return strata


def _chosen(
    units: Mapping[Hashable, list[int]], strata: Mapping[str, list[Hashable]], share: float, seed: int
) -> set[Hashable]:
    """Return the units to hold out."""
    sizes = {name: sum(len(units[key]) for key in keys) for name, keys in strata.items() if len(keys) > 1}
    total = sum(len(indices) for indices in units.values())
    chosen = set()
    for name, target in _targets(sizes, share, total, seed).items():
        keys = sorted(strata[name], key=lambda key: (_hash(seed, key), repr(key)))
        num_held_out, most = 0, len(keys) - 1
        for key in keys:
            missing = target - num_held_out
            if most and abs(missing - len(units[key])) < abs(missing):  # nearer with it than without
                chosen.add(key)
                num_held_out += len(units[key])
                most -= 1
    divisible = [key for name in sizes for key in strata[name]]
    if not chosen and divisible:  # a few large units: one is the least
        chosen.add(min(divisible, key=lambda key: (len(units[key]), _hash(seed, key))))
    return chosen


def _targets(sizes: Mapping[str, int], share: float, total: int, seed: int) -> dict[str, int]:
    """Return how many examples of each class are held out: the share, rounded so that the sum is right."""
    targets = {name: min(int(size * share), size - 1) for name, size in sizes.items()}
    left = max(round(total * share), 1) - sum(targets.values())
    by_need = sorted(sizes, key=lambda name: (targets[name] - sizes[name] * share, _hash(seed, name)))
    for name in by_need[: max(left, 0)]:
        targets[name] = min(targets[name] + 1, sizes[name] - 1)
    return targets


def _give_back(chosen: set[Hashable], units: Mapping[Hashable, list[int]], labels: Sequence[frozenset[str]]) -> None:
    """Take units out of `chosen` until every label is left to learn from."""
    left = collections.Counter(name for key in units if key not in chosen for name in _names(units[key], labels))
    for key in sorted(chosen, key=repr):
        names = _names(units[key], labels)
        if any(not left[name] for name in names):
            chosen.remove(key)
            left.update(names)


def _names(indices: Iterable[int], labels: Sequence[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*(labels[index] for index in indices))


def _hash(seed: int, key: Hashable) -> bytes:
    return hashlib.blake2b(f"{seed} {key!r}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
