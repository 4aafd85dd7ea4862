"""`make-records`: effects of the options, early errors, and resuming an interrupted run."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from bert_keras.cli.main import main, parser
from bert_keras.pipelines.corpus.text_sources import find_sources
from bert_keras.pipelines.records.documents import FileText
from bert_keras.pipelines.records.making_records import write_records
from bert_keras.pipelines.records.manifest import read_manifest
from bert_keras.pipelines.records.records_folder import count_finished_blocks
from bert_keras.pipelines.records.settings import RecordSettings
from bert_keras.pipelines.text.tokenizer import BertTokenizer

TOKENS = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat sat on a mat dog ran off with hat . ,".split()
DOCUMENTS = [f"the cat sat on a mat .\na dog {word} off .\nthe {word} , the hat ." for word in TOKENS[5:]] * 3


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    """Folder with a vocabulary, a text of 39 documents, and some bad files."""
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENS) + "\n")
    (tmp_path / "text.txt").write_text("\n\n".join(DOCUMENTS))
    (tmp_path / "one.txt").write_text(DOCUMENTS[0])
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "binary.txt").write_bytes(b"text\n\x00\x01")
    (tmp_path / "maskless.txt").write_text("\n".join(token for token in TOKENS if token != "[MASK]"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(*arguments):
    return main(["make-records", *map(str, arguments)])


def read_content(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ([], {}),
        (
            "--max-sequence-length 31 --seed 7 --pack --max-examples-per-sequence 2 --duplicates 2 --held-out-rate 0.3 "
            "--short-sequence-rate 0.5 --objective sop".split(),
            {
                "max_sequence_length": 31,
                "seed": 7,
                "packed": True,
                "max_examples_per_sequence": 2,
                "duplicates": 2,
                "held_out_rate": 0.3,
                "short_sequence_rate": 0.5,
                "sentence_objective": "sop",
            },
        ),
        (
            ["--objective", "none", "--keep-documents-apart"],
            {"sentence_objective": "none", "keep_documents_apart": True},
        ),
    ],
)
def test_every_option_affects_the_records(options, settings, workplace):
    assert make("vocab.txt", "out", "--text", "text.txt", "--cased", *options) == 0
    tokenizer = BertTokenizer(TOKENS, lowercase=False, max_sequence_length=settings.get("max_sequence_length", 128))
    text = FileText(find_sources("text.txt"))
    write_records("expected", text, tokenizer, **{"max_sequence_length": 128, **settings})
    assert read_content(workplace / "out") == read_content(workplace / "expected")


def test_command_line_defaults_equal_python_defaults():
    arguments = vars(parser().parse_args(["make-records", "vocab.txt", "out"]))
    defaults = vars(RecordSettings(max_sequence_length=128))
    assert {name: arguments[name] for name in defaults if name != "block_bytes"} == {
        name: value for name, value in defaults.items() if name != "block_bytes"
    }


def test_running_text_is_split(workplace, capsys):
    (workplace / "a.txt").write_text("The cat sat\non the mat. The dog\r\nran off.\n\nThe hat.\n")
    (workplace / "b.txt").write_text("The dog sat. The cat ran off.")
    assert make("vocab.txt", "out", "--text", "a.txt", "b.txt", "--sentences", "split", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["num_documents"], result["num_sentences"], result["sentences"]) == (2, 5, "split")


def test_settings_progress_and_result_are_printed(capsys):
    assert make("vocab.txt", "out", "--text", "text.txt", "--pack", "--workers", "1") == 0
    printed = capsys.readouterr()
    assert re.search(r"sentence_objective +nsp\n", printed.err)
    assert re.search(r"packed +True\n", printed.err)
    assert "block_bytes" not in printed.err  # no option of the command
    assert re.search(r"making records 3/3 kB  [\d.]+ MB/s of text", printed.err)
    assert re.fullmatch(
        r"wrote out: \d+ examples in \d+ records, \d\d\.\d% real tokens, 0\.0% \[UNK\], "
        r"\d\d\.\d% random next sentences, from 39 documents, "
        r"\d+ of them held out, in .* MB\n",
        printed.out,
    )


def test_imperfect_quality_is_printed(workplace, capsys):
    (workplace / "odd.txt").write_text("\n\n".join([*DOCUMENTS, f"the cat {'a' * 101} ran \u00e7 ."]))
    assert make("vocab.txt", "out", "--text", "odd.txt", "--no-strip-accents") == 0
    printed = capsys.readouterr().out
    quality = read_manifest("out")["quality"]
    for name, text in [
        ("alphabet_coverage", "alphabet coverage"),
        ("long_word_share", "of the characters in overlong words"),
    ]:
        assert 0 < quality[name] < 1
        [percent] = re.findall(rf"([\d.]+)% {text}", printed)
        assert float(percent) == pytest.approx(100 * quality[name], abs=0.05)


FAULTS = {
    "empty text": (["--text", "empty.txt"], r"empty\.txt has no text; expected one sentence"),
    "single document": (["--text", "one.txt"], r"the text has 1 document\(s\).*blank line.*objective sop or none"),
    "binary file": (["--text", "binary.txt"], r"binary\.txt, line 2: there is a NUL byte; .*binary file"),
    "vocabulary without [MASK]": (["--text", "text.txt", "VOCAB=maskless.txt"], r"maskless\.txt: .* is \[MASK\]"),
    "missing vocabulary": (["--text", "text.txt", "VOCAB=no.txt"], r"no\.txt does not exist"),
    "sequences too short": (
        ["--text", "text.txt", "--max-sequence-length", "4"],
        r"max_sequence_length is 4; expected at least 5",
    ),
    "unwritable path": (
        ["--text", "text.txt", "OUT=/proc/x"],
        r"/proc/x cannot be written \(/proc/.*\)",
    ),
    "file instead of a folder": (
        ["--text", "text.txt", "OUT=one.txt"],
        r"one\.txt is a file; expected the name",
    ),
    "folder with files": (["--text", "text.txt", "OUT=."], r"exists and is not empty"),
    "text would be replaced": (
        ["--text", "text.txt", "OUT=../x/..", "--overwrite"],
        r"is an input of this run and would be replaced",
    ),
    "split without text": (["--sentences", "split"], r"--sentences split is for your own text.*add --text"),
    "separate documents with pairs": (
        ["--text", "text.txt", "--keep-documents-apart"],
        r"is for sentence_objective 'none'",
    ),
    "open quote": (["--text", "text.txt", "--beam=--a='b"], r"cannot be split .*close the quote"),
    "several problems": (
        ["--text", "no.txt", "--held-out-rate", "1", "--seed", "-1", "VOCAB=nothing"],
        r"held_out_rate is 1\.0.*; seed is -1.*; nothing does not exist.*; no\.txt does not exist",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_input_prints_one_sentence_and_leaves_no_files(fault, workplace, capsys):
    options, message = FAULTS[fault]
    named = dict(option.split("=", 1) for option in options if option.startswith(("VOCAB=", "OUT=")))
    options = [option for option in options if not option.startswith(("VOCAB=", "OUT="))]
    before = read_content(workplace)
    assert make(named.get("VOCAB", "vocab.txt"), named.get("OUT", "out"), *options) == 2
    last_line = capsys.readouterr().err.strip().split("\n")[-1]
    assert re.match(rf"bert-keras make-records: .*{message}", last_line)
    assert read_content(workplace) == before


def test_missing_beam_error_contains_the_install_command(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    assert make("vocab.txt", "out", "--text", "text.txt", "--beam=--runner=DirectRunner") == 2
    assert "run  pip install 'bert-keras[beam]'" in capsys.readouterr().err


@pytest.mark.slow
def test_beam_writes_the_same_bytes(cli, workplace):
    for name, options in (("beam", ["--beam", "--runner=DirectRunner --direct_num_workers=1"]), ("local", [])):
        done = cli("make-records", "vocab.txt", name, "--text", "text.txt", *options)
        assert done.returncode == 0, done.stderr
    assert read_content(workplace / "beam") == read_content(workplace / "local")


def test_beam_is_loaded_only_on_request():
    code = (
        "import sys; from bert_keras.cli.main import main; main(['make-records', 'no', 'out']);"
        "import bert_keras.pipelines.records.making_records;"
        "sys.exit(sorted({'tensorflow', 'apache_beam'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_interrupted_run_reports_its_finished_blocks_and_resumes(workplace):
    """Sends a real SIGINT during twelve blocks of 8 MB."""
    sentences = "the cat sat on a mat .\n" * 400_000
    (workplace / "long.txt").write_text((sentences[: 23 * 1000] + "\n") * 4000)
    # background processes may ignore SIGINT
    restore_handler = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    script = (
        f"import signal, sys; from bert_keras.cli.main import main; {restore_handler}; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", script, "make-records", "vocab.txt", "out", "--text", "long.txt"]
    options = ["--workers", "1", "--objective", "none"]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not count_finished_blocks("out") and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=60)
    assert process.returncode == 130, printed
    assert re.search(r"\n  \d+ finished blocks in \.out\.partial: run the same command again to resume\n", printed)
    assert not os.path.exists("out")
    assert "Traceback" not in printed


def test_interrupt_prints_how_to_resume(workplace, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("bert_keras.cli.commands.make_records.ProgressBar.update", interrupt)
    assert make("vocab.txt", "out", "--text", "text.txt", "--workers", "1") == 130
    assert "\n  1 finished blocks in .out.partial: run the same command again to resume\n" in capsys.readouterr().err
    assert not os.path.exists("out")


def test_resuming_is_announced_in_the_settings(workplace, capsys):
    class StoppedError(Exception):
        pass

    def stop(*_):
        raise StoppedError

    options = {"max_sequence_length": 128, "num_workers": 1, "progress": stop}
    tokenizer = BertTokenizer(TOKENS, max_sequence_length=128)
    with pytest.raises(StoppedError):
        write_records("out", FileText(find_sources("text.txt")), tokenizer, **options)
    assert make("vocab.txt", "out", "--text", "text.txt") == 0
    assert re.search(r"resumes with +1 finished blocks in \.out\.partial\n", capsys.readouterr().err)
    read_manifest("out", tokenizer=tokenizer)
    assert not (workplace / ".out.partial").exists()
