"""SavedModels: raw strings in, the checkpoint's answers out, and a verdict that can refuse."""

import json
import subprocess
import sys

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.errors import VerdictError
from bert_keras.export import artifacts, saved_model
from bert_keras.export.fresh_process import ask_saved_model
from bert_keras.pipelines.packing import pack

WORDS = "the cat sat on a mat and every dog ran off with its red hat . ,".split()
TEXTS = ["the cat sat", "", "every dog ran off with its red hat .", "Ünknown 中 😀"]
TOLERANCE = 5e-6  # measured: 7.2e-7


@pytest.fixture(scope="module")
def tokenizer():
    return bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS], max_sequence_length=19)


@pytest.fixture(scope="module")
def config(tokenizer):
    return bk.BertConfig(
        vocabulary_size=tokenizer.vocabulary_size,
        num_layers=2,
        num_heads=3,
        hidden_dim=24,
        intermediate_dim=40,
        max_sequence_length=19,
        initializer_range=0.3,
    )


def models(config):
    encoder = lambda pooler=True: bk.BertEncoder(config, pooler=pooler)  # noqa: E731
    return {
        "encoder": encoder(),
        "classifier": bk.BertClassifier(encoder(), 3, labels=["rot", "grün", "blau"]),
        "multi_label": bk.BertClassifier(encoder(), 3, problem="multi_label"),
        "regression": bk.BertClassifier(encoder(), 1, problem="regression"),
        "embedder": bk.BertEmbedder(encoder(), normalize=False),
        "token_classifier": bk.BertTokenClassifier(encoder(False), 4),
        "question_answerer": bk.BertQuestionAnswerer(encoder(False)),
        "masked_lm": bk.BertMaskedLM(encoder(False)),
        "pretrainer": bk.BertPretrainer(encoder()),
    }


@pytest.fixture(scope="module")
def all_models(config):
    return models(config)


@pytest.mark.parametrize("kind", list(models(bk.BertConfig.from_preset("tiny", vocabulary_size=9))))
def test_every_model_exports_with_a_passed_verdict(kind, all_models, tokenizer, tmp_path):
    bk.save(all_models[kind], tokenizer, tmp_path / "checkpoint")
    parity = bk.export(tmp_path / "checkpoint", tmp_path / "out", formats=["saved_model"])
    assert parity == json.loads((tmp_path / "out/parity.json").read_text())
    verdict = parity["artifacts"]["saved_model"]
    assert verdict["passed"]
    assert {name.split("/")[0] for name in verdict["outputs"]} >= {"ids"}
    assert max(verdict["outputs"].values()) < TOLERANCE


def test_a_classifier_answers_raw_strings_in_its_own_terms(all_models, tokenizer, tmp_path):
    model = all_models["classifier"]
    saved_model.write_saved_model(model, tokenizer, tmp_path / "model")
    requests = [("serving_default", {"text": np.array(TEXTS)})]
    requests += [("serving_default", {"text": np.array([text])}) for text in TEXTS]
    together, *alone = ask_saved_model(tmp_path / "model", requests)
    logits = np.asarray(model(pack(tokenizer, TEXTS, max_sequence_length=19))["logits"])
    np.testing.assert_allclose(together["logits"], logits, rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(together["label_id"], logits.argmax(-1))
    assert list(together["label"]) == [model.labels[i] for i in logits.argmax(-1)]
    np.testing.assert_allclose(together["probabilities"].sum(-1), 1.0, atol=1e-6)
    for i, answer in enumerate(alone):  # batch mates do not change an answer
        np.testing.assert_allclose(answer["logits"][0], together["logits"][i], rtol=0, atol=TOLERANCE)


def test_the_plain_runtime_imports_nothing_of_ours(all_models, tokenizer, tmp_path):
    saved_model.write_saved_model(all_models["embedder"], tokenizer, tmp_path / "model")
    code = (
        "import sys, tensorflow as tf, tensorflow_text\n"
        f"model = tf.saved_model.load({str(tmp_path / 'model')!r})\n"
        "answer = model.signatures['serving_default'](tf.constant(['a cat']))\n"
        "assert answer['embedding'].shape == (1, 24), answer\n"
        "assert not [name for name in sys.modules if name.startswith(('bert_keras', 'keras_hub'))]\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]


def swapped_segments(model, features):
    return model({**features, "segment_ids": features["padding_mask"]}, training=False)


def zeroed_segments(model, features):
    return model({**features, "segment_ids": 0 * features["segment_ids"]}, training=False)


def open_mask(model, features):
    return model({**features, "padding_mask": 0 * features["padding_mask"] + 1}, training=False)


@pytest.mark.parametrize("broken_call", [swapped_segments, zeroed_segments, open_mask])
def test_a_wrong_artifact_is_refused_and_not_published(broken_call, all_models, tokenizer, tmp_path, monkeypatch):
    bk.save(all_models["embedder"], tokenizer, tmp_path / "checkpoint")
    build = saved_model.ServedModel.__init__

    def broken(self, model, tokenizer):
        build(self, model, tokenizer)
        self._call = lambda features: broken_call(model, features)

    monkeypatch.setattr(saved_model.ServedModel, "__init__", broken)
    with pytest.raises(VerdictError, match=r"differs from .*checkpoint and was not published.*ids/embedding"):
        artifacts.export_checkpoint(tmp_path / "checkpoint", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint"]


def test_an_artifact_that_does_not_load_is_refused(tmp_path):
    with pytest.raises(VerdictError, match=r"nowhere does not run in a fresh process: .*nowhere"):
        ask_saved_model(tmp_path / "nowhere", [("ids", {"input_ids": np.zeros((1, 2), "int32")})])


def test_a_format_of_another_version_and_a_missing_vocabulary_are_told(all_models, tokenizer, tmp_path):
    with pytest.raises(bk.InputError, match=r"no format tflite in this version; expected saved_model"):
        bk.export(tmp_path, tmp_path / "out", formats=["tflite"])
    bk.save(all_models["encoder"], None, tmp_path / "bare")
    with pytest.raises(bk.InputError, match=r"bare has no vocabulary"):
        bk.export(tmp_path / "bare", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_export_is_a_package_and_a_function():
    import bert_keras.export.verdict

    assert callable(bk.export)
    assert bert_keras.export.verdict.TOLERANCE == 1e-4
