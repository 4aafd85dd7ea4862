"""Templates: blocks that remain, repeat and nest, and blocks that are wrong."""

import pytest

from bert_keras.export.template_files import fill_template

FACTS = {"name": "a model", "on": True, "off": False, "kind": "text", "rows": [{"row": "one"}, {"row": "two"}]}

BLOCKS = {
    "facts": ("$name\n", "a model\n"),
    "true and false": ("%if on\na\n%end\n%if off\nb\n%end\n%if not off\nc\n%end\n", "a\nc\n"),
    "a value": ("%if kind = text\na\n%end\n%if kind = words\nb\n%end\n", "a\n"),
    "repeated and nested": (
        "%each rows\n$row of $name\n%if on\n-\n%end\n%end\n",
        "one of a model\n-\ntwo of a model\n-\n",
    ),
    "white space and no line end": ("%if on \na\n%end", "a\n"),
}
WRONG = {
    "no end": ("%if on\na\n", "%if on has no %end"),
    "no beginning": ("a\n%end\n", "%end is no block"),
    "no name": ("%if\na\n%end\n", "%if is no block"),
}


@pytest.mark.parametrize("case", BLOCKS)
def test_blocks_are_filled(tmp_path, case):
    template, expected = BLOCKS[case]
    (tmp_path / "template").write_text(template)
    assert fill_template(str(tmp_path / "template"), **FACTS) == expected


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_block_is_an_error_with_the_name_of_the_file(tmp_path, case):
    template, message = WRONG[case]
    (tmp_path / "template").write_text(template)
    with pytest.raises(ValueError, match=f"template: {message}"):
        fill_template(str(tmp_path / "template"), **FACTS)


def test_a_missing_fact_is_an_error(tmp_path):
    (tmp_path / "template").write_text("$other\n")
    with pytest.raises(KeyError, match="other"):
        fill_template(str(tmp_path / "template"), **FACTS)
