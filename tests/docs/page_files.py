"""The files that pages of the documentation need besides the folder `demo/`: a reader's own texts and models."""

import csv
import gzip
import json
import pathlib
import shutil
from collections.abc import Callable

import numpy as np

import bert_keras as bk
from bert_keras.cli.main import main

REPOSITORY = pathlib.Path(__file__).parents[2]
# Thai words, of which the test makes clauses of different lengths without spaces, as Thai is written
_THAI = "แมว นั่ง อยู่ บน เสื่อ และ มองดู นก ที่ ต้นไม้ ใหญ่ หน้า บ้าน ทุก เช้า ก่อน ฝน จะ ตก ลงมา อย่าง หนัก ใน ฤดู ของ ประเทศ ไทย".split()


def _read_sentences(count: int = 200) -> list[str]:
    with open("demo/task/dev.csv", newline="", encoding="utf-8") as file:
        return [example["text"] for example in csv.DictReader(file)][:count]


def _make_documents(count: int = 200) -> str:
    """Return documents of five sentences, one per line."""
    sentences = _read_sentences(count)
    return "\n\n".join("\n".join(sentences[start : start + 5]) for start in range(0, len(sentences), 5)) + "\n"


def _write(path: str, text: str) -> None:
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    pathlib.Path(path).write_bytes(gzip.compress(data) if path.endswith(".gz") else data)


def _write_books() -> None:
    text = _make_documents()
    _write("books/one.txt", text)
    _write("books/two.txt", text[len(text) // 2 :])


def _write_thai() -> None:
    random = np.random.default_rng(0)
    clauses = ["".join(random.choice(_THAI, size)) for size in random.integers(3, 40, 200)]
    _write("thai/one.txt", "\n\n".join(clauses))


def _save_model(name: str) -> None:
    """Save an untrained model of 128 tokens with the vocabulary of the demo."""
    tokenizer = bk.BertTokenizer.from_vocabulary("demo/vocab.txt", max_sequence_length=128)
    config = bk.BertConfig.from_preset(
        "tiny", vocabulary_size=tokenizer.vocabulary_size, max_sequence_length=tokenizer.max_sequence_length
    )
    encoder = bk.BertEncoder(config, pooler=False)
    model = {
        "my/answerer": lambda: bk.BertQuestionAnswerer(encoder),
        "my/embedder": lambda: bk.BertEmbedder(encoder),
        "my/masked-lm": lambda: bk.BertMaskedLM(encoder),
        "my/tagger": lambda: bk.BertTokenClassifier(encoder, 3, labels=["O", "B-PER", "I-PER"]),
    }[name]()
    bk.save(model, tokenizer, name)


def _export_for_client(checkpoint: str, out: str) -> None:
    assert main(["export", checkpoint, out, "--to", "tflite", "--quantize", "dynamic_int8"]) == 0
    for name in ("bert_client.py", "unicode_tables.txt"):
        shutil.copy(REPOSITORY / "examples/python" / name, name)


def _export_classifier_for_client() -> None:
    _export_for_client("demo/classifier", "classifier")
    shutil.move("classifier/tflite", "tflite")


def _export_tagger_for_client() -> None:
    _save_model("my/tagger")
    _export_for_client("my/tagger", "tagger")


MAKERS: dict[str, Callable[[], object]] = {
    "books/": _write_books,
    "bert_client.py": lambda: [
        shutil.copy(REPOSITORY / "examples/python" / name, name) for name in ("bert_client.py", "unicode_tables.txt")
    ],
    "dump.gz": lambda: _write("dump.gz", _make_documents()),
    "my/answerer": lambda: _save_model("my/answerer"),
    "my/embedder": lambda: _save_model("my/embedder"),
    "my/masked-lm": lambda: _save_model("my/masked-lm"),
    "my/tagger": lambda: _save_model("my/tagger"),
    "my_text/": lambda: _write("my_text/one.txt", _make_documents()),
    "novels.txt.gz": lambda: _write("novels.txt.gz", _make_documents()),
    "plays.txt": lambda: _write("plays.txt", _make_documents()),
    "plays_test.txt": lambda: _write("plays_test.txt", "\n".join(_read_sentences(5))),
    "tagger/tflite": _export_tagger_for_client,
    "texts.txt": lambda: _write("texts.txt", "\n".join(_read_sentences(20))),
    "tflite": _export_classifier_for_client,
    "thai/": _write_thai,
    "web/": lambda: _write("web/a/b.jsonl.gz", json.dumps({"body": _make_documents()}) + "\n"),
    "wiki_train.txt": lambda: _write("wiki_train.txt", _make_documents()),
}
# what each page needs: it says so itself, "stand for your own text" or the like
NEEDS = {
    "docs/guide/browser.md": ["my/tagger"],
    "docs/guide/domain_adaptation.md": ["my_text/", "wiki_train.txt", "plays.txt", "plays_test.txt"],
    "docs/guide/export.md": ["texts.txt"],
    "docs/guide/finetuning.md": ["my/answerer"],
    "docs/guide/languages.md": ["thai/"],
    "docs/guide/phone.md": ["bert_client.py"],
    "docs/guide/prediction.md": ["my/answerer"],
    "docs/guide/pretraining.md": ["books/"],
    "docs/guide/records.md": ["novels.txt.gz", "books/"],
    "docs/guide/serving.md": ["my/tagger", "my/answerer", "my/masked-lm"],
    "docs/guide/vocabulary.md": ["novels.txt.gz", "books/", "web/", "dump.gz"],
    "examples/browser/README.md": ["my/tagger", "my/answerer", "my/embedder"],
    "examples/python/README.md": ["tflite", "tagger/tflite"],
}


def make_page_files(page: str) -> None:
    """Write what a page needs into the current folder, which contains `demo/`."""
    for name in NEEDS.get(page, []):
        MAKERS[name]()
