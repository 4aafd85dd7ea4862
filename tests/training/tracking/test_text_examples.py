"""Tables of examples for TensorBoard: wrong ones first, nothing that breaks the table."""

from bert_keras.heads.answer.task import QuestionAnswering
from bert_keras.heads.classify.task import TextClassification, TextExample
from bert_keras.heads.embed.task import SentenceEmbedding
from bert_keras.heads.tag.task import TokenClassification
from bert_keras.pipelines.readers.questions import Answer, Question
from bert_keras.pipelines.readers.words.tagged_words import TaggedSentence
from bert_keras.training.tracking.tracked_training import format_answers


def read_rows(table: str) -> list[list[str]]:
    """Return the cells of a Markdown table without its two head lines."""
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]


def test_wrong_classes_come_first():
    task = TextClassification(labels=("cat", "dog"))
    examples = [TextExample("a cat", label="cat"), TextExample("a dog", "ran", "dog")]
    answers = [{"label": "cat", "probability": 0.9}, {"label": "cat", "probability": 0.6}]
    table = format_answers(task, examples, answers)
    assert table.splitlines()[0] == "| correct | text | label | prediction | probability |"
    assert read_rows(table) == [["no", "a dog / ran", "dog", "cat", "0.600"], ["yes", "a cat", "cat", "cat", "0.900"]]


def test_several_labels_are_compared_as_a_set():
    task = TextClassification(labels=("cat", "dog"), problem="multi_label")
    examples = [TextExample("both", label=["dog", "cat"]), TextExample("none", label=[])]
    answers = [
        {"labels": ["cat", "dog"], "probabilities": [0.9, 0.8]},
        {"labels": ["cat"], "probabilities": [0.7, 0.1]},
    ]
    table = format_answers(task, examples, answers)
    assert [row[:2] for row in read_rows(table)] == [["no", "none"], ["yes", "both"]]


def test_numbers_are_sorted_by_their_error():
    task = TextClassification(problem="regression")
    examples = [TextExample("near", label=1.0), TextExample("far", label=1.0)]
    table = format_answers(task, examples, [{"value": 1.25}, {"value": 2.0}])
    assert table.splitlines()[0].startswith("| error |")
    assert [row[:2] for row in read_rows(table)] == [["1.000", "far"], ["0.250", "near"]]
    pairs = [TextExample("a cat", "a dog", 5.0), TextExample("a hat", "a mat", 0.0)]
    table = format_answers(SentenceEmbedding(highest_score=5.0), pairs, [{"cosine": 0.9}, {"cosine": 0.5}])
    assert [row[:2] for row in read_rows(table)] == [["0.500", "a hat / a mat"], ["0.100", "a cat / a dog"]]


def test_tags_are_shown_with_their_words():
    task = TokenClassification(labels=("O", "B-PET"), scheme="IOB2")
    sentence = TaggedSentence("the cat", ("the", "cat"), (0, 4), (3, 7), ("O", "B-PET"), line=None)
    entity = {"label": "PET", "text": "the", "start": 0, "end": 3, "probability": 0.75}
    [row] = read_rows(format_answers(task, [sentence], [{"tags": ["B-PET", "O"], "entities": [entity]}]))
    assert row == ["no", "the cat", "cat/B-PET", "the/B-PET", "0.750"]


def test_every_accepted_answer_is_correct():
    question = Question("q", "where?", "on a mat", "", (Answer("a mat", 3), Answer("mat", 5)), False, "line 1")
    impossible = Question("r", "who?", "on a mat", "", (), True, "line 2")
    answers = [{"answer": "mat", "probability": 0.5}, {"answer": "", "probability": None}]
    table = format_answers(QuestionAnswering(allows_null=True), [question, impossible], answers)
    assert read_rows(table) == [["yes", "where?", "a mat / mat", "mat", "0.500"], ["yes", "who?", "", "", ""]]


def test_texts_cannot_break_the_table_and_are_shortened():
    task = TextClassification(labels=("cat", "dog"))
    hostile = "a | b\n| no | <script> [x](y) `z`" + "x" * 1000
    table = format_answers(task, [TextExample(hostile, label="cat")] * 30, [{"label": "cat", "probability": 1.0}] * 30)
    lines = table.splitlines()
    assert len(lines) == 2 + 20
    assert all(len(line) < 500 and "\\<script\\>" in line and "a \\| b" in line for line in lines[2:])
