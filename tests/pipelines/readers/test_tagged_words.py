"""Tagged words of every format are read with their ranges in the text; errors name the line."""

import gzip
import json
import re

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.readers.words.tagged_words import TaggedSentence, read_tagged_words, split_words
from tests.marks import slow_except
from tests.shared_data import shared


@pytest.fixture
def read(tmp_path):
    """Function that writes a file and reads its sentences."""

    def write_and_read(name, content, **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return check_ranges(read_tagged_words(path, **options))

    return write_and_read


def check_ranges(sentences):
    """Return the sentences, after checking that words are the texts of ordered ranges and have one tag each."""
    for sentence in sentences:
        assert [sentence.text[start:end] for start, end in ranges(sentence)] == list(sentence.words)
        assert len(sentence.words) == len(sentence.starts) == len(sentence.ends) > 0
        assert sentence.tags is None or len(sentence.tags) == len(sentence.words)
        for previous, current in zip(ranges(sentence), ranges(sentence)[1:], strict=False):
            assert previous[1] <= current[0] or previous == current
        assert all(word.strip() for word in sentence.words)
    return sentences


def ranges(sentence):
    return list(zip(sentence.starts, sentence.ends, strict=True))


def conllu(*rows, text=None):
    """Return a CoNLL-U sentence of rows (id, form), (id, form, upos) or (id, form, upos, misc)."""
    lines = [] if text is None else [f"# text = {text}"]
    for row_id, form, *more in rows:
        upos, misc = (*more, "X", "_")[:2] if len(more) != 1 else (more[0], "_")
        lines.append("\t".join([row_id, form, "_", upos, "xp", "F=1", "0", "dep", "_", misc]))
    return "\n".join(lines) + "\n\n"


def jsonl(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize("suffix", [".conll", ".txt", ".tsv", ".iob", ".bio", ".CONLL", ".conll.gz"])
def test_columns_are_read_as_words_and_tags(read, suffix):
    content = "A\tB-x\nb\tO\n\nc\tO\n"
    content = gzip.compress(content.encode()) if suffix.endswith("gz") else content
    assert read("f" + suffix, content) == [
        TaggedSentence("A b", ("A", "b"), (0, 2), (1, 3), ("B-x", "O"), 1),
        TaggedSentence("c", ("c",), (0,), (1,), ("O",), 4),
    ]


@pytest.mark.parametrize(
    ("content", "words", "tags"),
    [
        ("EU NNP B-NP B-ORG\nrejects  VBZ   B-VP O\n", ("EU", "rejects"), ("B-ORG", "O")),
        ("New York\tB-LOC\n", ("New York",), ("B-LOC",)),
        ("caf\u00e9\tO\ncafe\u0301\tO\n", ("caf\u00e9", "cafe\u0301"), ("O", "O")),
        ("\u5317\u4eac B-LOC\n\U0001f468\u200d\U0001f469 O\n", ("\u5317\u4eac", "\U0001f468\u200d\U0001f469"), None),
        ("12\u00a0000 B-NUM\n", ("12\u00a0000",), ("B-NUM",)),  # one word, because the space is not ASCII
        ("a\u2028b O\n", ("a\u2028b",), ("O",)),  # not a line end
        ("# O\n#tag O\n", ("#", "#tag"), ("O", "O")),  # not a comment
        ("\ufeffa O\r\nb X \r\n", ("a", "b"), ("O", "X")),
    ],
)
def test_columns_are_split_at_tabs_or_spaces(read, content, words, tags):
    (sentence,) = read("f.conll", content)
    assert sentence.words == words
    assert sentence.tags == tags or tags is None
    assert sentence.text == " ".join(words)


def test_blank_lines_and_docstart_lines_end_sentences(read):
    content = "-DOCSTART- -X- O\n\n\na O\n\t\n \r\nb O\n-DOCSTART- -X- O\nc X\n\n\n"
    assert [(s.words, s.line) for s in read("f.txt", content)] == [(("a",), 4), (("b",), 7), (("c",), 9)]


@pytest.mark.parametrize("as_text", [False, True])
def test_columns_can_be_counted_from_either_end(read, as_text):
    columns = {"word_column": 1, "tag_column": -2}
    columns = {name: str(value) for name, value in columns.items()} if as_text else columns
    (sentence,) = read("f.conll", "1 a X y\n2 b Z y\n", **columns)
    assert (sentence.words, sentence.tags) == (("a", "b"), ("X", "Z"))


def test_format_option_has_priority_over_the_extension(read):
    assert read("f.annotated", "a\tO\n", format="conll")[0].tags == ("O",)
    assert read("f.conll", jsonl({"words": ["a"], "tags": ["O"]}), format="jsonl")[0].tags == ("O",)
    assert read("f.txt", conllu(("1", "a")), format="conllu")[0].tags == ("X",)


def test_text_and_ranges_of_conllu_come_from_the_comment(read):
    content = conllu(("1", "Na", "X", "SpaceAfter=No"), ("2", "so", "Y"), ("3", "\U0001f600"), text="Naso   \U0001f600")
    (sentence,) = read("f.conllu", "# sent_id = 1\n# text_en = no\n" + content)
    assert sentence == TaggedSentence(
        "Naso   \U0001f600", ("Na", "so", "\U0001f600"), (0, 2, 7), (2, 4, 8), ("X", "Y", "X"), 4
    )


def test_conllu_words_without_a_text_comment_are_joined_by_space_after(read):
    content = conllu(("1", "10 000", "N", "A=b|SpaceAfter=No"), ("2", "!", "P"), ("3", "so", "P", "SpaceAfter=No"))
    assert [s.text for s in read("f.conllu", content)] == ["10 000! so"]


def test_words_of_a_multiword_token_share_its_range(read):
    """Words that concatenate to the token get parts of its range; other words get the whole range."""
    content = conllu(
        ("1-2", "don't", "_"),
        ("1", "do", "AUX"),
        ("2", "n't", "PART"),
        ("2.1", "ghost", "X"),
        ("3", "va", "V"),
        ("4-5", "du", "_", "SpaceAfter=No"),
        ("4", "de", "ADP"),
        ("5", "le", "DET"),
        ("6", "!", "PUNCT"),
        ("7-8", "zu", "_"),
        ("7", "a", "ADP"),
        ("8", "l", "DET"),
        text="don't va du! zu",
    )
    for with_comment in (content, content.split("\n", 1)[1]):
        (sentence,) = read("f.conllu", with_comment)
        assert sentence.text == "don't va du! zu"
        assert sentence.words == ("do", "n't", "va", "du", "du", "!", "zu", "zu")
        assert ranges(sentence) == [(0, 2), (2, 5), (6, 8), (9, 11), (9, 11), (11, 12), (13, 15), (13, 15)]
        assert sentence.tags == ("AUX", "PART", "V", "ADP", "DET", "PUNCT", "ADP", "DET")
    assert sentence.line == 2  # line of the first word, after the line of the multiword token


@pytest.mark.parametrize(
    ("column", "tag"), [("upos", "X"), ("XPOS", "xp"), ("feats", "F=1"), ("deprel", "dep"), (7, "dep"), ("-3", "dep")]
)
def test_conllu_columns_can_be_chosen_by_name_or_number(read, column, tag):
    assert read("f.conllu", conllu(("1", "a")), tag_column=column)[0].tags == (tag,)


def test_missing_features_are_a_tag(read):
    content = conllu(("1", "a")).replace("F=1", "_")
    assert read("f.conllu", content, tag_column="feats")[0].tags == ("_",)


@pytest.mark.parametrize("words", ["words", "tokens"])
@pytest.mark.parametrize("tags", ["tags", "labels", "ner_tags"])
def test_json_lines_contain_words_and_tags(read, words, tags):
    content = jsonl({words: ["a b", "\u0301c"], tags: ["X", "O"], "id": 1}) + "\n" + jsonl({words: ["d"], tags: ["X"]})
    assert read("f.jsonl", content) == [
        TaggedSentence("a b \u0301c", ("a b", "\u0301c"), (0, 4), (3, 6), ("X", "O"), 1),
        TaggedSentence("d", ("d",), (0,), (1,), ("X",), 3),
    ]


def test_json_fields_can_be_chosen_by_name(read):
    content = jsonl({"form": ["a"], "pos": ["X"], "tags": ["Y"]})
    assert read("f.jsonl", content, word_column="form", tag_column="pos")[0].tags == ("X",)
    content = jsonl({"text": "ab", "marks": [[0, 2, "X"]]})
    assert read("f.jsonl", content, tag_column="marks")[0].tags == ("B-X",)


def test_spans_have_priority_over_lists_of_words(read):
    prodigy = {"text": "ab c", "tokens": [{"text": "ab", "start": 0}], "spans": [[0, 2, "X"]]}
    assert read("f.jsonl", jsonl(prodigy))[0].tags == ("B-X", "O")
    both = {"text": "ab c", "tokens": ["ab c"], "tags": ["Y"], "entities": []}
    assert read("f.jsonl", jsonl(both))[0].tags == ("O", "O")
    assert read("f.jsonl", jsonl(both), tag_column="tags")[0].tags == ("Y",)
    assert read("f.jsonl", jsonl({"text": "ab c", "words": ["ab c"], "labels": ["Y"]}))[0].tags == ("Y",)


@pytest.mark.parametrize("field", ["entities", "spans", "labels", "label"])
@pytest.mark.parametrize("as_objects", [False, True])
def test_marked_spans_become_iob2_tags(read, field, as_objects):
    spans = [[17, 18, "PER"], [2, 10, "PER"], [15, 17, "ORG"]]  # character ranges with exclusive ends, in any order
    spans = [dict(zip(("start", "end", "label"), span, strict=True)) for span in spans] if as_objects else spans
    (sentence,) = read("f.jsonl", jsonl({"text": "\U0001f600 Ann-Lee and (ACMx).", field: spans}))
    assert list(zip(sentence.words, sentence.tags, strict=True)) == [
        ("\U0001f600", "O"),
        ("Ann", "B-PER"),
        ("-", "I-PER"),
        ("Lee", "I-PER"),  # the span includes the next space, which is in no word
        ("and", "O"),
        ("(", "O"),
        ("AC", "B-ORG"),
        ("M", "B-PER"),
        ("x", "O"),
        (")", "O"),
        (".", "O"),
    ]


def test_words_outside_all_spans_have_the_tag_o(read):
    assert read("f.jsonl", jsonl({"text": "a b", "entities": []}))[0].tags == ("O", "O")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("it's  so-so.", ["it", "'", "s", "so", "-", "so", "."]),
        ("a\tb\nc\u00a0d\u3000e", ["a", "b", "c", "d", "e"]),
        ("\u6211\u5728\u5317\u4eac abc\u4e2d", ["\u6211", "\u5728", "\u5317", "\u4eac", "abc", "\u4e2d"]),
        ("caf\u00e9 cafe\u0301 \u0301x", ["caf\u00e9", "cafe\u0301", "\u0301x"]),
        ("\U0001f600\U0001f601 \u00bfqu\u00e9?", ["\U0001f600\U0001f601", "\u00bf", "qu\u00e9", "?"]),
        ("soft\u00adhyphen \u200b \ufeff", ["soft\u00adhyphen"]),  # characters that BERT drops do not form words
        ("$5^2", ["$", "5", "^", "2"]),
        (" \n", []),
        ("", []),
    ],
)
def test_text_is_split_like_bert_splits_it(text, words):
    assert [text[start:end] for start, end in split_words(text)] == words


def test_text_is_also_split_at_extra_positions():
    assert split_words("abcd ef", [1, 3, 5, 6, 7]) == [(0, 1), (1, 3), (3, 4), (5, 6), (6, 7)]


def test_files_for_prediction_need_no_tags(read):
    assert read("f.conll", "a\n\u4e2d\n", needs_tags=False)[0].tags is None
    assert read("f.conll", "a X\n", needs_tags=False, tag_column=4)[0].tags is None
    assert read("f.conll", "a X\n", needs_tags=False)[0].tags == ("X",)
    assert read("f.conllu", conllu(("1", "a", "_")), needs_tags=False)[0].tags is None
    assert read("f.jsonl", jsonl({"tokens": ["a"]}), needs_tags=False)[0].tags is None
    assert read("f.jsonl", jsonl({"text": "a."}), needs_tags=False)[0] == TaggedSentence(
        "a.", ("a", "."), (0, 1), (1, 2), None, 1
    )


def test_sentences_for_prediction_have_all_tags_or_none(read):
    with pytest.raises(InputError, match="line 1: the word 'a' has no tag"):
        read("f.conll", "a\t\nb\tX\n", needs_tags=False)
    with pytest.raises(InputError, match="line 2: the word 'b' has no tag"):
        read("f.conllu", conllu(("1", "a"), ("2", "b", "_")), needs_tags=False)


COLUMN_ERRORS = {
    "not UTF-8": (b"a O\ncaf\xe9 O\n", "line 2: byte 0xe9 at column 4 is not UTF-8"),
    "NUL": (b"a O\na\0 O\n", "line 2: there is a NUL byte"),
    "empty file": (b"", "has no sentences"),
    "blank lines": (b"\n \n-DOCSTART- O\n", "has no sentences"),
    "one column": (b"a\nb\n", "line 1: the word 'a' has no tag.*the line has 1 columns.*--tag-column"),
    "fewer columns": (b"a O\nb\n", "line 2: the line has 1 column, where line 1 has 2"),
    "more columns": (b"a X O\n# id 7 x\n", "line 2: the line has 4 columns, where line 1 has 3.*comments"),
    "no word": (b"a\tO\n\tO\n", "line 2: the word is empty"),
    "space as word": (b"a\tO\n\xc2\xa0\tO\n", "line 2: the word is empty"),
    "no tag": (b"a\tO\nb\t\n", "line 2: the word 'b' has no tag"),
}


@pytest.mark.parametrize("case", COLUMN_ERRORS)
def test_column_errors_name_the_line(read, case):
    content, message = COLUMN_ERRORS[case]
    with pytest.raises(InputError, match=r"f\.conll.*" + message):
        read("f.conll", content)


def test_missing_column_is_named(read):
    with pytest.raises(InputError, match=r"line 1: the line has 2 columns, and none is number 2.*--word-column"):
        read("f.conll", "a O\n", word_column=2)
    with pytest.raises(InputError, match=r"line 1: the word 'a' has no tag in column 5"):
        read("f.conll", "a O\n", tag_column=5)
    with pytest.raises(InputError, match=r"line 1: the word 'O' has no tag in column 1, .*the word in column -1"):
        read("f.conll", "a O\n", word_column=-1, tag_column=1)
    with pytest.raises(InputError, match="--tag-column is 'upos'; expected the number of a column"):
        read("f.conll", "a O\n", tag_column="upos")


CONLLU_ERRORS = {
    "not UTF-8": (b"# text = caf\xe9\n", "line 1: byte 0xe9 at column 13 is not UTF-8"),
    "no words": ("# text = a\n\n", "has no sentences"),
    "columns": ("1\ta\tX\n", "line 1: the line has 3 columns; expected the 10 of CoNLL-U, separated by tabs"),
    "spaces": ("1 a _ X _ _ _ _ _ _\n", "line 1: the line has 1 column; expected the 10"),
    "invalid id": (conllu(("1", "a"), ("x", "b")), "line 2: the id is 'x'; expected"),
    "id out of order": (conllu(("1", "a"), ("3", "b")), "line 2: the id is '3'; expected 2"),
    "range out of order": (conllu(("1", "a"), ("1-2", "b")), "line 2: the id is '1-2'; expected 2, or a range"),
    "reversed range": (conllu(("2-1", "a")), "line 1: the id is '2-1'"),
    "overlapping ranges": (conllu(("1-2", "ab"), ("1", "a"), ("2-3", "bc")), "line 3: the id is '2-3'.*1-2"),
    "incomplete range": (conllu(("1-3", "ab"), ("1", "a"), ("2", "b")), "line 1: .*'1-3'.* ends with word 2"),
    "no form": (conllu(("1", "a"), ("2", "")), "line 2: the word is empty"),
    "no tag": (conllu(("1", "a"), ("2", "b", "_")), "line 2: the word 'b' has no tag: its column upos holds '_'"),
    "other text": (
        conllu(("1", "a"), ("2", "b"), text="a c b"),
        "line 3: 'b' is not at character 2 of the sentence's '# text', which has 'c b' there",
    ),
    "more text": (conllu(("1", "a"), text="a b"), "line 2: .*'# text' continues with 'b'"),
}


@pytest.mark.parametrize("case", CONLLU_ERRORS)
def test_conllu_errors_name_the_line(read, case):
    content, message = CONLLU_ERRORS[case]
    with pytest.raises(InputError, match=r"f\.conllu.*" + message):
        read("f.conllu", content)


def test_unknown_conllu_column_is_rejected(read):
    for column in ("ner", 10, -11):
        with pytest.raises(InputError, match=f"--tag-column is {column!r}; expected upos, xpos, feats, deprel or"):
            read("f.conllu", conllu(("1", "a")), tag_column=column)
    with pytest.raises(InputError, match="--word-column is 0, but CoNLL-U defines the column of words"):
        read("f.conllu", conllu(("1", "a")), word_column=0)


def make_spans(*spans, text="ab cd"):
    return {"text": text, "entities": spans}


RECORD_ERRORS = {
    "not UTF-8": (b'{"text": "caf\xe9"}', "line 1: byte 0xe9 at column 14 is not UTF-8"),
    "empty file": (b"\n\n", "has no sentences"),
    "not JSON": (b'{"words": ["a"], "tags": ["O"]}\n{words}\n', "line 2: not JSON .*expected one JSON object per line"),
    "nested too deeply": (b"[" * 100_000, "line 1: not JSON"),
    "not an object": ([1], "line 1: the line is the JSON value \\[1\\]; expected an object"),
    "no known field": (
        {"body": "a", "id": 1},
        "there is no field 'text' or 'words' or 'tokens'; the fields are 'body', 'id'.*--word-column",
    ),
    "words not a list": ({"words": "a b", "tags": ["O"]}, "'words' is 'a b'; expected a list of strings"),
    "word not a string": ({"words": ["a", 3], "tags": ["O", "O"]}, r"words\[1\] is 3; expected a string"),
    "empty word": ({"words": ["a", " "], "tags": ["O", "O"]}, r"words\[1\] is empty"),
    "no words": ({"words": [], "tags": []}, "'words' is empty; expected at least one word"),
    "word not valid text": (
        {"words": ["a\ud800"], "tags": ["O"]},
        r"words\[0\] has \\ud800, which is not valid in text",
    ),
    "no tags": (
        {"words": ["a"]},
        "the words have no tags: there is no field 'tags' or 'labels' or 'ner_tags'.*--tag-column",
    ),
    "fewer tags": ({"words": ["a", "b"], "tags": ["O"]}, "2 words and 1 tag; expected one tag per word"),
    "tags not a list": ({"words": ["a"], "tags": "O"}, "'tags' is 'O'; expected a list of strings"),
    "numbers as tags": (
        {"words": ["a"], "ner_tags": [3]},
        r"ner_tags\[0\] is the number 3; expected the name of a tag",
    ),
    "empty tag": ({"words": ["a"], "tags": [""]}, r"tags\[0\] is empty"),
    "null tag": ({"words": ["a"], "tags": [None]}, r"tags\[0\] is None; expected a string"),
    "text not a string": ({"text": 1, "entities": []}, "text is 1; expected a string"),
    "empty text": (make_spans(text=" \n"), "the text is empty"),
    "text without words": (make_spans(text="\u200b"), "the text has no word"),
    "text with NUL": (make_spans(text="a\0"), r"text has \\u0000, which is not valid in text"),
    "no spans": ({"text": "a"}, "the words have no tags: there is no field 'entities' or 'spans' or"),
    "spans not a list": ({"text": "a", "entities": {}}, "'entities' is {}; expected a list"),
    "span not a triple": (make_spans([0, 2]), r"entities\[0\] is \[0, 2\]; expected"),
    "span without label": (make_spans({"start": 0, "end": 2}), r"entities\[0\] is {'end': 2, 'start': 0}; expected"),
    "boundary not a number": (make_spans([0, "2", "X"]), r"entities\[0\].*; expected .*integers"),
    "boundary is true": (make_spans([0, True, "X"]), r"entities\[0\].*; expected .*integers"),
    "label not a string": (
        make_spans([0, 2, 7]),
        r"the label of entities\[0\] is the number 7; expected the name of a tag",
    ),
    "empty label": (make_spans([0, 2, ""]), r"the label of entities\[0\] is empty"),
    "span starts before the text": (
        make_spans([-1, 2, "X"]),
        r"entities\[0\] runs from -1 to 2.*the 5 characters of the text",
    ),
    "span ends after the text": (
        make_spans([0, 2, "Y"], [3, 6, "X"]),
        r"entities\[1\] runs from 3 to 6.*the 5 characters of the text",
    ),
    "empty span": (make_spans([2, 2, "X"]), r"entities\[0\] runs from 2 to 2"),
    "reversed span": (make_spans([2, 0, "X"]), r"entities\[0\] runs from 2 to 0"),
    "span of spaces only": (make_spans([2, 3, "X"]), r"entities\[0\], ' ', has no word"),
    "overlapping spans": (make_spans([2, 5, "X"], [0, 3, "Y"]), r"entities\[0\] .*overlaps entities\[1\]"),
}


@pytest.mark.parametrize("case", RECORD_ERRORS)
def test_record_errors_name_the_line(read, case):
    content, message = RECORD_ERRORS[case]
    if not isinstance(content, bytes):
        content = jsonl(content)
    with pytest.raises(InputError, match=r"f\.jsonl.*" + message):
        read("f.jsonl", content)


def test_errors_count_blank_lines(read):
    with pytest.raises(InputError, match=r"f\.jsonl, line 3: .* 1 word and 2 tags"):
        read("f.jsonl", jsonl({"words": ["a"], "tags": ["O"]}) + "\n" + jsonl({"words": ["a"], "tags": ["O", "X"]}))


def test_missing_named_field_is_rejected(read):
    with pytest.raises(
        InputError, match=r"line 1: the words have no tags: there is no field 'x'; the fields are 'words', 'tags'"
    ):
        read("f.jsonl", jsonl({"words": ["a"], "tags": ["O"]}), tag_column="x")
    with pytest.raises(InputError, match=r"line 1: there are no words: there is no field 'x'"):
        read("f.jsonl", jsonl({"words": ["a"], "tags": ["O"]}), word_column="x")
    with pytest.raises(InputError, match=r"--tag-column is 1; expected the name of a field"):
        read("f.jsonl", jsonl({"words": ["a"], "tags": ["O"]}), tag_column=1)


def test_either_all_records_of_a_file_have_tags_or_none(read):
    content = jsonl({"words": ["a"], "tags": ["O"]}, {"words": ["b"]})
    with pytest.raises(InputError, match=r"f\.jsonl, line 2: the words have no tags, but those of line 1 do"):
        read("f.jsonl", content, needs_tags=False)


def test_unknown_extensions_and_formats_are_rejected(read, tmp_path):
    for name in ("f.annotated", "f.annotated.gz", "f.csv", "f"):
        ending = r"(ends in '\..*'|has no ending)"
        with pytest.raises(InputError, match=rf"f.* {ending}; expected .*\.conll.*\.jsonl.*--format"):
            read(name, "a O\n")
    with pytest.raises(InputError, match="the format is 'iob2'; expected conll, conllu, jsonl or json"):
        read("f.conll", "a O\n", format="iob2")
    with pytest.raises(InputError, match=r"none\.conll does not exist"):
        read_tagged_words(tmp_path / "none.conll")
    (tmp_path / "folder.conll").mkdir()
    with pytest.raises(InputError, match=r"\.conll is a folder"):
        read_tagged_words(tmp_path / "folder.conll")
    with pytest.raises(InputError, match=r"f\.conll\.gz: the gzip data is truncated"):
        read("f.conll.gz", gzip.compress(b"a O\n" * 1000)[:-9])


@pytest.mark.parametrize(
    ("name", "num_sentences", "num_words", "options"),
    [
        ("wnut17train.conll.gz", 3394, 62730, {}),
        ("emerging.dev.conll.gz", 1009, 15733, {}),
        ("emerging.test.annotated.gz", 1287, 23394, {"format": "conll"}),
    ],
)
def test_wnut17_is_read_completely(name, num_sentences, num_words, options):
    sentences = check_ranges(read_tagged_words(shared(f"wnut17/{name}"), **options))
    assert (len(sentences), sum(len(sentence.words) for sentence in sentences)) == (num_sentences, num_words)


@pytest.mark.parametrize(
    ("split", "num_sentences"), slow_except([("train", 12544), ("dev", 2001), ("test", 2077)], quick=[("dev", 2001)])
)
def test_english_ewt_is_read_completely(split, num_sentences):
    """The text equals the comment and the words joined according to SpaceAfter."""
    path = shared(f"ud_english_ewt/en_ewt-ud-{split}.conllu.gz")
    sentences = check_ranges(read_tagged_words(path))
    blocks = gzip.decompress(path.read_bytes()).decode().strip("\n").split("\n\n")
    assert len(sentences) == len(blocks) == num_sentences
    for sentence, block in zip(sentences, blocks, strict=True):
        rows = [line.split("\t") for line in block.split("\n") if line[0] != "#"]
        comment = re.search("^# text = (.*)$", block, re.MULTILINE)[1]
        assert sentence.text == comment
        assert sentence.words == tuple(row[1] for row in rows if row[0].isdigit())
        assert sentence.tags == tuple(row[3] for row in rows if row[0].isdigit())
        inside = {str(i) for row in rows if "-" in row[0] for i in find_range(row[0])}
        surface = [row for row in rows if row[0] not in inside and "." not in row[0]]
        joined = "".join(row[1] + " " * ("SpaceAfter=No" not in row[9]) for row in surface)
        assert joined.rstrip(" ") == comment.replace("\u00a0", " ")


def find_range(row_id):
    first, last = map(int, row_id.split("-"))
    return range(first, last + 1)
