"""Conversion between tags of words and entities, IOB1, IOB2 and IOBES (or BILOU); scores of entities.

A tag is `O` (outside of entities), or a letter and a label such as `B-PER`. In IOB2 every entity begins with B and
continues with I. In IOB1 it begins with I, except directly after an entity with the same label. In IOBES it ends with
E, and S is an entity of one word; BILOU uses L and U instead.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bert_keras.errors import InputError
from bert_keras.metrics.classes import check_counts

SCHEMES = ("IOB1", "IOB2", "IOBES", "none")
NO_LABEL = "_"  # label of tags that are a single letter, as in seqeval
_LETTERS = {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S"}


def entity_scores(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """Compute precision, recall and F1 over the entities of all labels.

    Args:
        truth: the true tags of each sentence, in a scheme that `find_entities` accepts.
        predicted: the predicted tags of each sentence.

    Returns:
        `precision`: the share of predicted entities that are correct; `recall`: the share of true entities that are
        predicted; `f1`: their harmonic mean. Each is 0 if its denominator is 0.

    Raises:
        InputError: the numbers of sentences or tags differ, a tag is not an entity tag, or there are no sentences.

    Example:
        >>> entity_scores([["B-PER", "O", "B-LOC"]], [["B-PER", "O", "O"]])["recall"]
        0.5
    """
    check_counts(len(truth), len(predicted), what="sentences")
    num_correct = num_predicted = num_true = 0
    for number, (true_tags, predicted_tags) in enumerate(zip(truth, predicted, strict=True)):
        if len(true_tags) != len(predicted_tags):
            raise InputError(
                f"sentence {number} has {len(true_tags)} words and {len(predicted_tags)} predicted tags; expected one "
                "tag per word: use O for words that the model did not see"
            )
        true_entities, predicted_entities = set(find_entities(true_tags)), set(find_entities(predicted_tags))
        num_correct += len(true_entities & predicted_entities)
        num_predicted += len(predicted_entities)
        num_true += len(true_entities)
    return {
        "precision": num_correct / num_predicted if num_predicted else 0.0,
        "recall": num_correct / num_true if num_true else 0.0,
        "f1": 2 * num_correct / (num_predicted + num_true) if num_predicted + num_true else 0.0,
    }


class Entity(NamedTuple):
    """A labelled run of words.

    Attributes:
        label: its label, such as "PER".
        start: index of its first word.
        end: index after its last word.
    """

    label: str
    start: int
    end: int


def find_entities(tags: Sequence[str]) -> list[Entity]:
    """Return the entities of one sentence, with the leniency of `conlleval` and seqeval.

    A word continues the entity of the previous word if its letter is I or E, that of the previous word is B or I, and
    the labels are equal; any other word begins a new entity. This rule covers all schemes and also invalid tags: an I
    after O begins an entity. The result equals that of seqeval's `get_entities`, which does not support L and U (here E
    and S).

    Args:
        tags: one tag per word; the label is all text after the first hyphen.

    Returns:
        The entities in the order of their words.

    Raises:
        InputError: a tag is not `O` or a letter with a label.

    Example:
        >>> find_entities(["B-PER", "I-PER", "O", "B-LOC"])
        [Entity(label='PER', start=0, end=2), Entity(label='LOC', start=3, end=4)]
    """
    entities: list[Entity] = []
    open_label = ""  # label of the entity that the next word may continue
    for place, tag in enumerate(tags):
        letter, label = _split(tag, place)
        if letter in ("I", "E") and open_label == label:
            entities[-1] = entities[-1]._replace(end=place + 1)
        elif letter != "O":
            entities.append(Entity(label, place, place + 1))
        open_label = label if letter in ("B", "I") else ""
    return entities


def write_tags(entities: Iterable[Entity], num_words: int) -> list[str]:
    """Return the IOB2 tags of the entities of one sentence.

    Args:
        entities: in any order.
        num_words: number of words of the sentence.

    Returns:
        `num_words` tags; those of an entity with the label `NO_LABEL` are single letters.

    Raises:
        InputError: an entity is empty, is outside of the sentence, or overlaps another one.

    Example:
        >>> write_tags([Entity("PER", 0, 2)], 3)
        ['B-PER', 'I-PER', 'O']
    """
    tags = ["O"] * num_words
    for entity in entities:
        label, start, end = entity
        if not 0 <= start < end <= num_words:
            raise InputError(f"{entity} is not in a sentence of {num_words} words; expected 0 <= start < end <= words")
        if any(tag != "O" for tag in tags[start:end]):
            raise InputError(f"{entity} overlaps another entity; expected one entity per word: remove one of them")
        ending = "" if label == NO_LABEL else f"-{label}"
        tags[start:end] = [f"B{ending}", *[f"I{ending}"] * (end - start - 1)]
    return tags


def to_iob2(tags: Sequence[str], scheme: str) -> list[str]:
    """Convert the tags of one sentence to IOB2.

    Args:
        tags: one tag per word.
        scheme: the scheme of the corpus, see `detect_scheme`; tags of "none" are returned unchanged.

    Raises:
        InputError: the scheme is unknown, or a tag is not an entity tag.

    Example:
        >>> to_iob2(["I-PER", "I-PER", "B-PER"], "IOB1")
        ['B-PER', 'I-PER', 'B-PER']
    """
    if scheme not in SCHEMES:
        raise InputError(f"the scheme is {scheme!r}; expected one of {', '.join(SCHEMES)}")
    return list(tags) if scheme == "none" else write_tags(find_entities(tags), len(tags))


def detect_scheme(tags_of_sentences: Iterable[Sequence[str]]) -> str:
    """Detect the scheme of a corpus.

    Args:
        tags_of_sentences: the tags of each sentence.

    Returns:
        "none": a tag is not an entity tag, such as a part of speech, or there are no tags.
        "IOBES": a tag has the letter E, S, L or U.
        "IOB1": more entities begin with I than with a B that IOB1 does not use, so that a few wrong tags do not
            matter; for example if all tags are O or I.
        "IOB2": otherwise.

    Example:
        >>> detect_scheme([["DET", "NOUN"]])
        'none'
    """
    letters, num_i_starts, num_free_b_starts = set(), 0, 0
    for tags in tags_of_sentences:
        before = ("O", NO_LABEL)
        for tag in tags:
            if not is_entity_tag(tag):
                return "none"
            now = letter, label = _split(tag, 0)
            continues = before[0] != "O" and before[1] == label
            num_i_starts += letter == "I" and not continues
            num_free_b_starts += letter == "B" and not continues
            letters.add(letter)
            before = now
    if not letters:
        return "none"
    if letters & {"E", "S"}:
        return "IOBES"
    return "IOB1" if num_i_starts > num_free_b_starts else "IOB2"


def is_entity_tag(tag: str) -> bool:
    """Return whether a tag is `O`, or a letter of a scheme, optionally with a label."""
    return tag == "O" or (tag[:1] in _LETTERS and tag[1:2] in ("", "-"))


def get_entity_label(tag: str) -> str:
    """Return the label of a tag without its letter; "O" for "O".

    Raises:
        InputError: the tag is not `O` or a letter with a label.

    Example:
        >>> get_entity_label("B-PER"), get_entity_label("O")
        ('PER', 'O')
    """
    letter, label = _split(tag, 0)
    return "O" if letter == "O" else label


def _split(tag: str, place: int) -> tuple[str, str]:
    """Return the letter of a tag (O, B, I, E or S) and its label."""
    if tag == "O":
        return "O", NO_LABEL
    if not is_entity_tag(tag):
        raise InputError(
            f"the tag of word {place} is {tag!r}; expected O, or one of the letters {', '.join(_LETTERS)}, a hyphen "
            "and a label, such as B-PER: other tags have no entities"
        )
    return _LETTERS[tag[0]], tag[2:] or NO_LABEL
