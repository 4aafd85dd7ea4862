"""`fill-mask` makes the same predictions as the transformers pipeline, and leaves the rest of the text unchanged."""

import dataclasses
import io
import json
import pathlib
import re

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.cli.main import main

WORDS = "the cat sat on a mat and every dog ran off with its red hat . , ##s ##ed".split()  # as in conftest.py
TEXTS = [
    "The cat [MASK] on a mat.",
    "[MASK]",
    "[MASK]s every dog [MASK],[MASK] hat",
    "the zebra [SEP] [MASK] cat [PAD] off",
    "A red hat and [MASK]",
]
RECORDED = pathlib.Path(__file__).with_name("fill_mask_predictions.json")  # predictions of the transformers pipeline
SIZES = {"num_layers": 2, "num_heads": 3, "hidden_dim": 24, "intermediate_dim": 40, "max_sequence_length": 19}
KINDS = {  # keyed by the transformers class that loads the folder
    "BertForMaskedLM": lambda config: bk.BertMaskedLM(bk.BertEncoder(config, pooler=False)),
    "BertForPreTraining": lambda config: bk.BertPretrainer(bk.BertEncoder(config)),
    "ElectraForMaskedLM": lambda config: bk.BertMaskedLM(
        bk.BertEncoder(dataclasses.replace(config, embedding_dim=12), pooler=False), head_act="gelu"
    ),
}


@pytest.fixture(scope="module")
def make_folder(tokenizer, perturb, tmp_path_factory):
    """Function that writes a folder of one of `KINDS`, with random weights from a seed."""

    def make(kind):
        folder = tmp_path_factory.mktemp("twin") / kind
        model = KINDS[kind](bk.BertConfig(vocabulary_size=tokenizer.vocabulary_size, **SIZES))
        perturb(model)
        bk.save(model, tokenizer, folder)
        return folder

    return make


@pytest.fixture(scope="module")
def folder(make_folder):
    return make_folder("BertForMaskedLM")


def assert_close(filled_masks, others):
    """Check that both contain the same predictions for each mask of each text, with the same probabilities."""
    for ours, theirs in zip(filled_masks, others, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert [token for token, _ in one] == [token for token, _ in other]
            # measured: 6e-7
            np.testing.assert_allclose([p for _, p in one], [p for _, p in other], rtol=0, atol=5e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_equal_those_recorded_from_transformers(kind, make_folder):
    folder = make_folder(kind)
    filled = bk.fill_mask(bk.load(folder), bk.load_tokenizer(folder), TEXTS, top_k=7)
    assert [len(masks) for masks in filled] == [1, 1, 3, 1, 1]
    filled_masks = [
        [[(one.token, one.probability) for one in predictions] for predictions in masks] for masks in filled
    ]
    assert_close(filled_masks, json.loads(RECORDED.read_text())[kind])
    scores = {round(p, 3) for masks in filled_masks for predictions in masks for _, p in predictions}
    assert len(scores) > 20, "the probabilities are too similar for a meaningful test"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_recorded_predictions_equal_those_of_the_installed_transformers(kind, make_folder):
    assert_close(predict_with_transformers(make_folder(kind)), json.loads(RECORDED.read_text())[kind])


def predict_with_transformers(folder) -> list:
    """Return the (token, probability) predictions of the transformers pipeline for each mask of each text."""
    import transformers

    model = transformers.AutoModelForMaskedLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    pipeline = transformers.pipeline("fill-mask", model=model, tokenizer=tokenizer)
    outputs = [pipeline(text, top_k=7) for text in TEXTS]
    outputs = [[output] if isinstance(output[0], dict) else output for output in outputs]
    return [[[(one["token_str"], one["score"]) for one in predictions] for predictions in masks] for masks in outputs]


def test_texts_are_independent_and_large_batches_keep_their_order(folder):
    model, tokenizer = bk.load(folder), bk.load_tokenizer(folder)
    texts = [f"{'the ' * (number % 11)}[MASK]{' [MASK]' * (number % 3)}" for number in range(71)]
    together = bk.fill_mask(model, tokenizer, texts, top_k=2)
    for text, masks in list(zip(texts, together, strict=True))[::20]:
        [separate] = bk.fill_mask(model, tokenizer, [text], top_k=2)
        assert [[one.token for one in predictions] for predictions in separate] == [
            [one.token for one in predictions] for predictions in masks
        ]
        np.testing.assert_allclose(
            [[one.probability for one in predictions] for predictions in separate],
            [[one.probability for one in predictions] for predictions in masks],
            rtol=0,
            atol=2e-6,  # measured: 3e-7
        )


def test_filled_texts_differ_from_the_input_only_at_the_mask(folder):
    model, tokenizer = bk.load(folder), bk.load_tokenizer(folder)
    [[first, second]] = bk.fill_mask(
        model, tokenizer, ["  The CAFÉ \t[MASK]; [MASK]s!"], top_k=tokenizer.vocabulary_size
    )
    assert {one.token for one in first} == set(tokenizer.vocabulary)
    assert sum(one.probability for one in first) == pytest.approx(1)
    texts = {one.token: one.text for one in first}
    assert texts["red"] == "  The CAFÉ \tred; [MASK]s!"
    assert texts["##ed"] == "  The CAFÉed; [MASK]s!"
    assert {one.token: one.text for one in second}["hat"] == "  The CAFÉ \t[MASK]; hats!"


def test_electra_pretrainer_fills_masks_with_its_generator(tokenizer):
    config = bk.BertConfig(
        vocabulary_size=tokenizer.vocabulary_size,
        num_layers=2,
        num_heads=3,
        hidden_dim=24,
        intermediate_dim=40,
        max_sequence_length=19,
    )
    encoder = bk.BertEncoder(config, pooler=False)
    model = bk.ElectraPretrainer(encoder, generator_config=config)
    assert bk.fill_mask(model, tokenizer, TEXTS[:1]) == bk.fill_mask(model.generator, tokenizer, TEXTS[:1])
    with pytest.raises(
        bk.InputError, match="ElectraPretrainer has ELECTRA's head for replaced tokens and no generator"
    ):
        bk.fill_mask(bk.ElectraPretrainer(encoder), tokenizer, TEXTS[:1])


def test_invalid_settings_are_rejected(folder, tokenizer):
    model = bk.load(folder)
    with pytest.raises(bk.InputError, match="top_k is 25; expected an integer from 1 to 24"):
        bk.fill_mask(model, tokenizer, TEXTS, top_k=25)
    with pytest.raises(bk.InputError, match=r"top_k is 2\.5; expected an integer"):
        bk.fill_mask(model, tokenizer, TEXTS, top_k=2.5)
    with pytest.raises(bk.InputError, match="the tokenizer has 25 tokens and the model's token table 24 rows"):
        bk.fill_mask(model, bk.BertTokenizer([*tokenizer.vocabulary, "new"]), TEXTS)
    with pytest.raises(bk.InputError, match="there are no texts to fill"):
        bk.fill_mask(model, tokenizer, [])
    with pytest.raises(bk.InputError, match="received one text; expected a batch of texts"):
        bk.fill_mask(model, tokenizer, "[MASK]")


FAULTS = {
    "text without a mask": (
        ["twin", "a [MASK]", "the cat sat"],
        r"text 2 \('the cat sat'\) has no \[MASK\]; expected at least one: write it in place of a word",
    ),
    "text too long": (
        ["twin", "[MASK]" + " the" * 17],
        r"text 1 .* has 20 tokens with \[CLS\] and \[SEP\]; the model accepts up to 19: cut the text",
    ),
    "model with another head": (["checkpoint", "[MASK]"], r"a BertEncoder has no head; expected a masked-LM head"),
}


@pytest.fixture
def workplace(tmp_path, folder, checkpoint, monkeypatch):
    (tmp_path / "twin").symlink_to(folder)
    (tmp_path / "checkpoint").symlink_to(checkpoint)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_input_prints_one_sentence_with_status_2(fault, workplace, monkeypatch, capsys):
    command, message = FAULTS[fault]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\n \n")))
    assert main(["fill-mask", *command]) == 2
    last_line = capsys.readouterr().err.strip().split("\n")[-1]
    assert last_line.startswith("bert-keras fill-mask: ")
    assert re.search(message, last_line)


def test_error_for_a_classifier_names_its_head(workplace, tokenizer, checkpoint, capsys):
    bk.save(bk.BertClassifier.from_checkpoint(checkpoint, num_classes=3), tokenizer, workplace / "classifier")
    assert main(["fill-mask", "classifier", "[MASK]"]) == 2
    assert "a BertClassifier has a classification head; expected a masked-LM head" in capsys.readouterr().err


def test_folder_without_vocabulary_is_rejected(workplace, make_folder, capsys):
    folder = make_folder("BertForMaskedLM")
    for name in ("vocab.txt", "tokenizer.json", "SHA256SUMS"):
        (folder / name).unlink()
    assert main(["fill-mask", str(folder), "[MASK]"]) == 2
    assert "has no vocabulary, neither tokenizer.json nor vocab.txt" in capsys.readouterr().err


def test_table_lists_each_prediction_with_its_probability_and_text(workplace, capsys):
    assert main(["fill-mask", "twin", "The [MASK] sat.", "a [MASK] [MASK]", "--top-k", "3"]) == 0
    printed = capsys.readouterr()
    assert re.search(r"bert-keras fill-mask\n  model +twin \(BertMaskedLM, [\d,]+ parameters\)", printed.err)
    proposal = r"  +\d+\.\d%  \S+ +"
    first = rf"The \[MASK\] sat\.\n({proposal}The ?\S+ sat\.\n){{3}}"
    second = rf"a \[MASK\] \[MASK\]\n  \[MASK\] 1 of 2\n({proposal}a.*\n){{3}}  \[MASK\] 2 of 2\n({proposal}a.*\n){{3}}"
    assert re.fullmatch(f"{first}\n{second}", printed.out)


def test_json_equals_the_python_result_and_standard_input_is_supported(workplace, folder, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"the [MASK] ran\n\n  [MASK] hat \n")))
    assert main(["fill-mask", "twin", "a [MASK]", "-", "--top-k", "2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    texts = ["a [MASK]", "the [MASK] ran", "[MASK] hat"]
    assert [entry["text"] for entry in result["texts"]] == texts
    filled = bk.fill_mask(bk.load(folder), bk.load_tokenizer(folder), texts, top_k=2)
    for entry, masks in zip(result["texts"], filled, strict=True):
        assert entry["masks"] == [[vars(one) for one in predictions] for predictions in masks]


def test_model_with_nan_outputs_is_rejected(folder, tmp_path, capsys):
    model, tokenizer = bk.load(folder), bk.load_tokenizer(folder)
    bias = np.zeros(tokenizer.vocabulary_size, "float32")
    bias[7] = np.nan
    model.mlm_head.bias.assign(bias)
    with pytest.raises(bk.InputError, match=r"outputs NaN or infinity, as do its weights \(.*mlm_head/bias\)"):
        bk.fill_mask(model, tokenizer, TEXTS[:1])
    bk.save(model, tokenizer, tmp_path / "nan")
    assert main(["fill-mask", str(tmp_path / "nan"), TEXTS[0], "--json"]) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert "tensor cls.predictions.bias contains NaN or infinity; expected finite numbers" in written.err
