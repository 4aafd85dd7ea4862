"""The Unicode table of the package agrees with the Unicode Character Database."""

import gzip
import unicodedata

import numpy as np
import pytest

from bert_keras.pipelines.text.text_rules import NUM_CODE_POINTS, UNICODE_VERSION, unicode_table
from tests.shared_data import shared

from .google_reference import TABLE_PATH, changed_characters, select_comparable
from .make_unicode_table import table_lines

needs_our_unicode_version = pytest.mark.skipif(
    unicodedata.unidata_version != UNICODE_VERSION,
    reason=f"this Python has Unicode {unicodedata.unidata_version}, the table is of {UNICODE_VERSION}",
)


@pytest.mark.slow  # the next tests compare the values of the table
@needs_our_unicode_version
def test_the_table_equals_the_output_of_its_script():
    assert TABLE_PATH.read_bytes() == ("\n".join(table_lines()) + "\n").encode("ascii")


@needs_our_unicode_version
def test_the_table_agrees_with_python():
    """The script and the reader could have the same bug, so every code point is compared with Python."""
    table = unicode_table()
    characters = [*map(chr, range(NUM_CODE_POINTS))]
    categories = np.array([*map(unicodedata.category, characters)])
    assert (table.space == np.isin(categories, ["Zs", "Zl", "Zp"])).all()
    assert (table.control == np.isin(categories, ["Cc", "Cf"])).all()
    assert (table.mark == (categories == "Mn")).all()
    assert (table.punctuation == np.strings.startswith(categories, "P")).all()
    assert (table.combining_class == [*map(unicodedata.combining, characters)]).all()
    for code, character in enumerate(characters):
        decomposed = "".join(map(chr, table.decompose(code)))
        assert decomposed == unicodedata.normalize("NFD", character)
        assert "".join(map(chr, table.lower.get(code, (code,)))) == character.lower()


# (code point, property) changed by Unicode 13 and 14, without new characters
CHANGED_SINCE_12 = {(0x1734, "mark"), (0x166D, "punctuation"), (0x30FB, "punctuation")}


def test_the_table_agrees_with_the_files_of_the_unicode_consortium():
    """The files of Unicode 12.0.0, which do not depend on Python."""
    table = unicode_table()
    sets = {"space": ("Zs", "Zl", "Zp"), "control": ("Cc", "Cf"), "mark": ("Mn",), "punctuation": "P"}
    differences, num_codes = set(), 0
    for code, category, combining_class in code_points_of_version_12():
        num_codes += 1
        for name, categories in sets.items():
            belongs = category in categories or category[0] in categories
            if bool(getattr(table, name)[code]) != belongs:
                differences.add((code, name))
        if table.combining_class[code] != combining_class:
            differences.add((code, "combining_class"))
    assert num_codes > 270_000
    assert differences <= CHANGED_SINCE_12, {(hex(code), name) for code, name in differences}


def code_points_of_version_12():
    with gzip.open(shared("unicode/UnicodeData.txt.gz"), "rt", encoding="ascii") as lines:
        first = None
        for line in lines:
            code, name, category, combining_class = line.split(";")[:4]
            if name.endswith("First>"):
                first = int(code, 16)
                continue
            for each in range(first if name.endswith("Last>") else int(code, 16), int(code, 16) + 1):
                if category != "Cs":
                    yield each, category, int(combining_class)


def test_the_reference_skips_characters_that_differ_between_unicode_versions():
    old = ["mark\t0300-0302 0345", "lower\t0041\t0061", "decomposition\t00C0\t0041 0300", "combining_class 230\t0300"]
    new = ["mark\t0300-0301 0345", "lower\t0041\t0061", "decomposition\t00C0\t0041 0300", "combining_class 1\t0300"]
    assert changed_characters(old, new) == {"\u0302", "\u0300", "\u00c0"}
    assert changed_characters(old, old) == frozenset()


@needs_our_unicode_version
def test_the_reference_covers_every_text_if_the_versions_are_equal():
    texts = ["a", "\u0302", "\U0001fae0", b"\xff"]
    assert select_comparable(texts) == texts


def test_arrays_have_the_size_of_unicode_and_no_surrogates():
    table = unicode_table()
    for name in ("space", "control", "mark", "punctuation", "cased", "case_ignorable", "combining_class"):
        values = getattr(table, name)
        assert values.shape == (NUM_CODE_POINTS,)
        assert not values[0xD800:0xE000].any()
    assert table.combining_class.dtype == np.uint8
