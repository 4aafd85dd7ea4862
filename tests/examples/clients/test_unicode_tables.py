"""The Unicode tables of the clients in `examples/` are those of the package."""

import importlib.util

import numpy as np
import pytest

from bert_keras.pipelines.text.text_rules import NUM_CODE_POINTS, TextRules, unicode_table

from .python_client import EXAMPLES, bert_client


def _import_generator():
    spec = importlib.util.spec_from_file_location("make_unicode_tables", EXAMPLES / "make_unicode_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generator = _import_generator()


@pytest.fixture(scope="module")
def tables():
    return bert_client.read_unicode()


@pytest.mark.parametrize("output", generator.OUTPUTS, ids=lambda output: output.path.split("/")[0])
def test_files_are_up_to_date(output):
    expected = output.write(generator.make_lines())
    assert (EXAMPLES / output.path).read_text("utf-8") == expected, "run python examples/make_unicode_tables.py"


def mask(codes):
    members = np.zeros(NUM_CODE_POINTS, bool)
    members[[*codes]] = True
    return members


def test_sets_are_those_of_the_text_rules(tables):
    unicode, rules, without_chinese = unicode_table(), TextRules(), TextRules(tokenize_chinese_chars=False)
    np.testing.assert_array_equal(mask(tables.space), rules.spaces())
    np.testing.assert_array_equal(mask(tables.dropped), rules.dropped())
    np.testing.assert_array_equal(mask(tables.single), without_chinese.single_words())
    np.testing.assert_array_equal(mask(tables.single | tables.chinese), rules.single_words())
    np.testing.assert_array_equal(mask(tables.mark), unicode.mark)
    np.testing.assert_array_equal(mask(tables.cased), unicode.cased)
    np.testing.assert_array_equal(mask(tables.ignorable), unicode.case_ignorable)


def test_marks_that_are_not_stripped_are_ranked_by_their_class(tables):
    unicode = unicode_table()
    classes = np.where(unicode.mark, 0, unicode.combining_class)
    np.testing.assert_array_equal(mask(tables.ranks), classes > 0)
    by_rank = sorted(tables.ranks, key=lambda code: tables.ranks[code])
    assert (np.diff([int(classes[code]) for code in by_rank]) >= 0).all()
    assert len({*tables.ranks.values()}) == len({*classes.tolist()} - {0})


def test_maps_are_those_of_the_text_rules(tables):
    unicode = unicode_table()
    for rules in (TextRules(), TextRules(lowercase=False, strip_accents=True), TextRules(strip_accents=False)):
        changes = rules.changes()
        for code in range(NUM_CODE_POINTS):
            lowered = tables.lower.get(code, (code,)) if rules.lowercase else (code,)
            if rules.strip_accents:
                lowered = [part for one in lowered if one not in tables.mark for part in tables.strip(one)]
                expected = [part for part in changes.get(code, (code,)) if not unicode.mark[part]]
            else:
                expected = changes.get(code, (code,))
            assert [*lowered] == [*expected], hex(code)
