"""`predict` prints predictions for the valid lines in order, and reports invalid ones."""

import io
import json
import os
import re
import shutil
import sys

import pytest

import bert_keras as bk
from bert_keras.cli.commands.predict import get_texts
from bert_keras.cli.main import main
from bert_keras.engines import predictor

# texts next to each other differ in prediction and length
TEXTS = ["the cat sat", "a dog ran off with its red hat .", "every cat", "dogs", "A Café, a red hat and the dog ."]


@pytest.fixture(scope="module")
def loaded():
    """Predictors shared by this module, keyed by folder and arguments, because tracing one takes seconds."""
    return {}


@pytest.fixture(autouse=True)
def load_once(loaded, monkeypatch):
    """Load each checkpoint only once."""
    load = bk.Predictor.from_checkpoint

    def load_once(folder, **changes):
        key = (str(folder), *sorted(changes.items()))
        if key not in loaded:
            loaded[key] = load(folder, **changes)
        return loaded[key]

    monkeypatch.setattr(bk.Predictor, "from_checkpoint", load_once)


@pytest.fixture
def set_stdin(monkeypatch):
    """Function that replaces standard input with bytes or a text."""

    def set_stdin(content):
        content = content if isinstance(content, bytes) else content.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return set_stdin


@pytest.fixture
def small_chunks(monkeypatch):
    """Process two examples at a time."""
    monkeypatch.setattr(predictor, "EXAMPLES_PER_CHUNK", 2)


@pytest.fixture
def workplace(tmp_path, checkpoint, untrained, monkeypatch):
    """Function that returns a folder with checkpoints of the given tasks."""
    (tmp_path / "encoder").symlink_to(checkpoint)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def predict(untrained, capsys):
    """Function that runs `predict` and returns its JSON lines and its standard error."""

    def run(task, *arguments, status=0):
        assert main(["predict", str(untrained(task).out), *map(str, arguments)]) == status
        printed = capsys.readouterr()
        return [json.loads(line) for line in printed.out.splitlines()], printed.err

    return run


def predict_in_python(untrained, task, texts):
    """Return the predictions of the Python API for each text separately."""
    ask = bk.Predictor.from_checkpoint(untrained(task).out)
    return [ask([text])[0] for text in texts]


def test_predictions_keep_the_order_of_the_texts_across_chunks(small_chunks, untrained, predict, set_stdin):
    set_stdin("\n".join(TEXTS))
    lines, stderr = predict("classify")
    assert [line["line"] for line in lines] == [1, 2, 3, 4, 5]
    for line, expected in zip(lines, predict_in_python(untrained, "classify", TEXTS), strict=True):
        assert list(line) == ["line", "label", "probability"]
        assert line["label"] == expected["label"]
        # measured: 3.5e-7; rounding to six digits adds up to 5e-7
        assert line["probability"] == pytest.approx(expected["probability"], abs=1e-6)
    assert len({line["probability"] for line in lines}) == len(TEXTS), (
        "the predictions are too similar for a meaningful test"
    )
    assert stderr.startswith(
        f"bert-keras predict\n  checkpoint  {untrained('classify').out}\n  task        classify, single"
    )
    assert "  file        standard input\n" in stderr
    assert stderr.endswith("\n5 answers\n")


def test_predictions_do_not_depend_on_the_file_format(untrained, predict, tmp_path):
    texts = [text for text in TEXTS if "," not in text]
    contents = {
        "texts.txt": "\n".join(texts),
        "texts.csv": "\n".join(["label,text", *(f"?,{text}" for text in texts)]),
        "texts.tsv": "\n".join(["text\tlabel", *(f"{text}\t?" for text in texts)]),
        "texts.jsonl": "\n".join(json.dumps({"text": text}) for text in texts),
    }
    predictions = []
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        lines, stderr = predict("classify", tmp_path / name)
        assert ("\n  columns     text 'text'\n" in stderr) == (name != "texts.txt")
        first = 1 if name.endswith(("txt", "jsonl")) else 2  # a header precedes the examples of the other formats
        assert [line.pop("line") for line in lines] == list(range(first, first + len(texts)))
        predictions.append(lines)
    assert predictions == [predictions[0]] * len(contents)


def test_quoted_text_is_accepted(untrained, predict):
    [line], stderr = predict("classify", TEXTS[1])
    [expected] = predict_in_python(untrained, "classify", [TEXTS[1]])
    assert line == {"label": expected["label"], "probability": pytest.approx(expected["probability"], abs=1e-6)}
    assert f"\n  text        {TEXTS[1]}\n" in stderr
    assert stderr.endswith("\n1 answer\n")


def test_two_quoted_texts_are_a_pair(untrained, predict):
    question, context = "and the cat", "the cat sat on a mat ."
    [line], stderr = predict("answer", question, context)
    [expected] = bk.Predictor.from_checkpoint(untrained("answer").out)([(question, context)])
    assert line["answer"] == expected["answer"]
    assert f"\n  text        {question} + {context}\n" in stderr
    _, stderr = predict("tag", question, context, status=2)
    assert "tagging needs single texts, and a second text was given: leave it out" in stderr


@pytest.mark.parametrize(
    ("argument", "is_text"),
    [
        ("a fine film", True),
        ("ends with a dot.", True),
        ("1/2 of it", True),
        ("film", False),
        ("", False),
        ("  ", False),
        ("my reviews.csv", False),
        ("my reviews.TXT.gz", False),
        ("a file.that is there", False),
    ],
)
def test_argument_with_a_space_is_a_text_unless_it_is_a_file(argument, is_text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a file.that is there").touch()
    assert get_texts([argument]) == ([argument] if is_text else [])


def test_format_applies_to_standard_input(predict, set_stdin):
    set_stdin('{"body": "the cat"}\n\n{"body": "a dog"}\n')
    lines, _ = predict("classify", "-", "--format", "jsonl", "--text-column", "body")
    assert [line["line"] for line in lines] == [1, 3]


def test_top_lists_the_best_classes(predict, set_stdin):
    set_stdin("the cat sat")
    [line], _ = predict("classify", "--top", "2")
    assert list(line) == ["line", "label", "probability", "best"]
    assert [one["label"] for one in line["best"]] in (["cat", "dog"], ["dog", "cat"])
    assert line["best"][0] == {"label": line["label"], "probability": line["probability"]}
    assert sum(one["probability"] for one in line["best"]) == pytest.approx(1, abs=2e-6)
    assert all(one["probability"] == round(one["probability"], 6) for one in line["best"])


def test_entities_have_their_original_text_and_position(small_chunks, untrained, predict, set_stdin):
    set_stdin("\n".join(TEXTS))
    lines, _ = predict("tag")
    found = 0
    for text, line in zip(TEXTS, lines, strict=True):
        assert list(line) == ["line", "tags", "entities"]
        for entity in line["entities"]:
            assert list(entity) == ["label", "text", "start", "end", "probability"]
            assert entity["text"] == text[entity["start"] : entity["end"]]
            assert entity["probability"] == round(entity["probability"], 6)
            found += 1
    assert found, "no entities were predicted"


def test_word_columns_are_accepted_with_or_without_tags(untrained, predict, tmp_path):
    (tmp_path / "words.conll").write_text("the\nred\ncat\n\na\ndog\n")
    lines, _ = predict("tag", tmp_path / "words.conll")
    assert [(line["line"], len(line["tags"])) for line in lines] == [(1, 3), (5, 2)]
    tagged, _ = predict("tag", untrained("tag").dev)
    assert [len(line["tags"]) for line in tagged] == [4, 4, 2] * 3


def test_answers_have_the_ids_of_their_questions(small_chunks, untrained, predict):
    lines, _ = predict("answer", untrained("answer").dev, "--top", "2")
    assert [line["id"] for line in lines] == ["q0", "q1", "q2", "q3", "q4", "q5"]
    contexts = [
        paragraph["context"] for paragraph in json.loads(untrained("answer").dev.read_text())["data"][0]["paragraphs"]
    ]
    for line, context in zip(lines, contexts, strict=True):
        assert list(line) == ["id", "answer", "start", "end", "probability", "score", "null_score", "best"]
        assert line["answer"] == context[line["start"] : line["end"]] == line["best"][0]["answer"]
        assert len(line["best"]) == 2
        assert line["score"] == round(line["score"], 6)


def test_vectors_and_similarities_are_rounded_and_complete(untrained, predict, set_stdin, tmp_path):
    set_stdin("the cat\na dog")
    lines, _ = predict("embed")
    for line, expected in zip(lines, predict_in_python(untrained, "embed", ["the cat", "a dog"]), strict=True):
        assert line["embedding"] == pytest.approx(expected["embedding"], abs=1e-6)
        assert all(value == round(value, 6) for value in line["embedding"])
    pairs, _ = predict("embed", untrained("embed").dev)
    assert [list(line) for line in pairs] == [["line", "cosine"]] * 8


def test_skipping_bad_lines_keeps_every_good_line(small_chunks, predict, set_stdin):
    set_stdin("\n".join(["the cat", "", "a dog", " ", "", "every cat", "dogs"]) + "\nna\0ne\n")
    lines, stderr = predict("classify", "--on-error", "skip")
    assert [line["line"] for line in lines] == [1, 3, 6, 7]
    lines_skipped = re.findall(r"^  skipped: standard input, line (\d+): ", stderr, re.MULTILINE)
    assert lines_skipped == ["2", "4", "5", "8"]
    assert stderr.endswith("\n4 answers, 4 bad lines skipped\n")


def test_count_of_one_bad_line_is_singular(predict, set_stdin):
    set_stdin("the cat\n\n")
    _, stderr = predict("classify", "--on-error", "skip")
    assert stderr.endswith("\n1 answer, 1 bad line skipped\n")


def test_predictions_before_a_bad_line_are_printed(small_chunks, predict, set_stdin):
    set_stdin("the cat\na dog\nevery cat\n\ndogs\n")
    lines, stderr = predict("classify", status=2)
    assert [line["line"] for line in lines] == [1, 2, 3]
    assert stderr.endswith(
        "\nbert-keras predict: standard input, line 4: the line is empty; expected a text: remove the line\n"
    )


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_predictions_before_a_parse_error_are_printed(on_error, predict, tmp_path):
    path = tmp_path / "texts.csv"
    path.write_text('text\nthe cat\na dog\n"every cat\ndogs\n')
    lines, stderr = predict("classify", path, "--on-error", on_error, status=2)
    assert [line["line"] for line in lines] == [2, 3]
    assert re.search(r"texts\.csv, line 4: .* a quote mark that is never closed", stderr.splitlines()[-1])


def test_output_file_is_complete_or_missing(small_chunks, predict, capsys, workplace):
    good, bad = workplace / "good.txt", workplace / "bad.txt"
    good.write_text("\n".join(TEXTS), encoding="utf-8")
    bad.write_text("the cat\na dog\nevery cat\n\n")
    lines, _ = predict("classify", good)
    before = sorted(workplace.iterdir())
    assert predict("classify", bad, "--out", "out.jsonl", status=2)[0] == []
    assert sorted(workplace.iterdir()) == before

    summary, stderr = predict("classify", good, "--out", "out.jsonl", "--json")
    assert summary == [{"out": "out.jsonl", "answers": 5, "skipped": 0}]
    assert [json.loads(line) for line in (workplace / "out.jsonl").read_text("utf-8").splitlines()] == lines
    _, stderr = predict("classify", bad, "--out", "out.jsonl", status=2)
    assert stderr.endswith("out.jsonl exists: name another file, or give --overwrite\n")
    predict("classify", bad, "--out", "out.jsonl", "--overwrite", status=2)
    assert len((workplace / "out.jsonl").read_text("utf-8").splitlines()) == 5, "the earlier predictions were replaced"


def test_out_option_prints_a_summary_on_standard_output(untrained, workplace, set_stdin, capsys):
    set_stdin("the cat\n\n")
    assert main(["predict", str(untrained("classify").out), "--out", "new/out.jsonl", "--on-error", "skip"]) == 0
    assert capsys.readouterr().out == "wrote new/out.jsonl: 1 answer, 1 bad line skipped\n"
    assert (workplace / "new/out.jsonl").exists()


def test_empty_input_has_no_predictions(predict, set_stdin):
    set_stdin("")
    assert predict("classify")[0] == []
    set_stdin("")
    assert predict("classify")[1].endswith("\n0 answers\n")


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_closed_pipe_ends_the_command_quietly(small_chunks, untrained, set_stdin, monkeypatch, capfd):
    reading, writing = os.pipe()
    os.close(reading)
    set_stdin("\n".join(TEXTS))
    with monkeypatch.context() as patched:
        stream = open(writing, "w")  # noqa: SIM115
        patched.setattr(sys, "stdout", stream)
        assert main(["predict", str(untrained("classify").out)]) == 0
        stream.close()  # raises if data for the pipe is still buffered
    stderr = capfd.readouterr().err
    assert "Traceback" not in stderr
    assert "Broken pipe" not in stderr


def test_output_is_utf_8_in_any_terminal_encoding(untrained, set_stdin, monkeypatch):
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(content, encoding="ascii"))
    set_stdin("the Café ran")
    assert main(["predict", str(untrained("tag").out)]) == 0
    sys.stdout.flush()
    line = content.getvalue()
    assert json.loads(line)["line"] == 1
    assert line.isascii() == ("Café" not in line.decode())


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_predictions_go_to_standard_output_during_progress(small_chunks, untrained, set_stdin, monkeypatch, capsys):
    set_stdin("\n".join([*TEXTS, ""]))
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert main(["predict", str(untrained("classify").out), "--on-error", "skip"]) == 0
    assert [json.loads(line)["line"] for line in capsys.readouterr().out.splitlines()] == [1, 2, 3, 4, 5]
    assert "predicting" in sys.stderr.getvalue()
    assert '"line"' not in sys.stderr.getvalue()


def test_predictions_on_a_terminal_disable_the_progress_bar(small_chunks, untrained, set_stdin, monkeypatch):
    terminal = Terminal()
    set_stdin("\n".join(TEXTS))
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["predict", str(untrained("classify").out)]) == 0
    assert "\x1b" not in terminal.getvalue(), "a progress bar wrote escape sequences"
    assert len(re.findall(r'^{"line": \d, .*}$', terminal.getvalue(), re.MULTILINE)) == 5


FAULTS = {
    "several problems at once": (
        "nothing no.csv --out full",
        r"nothing does not exist; .*; no\.csv does not exist; .*; full is a folder",
    ),
    "word that is not a file": (
        "classify film",
        r"film does not exist; expected a file of texts, or a text in quotes",
    ),
    "missing column": (
        "classify rows.csv --text-column words",
        r"rows\.csv, line 1: there is no column 'words'; the columns are 'body text'",
    ),
    "overlap as long as a window": (
        "classify good.txt --max-sequence-length 9 --window-overlap 8",
        r"window_overlap is 8, and a window holds 7 tokens",
    ),
    "predictions would replace the texts": (
        "classify good.txt --out good.txt --overwrite",
        r"good\.txt is an input of this run and would be replaced by good\.txt: write to another path",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_input_prints_one_sentence_with_status_2_and_writes_nothing(fault, workplace, untrained, capsys):
    arguments, message = FAULTS[fault]
    (workplace / "classify").symlink_to(untrained("classify").out)
    shutil.copytree(untrained("classify").out, workplace / "bare")
    for name in ("vocab.txt", "tokenizer.json", "SHA256SUMS"):
        (workplace / "bare" / name).unlink()
    (workplace / "full").mkdir()
    contents = {"good.txt": "the cat\n", "rows.csv": "body text\nthe cat\n", "empty.csv": "", "latin.txt": "caf\xe9\n"}
    for name, content in {**contents, "questions.json": "{}", "texts.doc": "the cat\n"}.items():
        (workplace / name).write_bytes(content.encode("latin-1"))
    before = sorted(workplace.rglob("*"))
    assert main(["predict", *arguments.split()]) == 2
    printed = capsys.readouterr()
    last_line = printed.err.strip().split("\n")[-1]
    assert last_line.startswith("bert-keras predict: ")
    assert re.search(message, last_line)
    assert printed.out == ""
    assert sorted(workplace.rglob("*")) == before


@pytest.mark.parametrize("task", ["tag", "embed"])
def test_top_option_is_rejected_for_tasks_without_ranking(task, untrained, capsys):
    assert main(["predict", str(untrained(task).out), "the red cat", "--top", "2"]) == 2
    assert f"--top lists classes or answers, and the task is {task}: leave it out" in capsys.readouterr().err


@pytest.fixture
def with_prompts(untrained, tmp_path):
    """Embedder folder with two prompts; the second is the default."""
    folder = shutil.copytree(untrained("embed").out, tmp_path / "with_prompts")
    prompts = {"prompts": {"query": "every ", "passage": "a dog "}, "default_prompt_name": "passage"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    return folder


def test_prompt_is_prepended_to_each_text(with_prompts, untrained, capsys):
    def vector(folder, text, *options):
        assert main(["predict", str(folder), text, *options]) == 0
        printed = capsys.readouterr()
        return json.loads(printed.out)["embedding"], printed.err

    bare = untrained("embed").out
    for options, prompt in (((), "a dog "), (("--prompt", "query"), "every "), (("--prompt", ""), "")):
        vectors, stderr = vector(with_prompts, "the red cat", *options)
        assert vectors == vector(bare, f"{prompt}the red cat")[0]
        assert (f"'{prompt}' before each text" in stderr) == bool(prompt)


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("embed", ["--prompt", "qery"], "there is no prompt 'qery'; expected one of query, passage: name another one"),
        ("classify", ["--prompt", "query"], "--prompt is for embed, and the task is classify: leave it out"),
    ],
)
def test_invalid_prompt_is_rejected(task, options, message, with_prompts, untrained, capsys):
    folder = with_prompts if task == "embed" else untrained(task).out
    assert main(["predict", str(folder), "the cat", *options]) == 2
    assert message in capsys.readouterr().err
