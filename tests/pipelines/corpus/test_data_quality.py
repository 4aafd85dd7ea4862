"""Good data gives no warning; each statistic beyond its limit gives one sentence with the fix."""

import re

import pytest

from bert_keras.pipelines.corpus.data_quality import (
    compute_dotless_share,
    compute_unreachable_share,
    find_records_warnings,
    find_vocabulary_warnings,
    format_percent,
    measure_stripped_characters,
)

FACTS = {
    "vocabulary_size": 7300,
    "vocabulary_size_asked": 8000,
    "min_frequency": 2,
    "alphabet_size": 1000,
    "alphabet_needed": 2100,
    "size_needed": 4305,
    "alphabet_coverage": 0.9991,
    "long_word_share": 0.004,
    "lowercase": True,
    "dotless_share": 0.001,
    "stripped_share": 0.004,
    "stripped_scripts": {"Latin": 0.004},
    "hangul_share": 0.004,
}
QUALITY = {
    "unknown_token_share": 0.049,
    "alphabet_coverage": 0.9991,
    "long_word_share": 0.004,
    "unreachable_token_share": 0.009,
    "random_next_share": 0.59,
}
MANIFEST = {"lowercase": True, "num_examples": 100, "num_sentences": 300, "num_documents": 100, "quality": QUALITY}


def test_data_within_the_limits_has_no_warnings():
    assert not list(find_vocabulary_warnings(FACTS))
    assert not list(find_records_warnings(MANIFEST))
    assert not list(find_records_warnings({"num_examples": 5}))  # records of version 0.1
    quality = {name: share for name, share in QUALITY.items() if name != "long_word_share"}
    assert not list(find_records_warnings(MANIFEST | {"quality": quality}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"vocabulary_size": 1638},
            r"gave 1,638 of the 8,000 tokens .* --size 1638 --alphabet 1000, or lower --min-frequency \(2\)$",
        ),
        ({"vocabulary_size": 1638, "min_frequency": 1}, r"ask for --size 1638 --alphabet 1000$"),
        (
            {"alphabet_coverage": 0.9989},
            r"1,000 characters covers 99\.9% of the text, .*becomes \[UNK\]: pass --alphabet 2100$",
        ),
        (
            {"alphabet_coverage": 0.9, "vocabulary_size_asked": 4000, "vocabulary_size": 4000},
            "--alphabet 2100 --size 4305$",
        ),
        (
            {"stripped_share": 0.21, "stripped_scripts": {"Thai": 0.209}},
            r"changes 21\.0% of the text's characters \(Thai 20\.9%\), .*: pass --no-strip-accents or --cased",
        ),
        ({"stripped_share": 0.21, "lowercase": False}, r"become one: pass --no-strip-accents \(docs"),
        ({"hangul_share": 0.9}, r"90\.0% .* Hangul syllables, .* letters: pass --no-strip-accents or --cased"),
        ({"long_word_share": 0.1}, r"10\.0% .* in words of more than 100 characters, which become \[UNK\]: put spaces"),
        ({"dotless_share": 0.045}, r"4\.5% of the text's characters are Turkish .*: pass --cased"),
    ],
)
def test_each_limit_of_a_vocabulary_has_a_warning_with_a_fix(changes, message):
    [warning] = find_vocabulary_warnings(FACTS | changes)
    assert re.search(message, warning)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unknown_token_share": 0.9}, r"90\.0% of the text's tokens are \[UNK\].*: learn one .*learn-vocab"),
        ({"unknown_token_share": 0.9, "alphabet_coverage": 0.5}, r"90\.0% of the text's tokens are \[UNK\]"),
        (
            {"long_word_share": 0.4},
            r"40\.0% .* in words too long for the tokenizer .*\[UNK\]: put spaces between",
        ),
        ({"long_word_share": 0.99, "unknown_token_share": 0.5}, r"99\.0% .* in words too long"),
        ({"alphabet_coverage": 0.99}, r"has 99\.0% of the text's characters.*: learn .* larger --alphabet"),
        (
            {"unreachable_token_share": 0.29},
            r"29\.0% .*which lowercased text never produces.*--cased",
        ),
        ({"random_next_share": 0.91}, r"91\.0% of the second .* 3\.0 sentences on average: pass --objective none or"),
        ({"random_next_share": 0.39}, r"39\.0% of the second sentences are random"),
    ],
)
def test_each_limit_of_records_has_a_warning_with_a_fix(changes, message):
    [warning] = find_records_warnings(MANIFEST | {"quality": QUALITY | changes})
    assert re.search(message, warning)


def test_shares_of_few_examples_give_no_warning():
    assert not list(
        find_records_warnings(MANIFEST | {"num_examples": 99, "quality": QUALITY | {"random_next_share": 0.9}})
    )


def test_the_fix_for_unreachable_tokens_does_not_repeat_given_options():
    [warning] = find_records_warnings(
        MANIFEST | {"lowercase": False, "quality": QUALITY | {"unreachable_token_share": 0.3}}
    )
    assert warning.endswith("which cased text never produces: pass --no-strip-accents")


def test_a_small_alphabet_hides_the_warning_about_few_tokens():
    """Both warnings once named a --size, and contradicted each other."""
    [warning] = find_vocabulary_warnings(FACTS | {"vocabulary_size": 1352, "alphabet_coverage": 0.938})
    assert warning.endswith("pass --alphabet 2100")


def test_cased_text_has_no_warning_about_turkish_letters():
    assert not list(find_vocabulary_warnings(FACTS | {"dotless_share": 0.045, "lowercase": False}))


def test_stripped_characters_are_counted_by_script():
    text = {"\u00fc": 4, "\u0e31": 3, "\u0e01": 9, "\u00df": 2, "\u0439": 1, "\uac00": 5, "\U000e0001": 1, "\u2126": 7}
    assert measure_stripped_characters(text, 100) == {
        "stripped_share": 0.08,
        "stripped_scripts": {"Latin": 0.04, "Thai": 0.03, "Cyrillic": 0.01},
        "hangul_share": 0.05,
    }
    assert measure_stripped_characters({}, 0) == {"stripped_share": 0.0, "stripped_scripts": {}, "hangul_share": 0.0}
    assert compute_dotless_share({"\u0131": 2, "\u0130": 1, "\u0139": 3}, 100) == 0.03


def test_unreachable_tokens_exclude_special_tokens():
    assert compute_unreachable_share(["[PAD]", "The", "##Es", "the", "##s"], ["[PAD]"], str.lower) == 0.5


def test_a_percentage_has_enough_digits_to_differ_from_0_and_100():
    assert [*map(format_percent, (0, 1, 0.5, 0.0004, 0.00004, 0.99996, 0.00000001))] == [
        "0.0%",
        "100.0%",
        "50.0%",
        "0.04%",
        "0.004%",
        "99.996%",
        "0.0000%",
    ]
