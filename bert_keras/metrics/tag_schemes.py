"""Entities from the tags of words, and back: IOB1, IOB2, IOBES (also spelled BILOU).

A tag is `O`, outside of entities, or a letter and a label, `B-PER`. In IOB2 every entity begins with B and goes on
with I. In IOB1 it begins with I, unless an entity of the same label ends right before it. In IOBES it ends with E,
and S is an entity of one word; BILOU writes L and U for them.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bert_keras.errors import InputError

SCHEMES = ("IOB1", "IOB2", "IOBES", "none")
NO_LABEL = "_"  # the label of tags that are a bare letter, in seqeval's spelling
_LETTERS = {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S"}


class Entity(NamedTuple):
    """A labelled run of words.

    Attributes:
        label: what it is, as "PER".
        start: its first word, counted from 0.
        end: the word after its last.
    """

    label: str
    start: int
    end: int


def find_entities(tags: Sequence[str]) -> list[Entity]:
    """Reads the entities of one sentence, leniently as `conlleval` and seqeval do.

    A word goes on with the entity of the word before it if its letter is I or E, that word's is B or I, and
    the labels are equal; any other word begins an entity of its own. So one function reads all the schemes, and also
    wrong tags: an I after O begins an entity.

    The entities are those of seqeval's `get_entities`, which knows no L and U: these are read here as E and S.

    Args:
        tags: a tag a word. The label is all that follows the first hyphen.

    Returns:
        The entities in the order of their words.

    Raises:
        InputError: a tag is not of the form that this module tells.

    Example:
        >>> find_entities(["B-PER", "I-PER", "O", "B-LOC"])
        [Entity(label='PER', start=0, end=2), Entity(label='LOC', start=3, end=4)]
    """
    entities: list[Entity] = []
    goes_on = ""  # the label of an entity that the next word may go on with
    for place, tag in enumerate(tags):
        letter, label = _split(tag, place)
        if letter in ("I", "E") and goes_on == label:
            entities[-1] = entities[-1]._replace(end=place + 1)
        elif letter != "O":
            entities.append(Entity(label, place, place + 1))
        goes_on = label if letter in ("B", "I") else ""
    return entities


def write_tags(entities: Iterable[Entity], num_words: int) -> list[str]:
    """Writes the entities of one sentence as IOB2 tags.

    Args:
        entities: in any order.
        num_words: words of the sentence.

    Returns:
        `num_words` tags. An entity with the label `NO_LABEL` gets the bare letters.

    Raises:
        InputError: an entity is empty, lies outside of the sentence, or shares a word with another one.

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
            raise InputError(f"{entity} shares a word with another entity; expected one at most: leave out one of them")
        ending = "" if label == NO_LABEL else f"-{label}"
        tags[start:end] = [f"B{ending}", *[f"I{ending}"] * (end - start - 1)]
    return tags


def to_iob2(tags: Sequence[str], scheme: str) -> list[str]:
    """Writes the tags of one sentence in IOB2.

    Args:
        tags: a tag a word.
        scheme: what `detect_scheme` tells of the whole corpus; tags of "none" stay as they are.

    Raises:
        InputError: there is no such scheme, or a tag is none of it.

    Example:
        >>> to_iob2(["I-PER", "I-PER", "B-PER"], "IOB1")
        ['B-PER', 'I-PER', 'B-PER']
    """
    if scheme not in SCHEMES:
        raise InputError(f"the scheme is {scheme!r}; expected one of {', '.join(SCHEMES)}")
    return list(tags) if scheme == "none" else write_tags(find_entities(tags), len(tags))


def detect_scheme(tags_of_sentences: Iterable[Sequence[str]]) -> str:
    """Tells the scheme of a corpus.

    Args:
        tags_of_sentences: the tags of each sentence.

    Returns:
        "none": some tag is not of the form that this module tells, as parts of speech are, or there is no tag.
        "IOBES": some tag has one of the letters E, S, L, U.
        "IOB1": more entities begin with an I than with a B that IOB1 would not write (a few wrong tags of either
            scheme do no harm); a corpus that knows O and I only is such a one.
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
            follows_its_like = before[0] != "O" and before[1] == label
            num_i_starts += letter == "I" and not follows_its_like
            num_free_b_starts += letter == "B" and not follows_its_like
            letters.add(letter)
            before = now
    if not letters:
        return "none"
    if letters & {"E", "S"}:
        return "IOBES"
    return "IOB1" if num_i_starts > num_free_b_starts else "IOB2"


def is_entity_tag(tag: str) -> bool:
    """Returns whether a tag is of the form that this module tells."""
    return tag == "O" or (tag[:1] in _LETTERS and tag[1:2] in ("", "-"))


def get_entity_label(tag: str) -> str:
    """Returns the label of a tag, whatever its letter; of "O" itself.

    Raises:
        InputError: the tag is not of the form that this module tells.

    Example:
        >>> get_entity_label("B-PER"), get_entity_label("O")
        ('PER', 'O')
    """
    letter, label = _split(tag, 0)
    return "O" if letter == "O" else label


def _split(tag: str, place: int) -> tuple[str, str]:
    """Returns the letter of a tag, one of O, B, I, E, S, and its label."""
    if tag == "O":
        return "O", NO_LABEL
    if not is_entity_tag(tag):
        raise InputError(
            f"the tag of word {place} is {tag!r}; expected O, or one of the letters {', '.join(_LETTERS)}, a hyphen "
            "and a label, such as B-PER: tags of another kind have no entities"
        )
    return _LETTERS[tag[0]], tag[2:] or NO_LABEL
