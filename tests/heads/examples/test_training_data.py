"""Read files into training and scoring examples and their task; errors name the line."""

import pytest

from bert_keras.errors import InputError
from bert_keras.heads.answer.task import QuestionAnswering
from bert_keras.heads.classify.task import TextClassification, TextExample
from bert_keras.heads.embed.task import SentenceEmbedding
from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.heads.examples.scoring_data import read_scoring_data
from bert_keras.heads.tag.task import TokenClassification
from bert_keras.pipelines.readers.questions import Answer
from tests.heads.read_examples import read_task
from tests.heads.squad_json import squad

NO_OPTIONS = FileOptions()
CLASSIFY = TextClassification(labels=("bad", "good"))
TAG = TokenClassification(labels=("O", "B-LOC", "I-LOC", "B-PER"), scheme="IOB2")
ANSWER = QuestionAnswering()
EMBED = SentenceEmbedding()


def test_texts_give_a_classifier_with_their_labels(write):
    train = write("train.csv", "id,sentence,label\n1,a fine film,good\n2,a waste,bad\n")
    dev = write("dev.csv", "label,sentence\ngood,so fine\n")
    task, train_examples, dev_examples = read_task("classify", train, dev, NO_OPTIONS, max_sequence_length=20)
    assert task == TextClassification(max_sequence_length=20, labels=("bad", "good"))
    assert train_examples == [TextExample("a fine film", None, "good", 2), TextExample("a waste", None, "bad", 3)]
    assert dev_examples == [TextExample("so fine", None, "good", 2)]


def test_held_out_file_is_read_with_the_columns_of_the_training_file(write):
    train = write("train.tsv", "sentence1\tsentence2\tquality\na\tb\t1\nc\td\t0\n")
    dev = write("dev.tsv", "text\tlabel\tsentence1\tsentence2\tquality\nx\ty\te\tf\t1\n")
    task, train_examples, dev_examples = read_task("classify", train, dev, NO_OPTIONS)
    assert task.labels == ("0", "1")
    assert train_examples[1] == TextExample("c", "d", "0", 3)
    assert dev_examples == [TextExample("e", "f", "1", 2)]


def test_options_set_format_and_columns(write):
    train = write("train.data", "x;good,a fine film\ny;bad;dull,a waste\n")
    options = FileOptions(
        format="csv", columns=["tags", "words"], label_column="tags", text_column="words", separator=";"
    )
    task, train_examples, dev_examples = read_task("classify", train, train, options, problem="multi_label")
    assert (task.problem, task.labels) == ("multi_label", ("bad", "dull", "good", "x", "y"))
    assert (
        train_examples
        == dev_examples
        == [
            TextExample("a fine film", None, ["x", "good"], 1),
            TextExample("a waste", None, ["y", "bad", "dull"], 2),
        ]
    )
    pairs = FileOptions(second_text_column="b", text_column="a", label_column="c")
    path = write("pairs.csv", "a,b,c\none,two,3.5\n")
    task, train_examples, _ = read_task("classify", path, path, pairs, problem="regression")
    assert (task.labels, task.has_pairs, train_examples) == ((), True, [TextExample("one", "two", 3.5, 2)])


def test_classifier_gets_settings_and_labels(write):
    path = write("train.csv", "text,label\na,x\nb,y\n")
    task, *_ = read_task("classify", path, path, NO_OPTIONS, class_weights="balanced", window_overlap=9)
    assert task == TextClassification(labels=("x", "y"), class_weights="balanced", window_overlap=9)


IOB1 = "New I-LOC\nYork I-LOC\nParis B-LOC\n, O\nAnn I-PER\n"
IOB2 = "New B-LOC\nYork I-LOC\nParis B-LOC\n, O\nAnn B-PER\n"
IOBES = "New B-LOC\nYork E-LOC\nParis S-LOC\n, O\nAnn S-PER\n"


@pytest.mark.parametrize("content", [IOB1, IOB2, IOBES], ids=["IOB1", "IOB2", "IOBES"])
def test_tags_of_every_scheme_are_converted_to_iob2(content, write):
    path = write("train.conll", content)
    task, train_examples, dev_examples = read_task("tag", path, path, NO_OPTIONS, labelled_tokens="all")
    assert task == TokenClassification(labels=("O", "B-LOC", "B-PER", "I-LOC"), scheme="IOB2", labelled_tokens="all")
    assert [sentence.tags for sentence in train_examples] == [("B-LOC", "I-LOC", "B-LOC", "O", "B-PER")]
    assert dev_examples == train_examples


def test_part_of_speech_tags_are_not_changed(write):
    lines = ["1\tDas\tdas\tPRON\tPDS", "2\tist\tsein\tAUX\tVAFIN"]
    path = write("train.conllu", "".join(f"{line}\t_\t_\t_\t_\t_\n" for line in lines))
    task, train_examples, _ = read_task("tag", path, path, NO_OPTIONS)
    assert (task.labels, task.scheme, train_examples[0].tags) == (("AUX", "PRON"), "none", ("PRON", "AUX"))
    task, *_ = read_task("tag", path, path, FileOptions(tag_column="xpos"))
    assert task.labels == ("PDS", "VAFIN")


def test_columns_of_words_and_tags_can_be_set(write):
    path = write("train.data", "B-LOC x Paris\nO x now\n")
    options = FileOptions(format="conll", word_column="2", tag_column="0")
    _, [sentence], _ = read_task("tag", path, path, options)
    assert (sentence.words, sentence.tags, sentence.text) == (("Paris", "now"), ("B-LOC", "O"), "Paris now")


def test_questions_allow_null_answers_only_if_some_have_no_answer(write):
    train, dev = write("train.json", squad(("a", "Berlin", 3))), write("dev.json", squad(("b", "in", 0)))
    task, train_examples, dev_examples = read_task("answer", train, dev, NO_OPTIONS, max_answer_length=7)
    assert task == QuestionAnswering(max_answer_length=7)
    assert [question.answers for question in (*train_examples, *dev_examples)] == [
        (Answer("Berlin", 3),),
        (Answer("in", 0),),
    ]
    train = write("null.json", squad(("a", "Berlin", 3), ("c", "", None)))
    assert read_task("answer", train, dev, NO_OPTIONS)[0] == QuestionAnswering(allows_null=True)


def test_pairs_give_an_embedder_that_divides_scores_by_the_highest(write):
    train, dev = (
        write("train.csv", "text1,text2,score\na,b,4\nc,d,0.5\n"),
        write("dev.csv", "text1,text2,score\ne,f,5\n"),
    )
    task, train_examples, dev_examples = read_task("embed", train, dev, NO_OPTIONS)
    assert task == SentenceEmbedding(highest_score=5.0)
    assert train_examples == [TextExample("a", "b", 4.0, 2), TextExample("c", "d", 0.5, 3)]
    assert dev_examples == [TextExample("e", "f", 5.0, 2)]
    small = write("small.csv", "text1,text2,score\na,b,0.4\nc,d,-0.5\n")
    assert read_task("embed", small, small, NO_OPTIONS)[0].highest_score == 1.0


def test_only_held_out_pairs_need_scores_in_contrastive_training(write):
    train, dev = write("train.csv", "text1,text2\na,b\nc,d\n"), write("dev.csv", "text1,text2,score\ne,f,5\n")
    task, train_examples, dev_examples = read_task("embed", train, dev, NO_OPTIONS, objective="contrastive")
    assert task == SentenceEmbedding(objective="contrastive", highest_score=5.0)
    assert train_examples == [TextExample("a", "b", None, 2), TextExample("c", "d", None, 3)]
    assert dev_examples == [TextExample("e", "f", 5.0, 2)]
    with pytest.raises(InputError, match=r"train\.csv.*no column has a usual name for labels"):
        read_task("embed", train, train, NO_OPTIONS, objective="contrastive")


TRAINING_ERRORS = {
    "unknown label": (
        "classify",
        "a.csv",
        "text,label\na,x\nb,y\n",
        "text,label\na,x\nb,z\n",
        r"b\.csv, line 3: the label 'z'",
    ),
    "unknown tag": (
        "tag",
        "a.conll",
        IOB2,
        "Rome O\n\nto O\nBonn B-ORG\n",
        r"b\.conll, line 3: the word 'Bonn' has .*'B-ORG'",
    ),
    "unknown tag of IOB1": ("tag", "a.conll", IOB1, "Rome O\n\nto O\nBonn I-ORG\n", r"b\.conll, line 3: .* 'B-ORG'"),
    "tag without a scheme": (
        "tag",
        "a.conll",
        IOB2,
        "Rome O\n\nto X-LOC\n",
        r"b\.conll, line 3: the tag of word 0 is 'X-LOC'",
    ),
    "typo among entity tags": (
        "tag",
        "a.conll",
        IOB2 + "\nso O\nto 0\n",
        IOB2,
        r"a\.conll, line 7: the tag '0' is not an entity tag, but others are, such as 'B-LOC'; expected O, or a letter",
    ),
    "null answer": (
        "answer",
        "a.json",
        squad(("a", "in", 0)),
        squad(("b", "in", 0), ("c", "", None)),
        r"b\.json, .*qas\[1\]: .* no answer, but all questions of .*a\.json have one",
    ),
    "no pairs": (
        "embed",
        "a.csv",
        "text,score\na,1\n",
        "text,score\na,1\n",
        r"a\.csv has no pairs of texts; expected two",
    ),
    "no contrastive pairs": (
        "embed",
        "a.csv",
        "text,score\na,1\n",
        "text1,text2,score\na,b,1\n",
        r"a\.csv has no pairs",
    ),
    "JSON object for texts": ("classify", "a.json", "{}", "{}", r"a\.json is a JSON object; expected a list"),
    "text for questions": (
        "answer",
        "a.txt",
        "Where?",
        "Where?",
        r"a\.txt ends in '\.txt'; expected \.json or \.jsonl",
    ),
    "table for words": ("tag", "a.csv", "a,b\n", "a,b\n", r"a\.csv ends in '\.csv'; expected \.conll"),
    "unknown task": ("rank", "a.csv", "", "", "the task is 'rank'; expected one of classify, tag, answer, embed"),
}


@pytest.mark.parametrize("case", TRAINING_ERRORS)
def test_invalid_training_files_are_rejected(case, write):
    name, file, train, dev, message = TRAINING_ERRORS[case]
    paths = write(file, train), write(file.replace("a.", "b."), dev)
    settings = {"objective": "contrastive"} if "contrast" in case else {}
    with pytest.raises(InputError, match=message):
        read_task(name, *paths, NO_OPTIONS, **settings)


def test_labelled_examples_of_a_known_task_are_read(write):
    texts = write("texts.csv", "text,label\na,good\nb,bad\n")
    assert read_scoring_data(CLASSIFY, texts, NO_OPTIONS)[1] == TextExample("b", None, "bad", 3)
    multi_label = TextClassification(problem="multi_label", labels=("bad", "good"))
    sets = write("sets.csv", "text,label\na,good|bad\nb,\n")
    assert [one.label for one in read_scoring_data(multi_label, sets, NO_OPTIONS)] == [["good", "bad"], []]
    regression = TextClassification(problem="regression")
    numbers = write("numbers.csv", "text,score\na,-2\n")
    assert read_scoring_data(regression, numbers, NO_OPTIONS) == [TextExample("a", None, -2.0, 2)]
    pairs = write("pairs.csv", "text1,text2,score\na,b,2\n")
    assert read_scoring_data(EMBED, pairs, NO_OPTIONS) == [TextExample("a", "b", 2.0, 2)]
    questions = write("questions.json", squad(("a", "Berlin", 3), ("b", "", None)))
    assert [one.is_impossible for one in read_scoring_data(ANSWER, questions, NO_OPTIONS)] == [False, True]


@pytest.mark.parametrize("content", [IOB1, IOB2, IOBES], ids=["IOB1", "IOB2", "IOBES"])
def test_tags_are_converted_to_iob2_for_scoring(content, write):
    [sentence] = read_scoring_data(TAG, write("test.conll", content), NO_OPTIONS)
    assert sentence.tags == ("B-LOC", "I-LOC", "B-LOC", "O", "B-PER")
    plain = TokenClassification(labels=("B-LOC", "I-LOC", "O", "I-PER"))
    if content == IOB1:
        [sentence] = read_scoring_data(plain, write("test.conll", content), NO_OPTIONS)
        assert sentence.tags == ("I-LOC", "I-LOC", "B-LOC", "O", "I-PER")


def test_tagger_with_another_scheme_is_scored_by_its_entities(write):
    path = write("test.conll", IOB2)  # B-LOC I-LOC B-LOC O B-PER
    for labels, answer in (
        (("I-LOC", "B-LOC", "O", "I-PER"), ["I-LOC", "I-LOC", "B-LOC", "O", "I-PER"]),
        (("B-LOC", "I-LOC", "E-LOC", "S-LOC", "O", "S-PER"), ["B-LOC", "E-LOC", "S-LOC", "O", "S-PER"]),
        (("B-LOC", "I-LOC", "O", "B-PER"), ["B-LOC", "I-LOC", "B-LOC", "O", "B-PER"]),
    ):
        task = TokenClassification(labels=labels, scheme="IOB2")
        examples = read_scoring_data(task, path, NO_OPTIONS)
        scores = task.score([{"tags": answer}], examples)
        assert (scores["f1"], scores["accuracy"]) == (1.0, 1.0)
        scores = task.score([{"tags": [*answer[:4], "O"]}], examples)
        assert (round(scores["f1"], 3), scores["accuracy"]) == (0.8, 0.8)


SCORING_ERRORS = {
    "label": (
        CLASSIFY,
        "t.csv",
        "text,label\na,good\nb,ugly\nc,odd\nd,ugly\n",
        r"t\.csv, line 3: the label 'ugly' is not one of the model's, which are 'bad', 'good': correct",
    ),
    "label set": (
        TextClassification(problem="multi_label", labels=("bad",)),
        "t.csv",
        "text,label\na,\nb,bad|odd\n",
        r"t\.csv, line 3: the label 'odd' is not one",
    ),
    "tag": (
        TAG,
        "t.conll",
        "a O\n\nb B-ORG\n",
        r"t\.conll, line 3: the label 'B-ORG' is not one of the model's, which are 'O', 'B-LOC'",
    ),
    "tag without a scheme": (
        TAG,
        "t.conll",
        "a O\n\nb NOUN\n",
        r"t\.conll, line 3: the tag of word 0 is 'NOUN'; expected O, or",
    ),
    "no pairs": (EMBED, "t.csv", "text,score\na,1\n", r"t\.csv has no pairs of texts"),
    "no label": (CLASSIFY, "t.csv", "text,label\na,\n", r"t\.csv, line 2: the column 'label' is empty"),
}


@pytest.mark.parametrize("case", SCORING_ERRORS)
def test_invalid_files_for_scoring_are_rejected(case, write):
    task, name, content, message = SCORING_ERRORS[case]
    with pytest.raises(InputError, match=message):
        read_scoring_data(task, write(name, content), NO_OPTIONS)
