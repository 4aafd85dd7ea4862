"""Entities are read from tags like in seqeval, and survive a round trip through tags."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from bert_keras.errors import InputError
from bert_keras.metrics.tag_schemes import Entity, detect_scheme, find_entities, to_iob2, write_tags

LABELS = ("PER", "LOC", "PER-LOC", "B", "O", "")
ANY_TAGS = st.lists(
    st.one_of(
        st.just("O"),
        st.sampled_from("BIES"),
        st.builds("{}-{}".format, st.sampled_from("BIES"), st.sampled_from(LABELS)),
    ),
    max_size=12,
)


@st.composite
def sentence_entities(draw, labels=("PER", "LOC", "PER-LOC", "_")):
    """Draw the ordered entities of a sentence and its number of words."""
    entities, end = [], 0
    for gap, length in draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=6)):
        entities.append(Entity(draw(st.sampled_from(labels)), end + gap, end + gap + length))
        end += gap + length
    return entities, end + draw(st.integers(0, 2))


def make_tags(entities, num_words, scheme) -> list[str]:
    """Return the tags of entities in a scheme, following its definition."""
    tags, ends = ["O"] * num_words, {}
    for label, start, end in entities:
        letters = ["B", *"I" * (end - start - 1)]
        if scheme == "IOB1" and ends.get(start) != label:
            letters[0] = "I"
        if scheme in ("IOBES", "BILOU"):
            letters[-1] = "E"
            letters = ["S"] if len(letters) == 1 else letters
        if scheme == "BILOU":
            letters = [{"E": "L", "S": "U"}.get(letter, letter) for letter in letters]
        tags[start:end] = [letter if label == "_" else f"{letter}-{label}" for letter in letters]
        ends = {end: label}
    return tags


def to_seqeval(entities) -> list[tuple[str, int, int]]:
    """Convert to the convention of seqeval, where the end is inclusive."""
    return [(label, start, end - 1) for label, start, end in entities]


@settings(max_examples=300, deadline=None)
@given(ANY_TAGS)
def test_entities_of_any_tags_equal_seqeval(tags):
    assert to_seqeval(find_entities(tags)) == get_entities(tags)


@pytest.mark.parametrize("scheme", ["IOB1", "IOB2", "IOBES", "BILOU"])
@settings(max_examples=60, deadline=None)
@given(sentence_entities())
def test_valid_tags_of_every_scheme_give_their_entities(scheme, drawn):
    entities, num_words = drawn
    assert find_entities(make_tags(entities, num_words, scheme)) == entities


@settings(max_examples=100, deadline=None)
@given(ANY_TAGS, st.randoms(use_true_random=False))
def test_l_and_u_are_synonyms_of_e_and_s(tags, random):
    spelled = [{"E": "L", "S": "U"}.get(tag[0], tag[0]) + tag[1:] if random.random() < 0.5 else tag for tag in tags]
    assert find_entities(spelled) == find_entities(tags)


@pytest.mark.parametrize(
    ("tags", "entities"),
    [
        (["O", "I-X", "I-X", "O", "I-Y"], [("X", 1, 3), ("Y", 4, 5)]),  # invalid in IOB2
        (["B-X", "I-Y"], [("X", 0, 1), ("Y", 1, 2)]),
        (["B-PER-LOC", "I-PER-LOC", "I-PER"], [("PER-LOC", 0, 2), ("PER", 2, 3)]),
        (["B", "I", "O", "B", "B"], [("_", 0, 2), ("_", 3, 4), ("_", 4, 5)]),
        (["U-X", "U-X", "B-X", "L-X"], [("X", 0, 1), ("X", 1, 2), ("X", 2, 4)]),
        (["E-X", "E-X", "I-X"], [("X", 0, 1), ("X", 1, 2), ("X", 2, 3)]),
        ([], []),
    ],
)
def test_hand_computed_entities(tags, entities):
    assert find_entities(tags) == entities


@pytest.mark.parametrize("tag", ["NOUN", "X", "BPER", "b-PER", "O-PER", "O-", "", "M-PER", "B_PER", "INTJ"])
def test_invalid_entity_tag_is_an_error(tag):
    with pytest.raises(InputError, match=rf"^the tag of word 1 is {tag!r}; expected O, or .* such as B-PER"):
        find_entities(["O", tag])


@settings(max_examples=100, deadline=None)
@given(sentence_entities(), st.randoms(use_true_random=False))
def test_written_entities_survive_a_round_trip_in_any_order(drawn, random):
    entities, num_words = drawn
    tags = write_tags(random.sample(entities, len(entities)), num_words)
    assert tags == make_tags(entities, num_words, "IOB2")
    assert find_entities(tags) == entities


@pytest.mark.parametrize(
    ("entities", "message"),
    [
        ([Entity("X", 1, 4)], r"Entity\(label='X', start=1, end=4\) is not in a sentence of 3 words"),
        ([Entity("X", -1, 1)], r"is not in a sentence"),
        ([Entity("X", 1, 1)], r"is not in a sentence of 3 words; expected 0 <= start < end"),
        ([Entity("Y", 1, 3), Entity("X", 0, 2)], r"label='X', .* overlaps another entity"),
        ([Entity("X", 0, 2), Entity("Y", 1, 3)], r"label='Y', .* overlaps another entity"),
    ],
)
def test_invalid_entities_are_errors(entities, message):
    with pytest.raises(InputError, match=message):
        write_tags(entities, 3)


@pytest.mark.parametrize("scheme", ["IOB1", "IOB2", "IOBES"])
@settings(max_examples=60, deadline=None)
@given(sentence_entities())
def test_tags_of_every_scheme_are_converted_to_iob2(scheme, drawn):
    entities, num_words = drawn
    assert to_iob2(make_tags(entities, num_words, scheme), scheme) == make_tags(entities, num_words, "IOB2")


def test_tags_without_a_scheme_are_unchanged_and_an_unknown_scheme_is_an_error():
    assert to_iob2(("NOUN", "X"), "none") == ["NOUN", "X"]
    with pytest.raises(InputError, match=r"the scheme is 'iob2'; expected one of IOB1, IOB2, IOBES, none"):
        to_iob2(["O"], "iob2")


@settings(max_examples=100, deadline=None)
@given(st.lists(sentence_entities(), max_size=6))
def test_scheme_of_a_corpus_is_detected(sentences):
    corpora = {
        scheme: [make_tags(*sentence, scheme) for sentence in sentences]
        for scheme in ("IOB1", "IOB2", "IOBES", "BILOU")
    }
    tags = {tag for sentence in corpora["IOB2"] for tag in sentence}
    if not tags:
        assert detect_scheme(corpora["IOB2"]) == "none"
    elif tags == {"O"}:
        assert detect_scheme(corpora["IOB2"]) == "IOB2"
    else:
        assert detect_scheme(corpora["IOB1"]) == "IOB1"
        assert detect_scheme(corpora["IOB2"]) == "IOB2"
        assert {"E", "S"} & {tag[0] for sentence in corpora["IOBES"] for tag in sentence}
        assert detect_scheme(corpora["IOBES"]) == detect_scheme(iter(corpora["BILOU"])) == "IOBES"


@pytest.mark.parametrize(
    ("sentences", "scheme"),
    [
        (["DET NOUN VERB".split(), "X INTJ ADJ".split()], "none"),
        (["X X".split()], "none"),
        (["B-PER O".split(), "I-PER NOUN".split()], "none"),
        (["B-PER I-PER".split(), "BPER".split()], "none"),
        ([], "none"),
        ([[], []], "none"),
        (["O O".split()], "IOB2"),
        (["B-PER-LOC I-PER-LOC O".split()], "IOB2"),
        (["I-PER-LOC I-PER-LOC O I-PER B-PER".split()], "IOB1"),
        (["I-PER I-LOC O".split()], "IOB1"),
        (["O I O B".split(), ["B"]], "IOB2"),
        (["B-X O B-X I-X O I-Y O".split()], "IOB2"),  # IOB2 with one invalid tag
        (["I-X O I-X I-X O B-Y O".split()], "IOB1"),  # IOB1 with one invalid tag
        (["I-X".split(), "B-X".split()], "IOB2"),  # an entity does not continue in the next sentence
        (["B-X I-X O S-Y".split()], "IOBES"),
        (["B I O U".split()], "IOBES"),
    ],
)
def test_hand_computed_schemes(sentences, scheme):
    assert detect_scheme(sentences) == scheme
