"""Every command accepts folders of transformers 5, which have a `tokenizer.json` and no `vocab.txt`."""

import csv
import shlex

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.cli.main import main
from bert_keras.pipelines.records.making_records import write_records

TOKENS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[E1]"),
    *"the cat sat on a mat dog ran red hat café . , 中 ##s ##ed".split(),
    *(f"word{i}" for i in range(97 - 6 - 16 - 2)),
]
TEXTS = ["The Cat sat on a red hat.", "a dog ran, [E1] Covid-19s cafés 中", "mat NEWWORDs"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def write_folder(make_twin, tmp_path_factory):
    """A function that saves a model with transformers: 95 tokens, two added ones, a table of 97 rows."""
    from transformers import BertTokenizer

    def write(architecture: str, **changes):
        folder = tmp_path_factory.mktemp("theirs") / architecture
        twin = make_twin(architecture, **changes)
        twin.save_pretrained(folder)
        (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS), encoding="utf-8")
        tokenizer = BertTokenizer.from_pretrained(folder, extra_special_tokens=["[E1]"], model_max_length=17)
        tokenizer.add_tokens(["Covid", "newword"])
        (folder / "vocab.txt").unlink()
        tokenizer.save_pretrained(folder)
        assert not (folder / "vocab.txt").exists()
        return folder, twin, tokenizer

    return write


@pytest.fixture(scope="module")
def classifier(write_folder):
    """A classifier with two labels."""
    return write_folder("BertForSequenceClassification", id2label={0: "no", 1: "yes"}, label2id={"no": 0, "yes": 1})


@pytest.fixture(scope="module")
def masked_lm(write_folder):
    """A masked-LM model."""
    return write_folder("BertForMaskedLM")


@pytest.fixture
def table(tmp_path):
    """A table of examples."""
    with open(tmp_path / "data.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [("text", "label"), *((text, ["no", "yes"][i % 2]) for i, text in enumerate(TEXTS * 6))]
        )
    return tmp_path / "data.csv"


def test_predict_equals_transformers(classifier):
    from transformers import pipeline

    folder, twin, tokenizer = classifier
    theirs = pipeline("text-classification", model=twin, tokenizer=tokenizer)(TEXTS)
    for ours, one in zip(bk.Predictor.from_checkpoint(folder)(TEXTS), theirs, strict=True):
        assert ours["label"] == one["label"]
        np.testing.assert_allclose(max(ours["probabilities"]), one["score"], rtol=1e-4)


def test_fill_mask_equals_transformers(masked_lm):
    from transformers import pipeline

    folder, twin, tokenizer = masked_lm
    text = "the [MASK] sat, COVID newword"
    theirs = pipeline("fill-mask", model=twin, tokenizer=tokenizer)(text, top_k=5)
    ((ours,),) = bk.fill_mask(bk.load(folder), bk.load_tokenizer(folder), [text])
    assert [one.token_id for one in ours] == [one["token"] for one in theirs]
    np.testing.assert_allclose([one.probability for one in ours], [one["score"] for one in theirs], rtol=1e-4)


def test_every_command_accepts_the_folder(classifier, masked_lm, table, tmp_path):
    (folder, _, tokenizer), (lm, *_) = classifier, masked_lm
    commands = [
        ["evaluate", folder, table],
        ["finetune", folder, tmp_path / "tuned", "--train", table, "--dev", table, "--epochs", "1"],
        ["predict", tmp_path / "tuned", TEXTS[1]],
        ["export", folder, tmp_path / "artifacts", "--to", "saved_model"],
        ["verify", tmp_path / "artifacts/saved_model/1", folder],
        ["inspect", folder, TEXTS[0], "--out", tmp_path / "page", "--no-pictures"],
        ["fill-mask", lm, "the [MASK]"],
        ["convert", folder, tmp_path / "converted"],
        ["plan", folder],
    ]
    for words in commands:
        assert main([str(word) for word in words]) == 0, words
    converted = bk.load_tokenizer(tmp_path / "converted")
    assert converted.tokenize(TEXTS).to_list() == tokenizer(TEXTS, add_special_tokens=False)["input_ids"]
    assert (tmp_path / "converted/vocab.txt").exists()


def test_transformers_loads_a_converted_folder_with_the_same_ids(classifier, tmp_path):
    from transformers import AutoTokenizer

    folder, _, tokenizer = classifier
    assert bk.convert(folder, tmp_path / "out").not_carried_over == []
    again = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert again(TEXTS)["input_ids"] == tokenizer(TEXTS)["input_ids"]


def test_pretrain_starts_from_the_folder(masked_lm, tmp_path, capsys, monkeypatch):
    folder, *_ = masked_lm
    records, out = tmp_path / "records", tmp_path / "out"
    lines = [f"the cat sat on word{i} . a Covid dog ran" for i in range(40)]
    settings = {"sentence_objective": "none", "max_sequence_length": 17, "held_out_rate": 0.0}
    write_records(records, lines, bk.load_tokenizer(folder), **settings)
    steps = ["--objective", "mlm", "--steps", "2", "--batch-size", "4"]
    assert main(["pretrain", str(records), str(out), "--start-from", str(folder), *steps]) == 0
    assert bk.load_tokenizer(out).added_tokens == ("Covid", "newword")
    without = bk.BertTokenizer(bk.load_tokenizer(folder).vocabulary, additional_special_tokens=["[E1]"])
    write_records(tmp_path / "other", lines, without, **settings)
    assert main(["pretrain", str(tmp_path / "other"), str(tmp_path / "no"), "--start-from", str(folder), *steps]) == 2
    told = capsys.readouterr().err
    assert "added_tokens is ['Covid', 'newword'] and []" in told
    command = shlex.split(told.strip().rpartition("  bert-keras ")[2])  # the command in the message, with another text
    again = tmp_path / "other_again"
    assert command[:4] == ["make-records", str(folder), str(again), "--text"]
    (tmp_path / "TEXT").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    assert main(command) == 0
    assert main(["pretrain", str(again), str(tmp_path / "yes"), "--start-from", str(folder), *steps]) == 0
