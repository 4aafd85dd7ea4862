"""A DistilBERT of transformers through every stage: fine-tuning, LoRA, export, serving, plan, and back."""

import json

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.cli.main import main
from tests.serving.running_server import RunningServer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "good", "bad", "film"]
TRAIN = [{"text": text, "label": label} for text, label in [("good film", "yes"), ("bad film", "no")] * 6]
SETTINGS = {"num_epochs": 2, "batch_size": 4, "max_sequence_length": 12, "verbose": False}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """The folder of a masked LM as transformers writes it, with a vocabulary."""
    import torch
    import transformers

    folder = tmp_path_factory.mktemp("distilbert") / "theirs"
    torch.manual_seed(3)
    config = transformers.DistilBertConfig(
        vocab_size=len(WORDS), dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=20
    )
    transformers.DistilBertForMaskedLM(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "DistilBertTokenizer"}))
    return folder


@pytest.fixture(scope="module")
def classifier(theirs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("distilbert") / "classifier"
    bk.finetune(theirs, folder, train=TRAIN, dev=TRAIN, **SETTINGS)
    return folder


def test_a_finetuned_model_answers_as_in_a_pipeline_of_transformers(classifier):
    import transformers

    pipeline = transformers.pipeline("text-classification", model=str(classifier), top_k=None)
    theirs = {one["label"]: one["score"] for one in pipeline("good film")[0]}
    ours = bk.Predictor.from_checkpoint(classifier)(["good film"], top=2)[0]["best"]
    wanted = sorted(theirs.items(), key=lambda item: -item[1])
    assert [one["label"] for one in ours] == [label for label, _ in wanted]
    np.testing.assert_allclose([one["probability"] for one in ours], [one for _, one in wanted], rtol=0, atol=2e-6)


def test_the_second_text_follows_the_separator_without_segments(classifier):
    """Segment ids are read and change nothing, as in transformers, which does not accept them."""
    model = bk.load(classifier)
    ids = np.array([[2, 13, 3, 14, 3]])
    outputs = [
        model({"token_ids": ids, "padding_mask": np.ones_like(ids), "segment_ids": ids * 0 + one}) for one in (0, 1)
    ]
    np.testing.assert_array_equal(*(np.array(one["logits"]) for one in outputs))
    assert not any("segment" in variable.path for variable in model.variables)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # by PEFT
def test_adapters_are_trained_and_merged(theirs, tmp_path):
    from peft import PeftModel
    from transformers import DistilBertForSequenceClassification

    bk.finetune(theirs, tmp_path / "lora", train=TRAIN, dev=TRAIN, lora_rank=2, **SETTINGS)
    base = DistilBertForSequenceClassification.from_pretrained(theirs, num_labels=2)
    merged = PeftModel.from_pretrained(base, tmp_path / "lora/adapter").merge_and_unload().state_dict()
    ours = DistilBertForSequenceClassification.from_pretrained(tmp_path / "lora").state_dict()
    for name, value in ours.items():
        np.testing.assert_allclose(merged[name].numpy(), value.numpy(), rtol=0, atol=2e-6, err_msg=name)


def test_keras_hub_is_refused(theirs, tmp_path, capsys):
    values = json.loads((theirs / "config.json").read_text())
    other = tmp_path / "tanh"
    model = bk.load(theirs)
    bk.save(model, bk.load_tokenizer(theirs), other)
    (other / "config.json").write_text(json.dumps({**values, "activation": "gelu_new"}))
    (other / "SHA256SUMS").unlink()
    assert main(["convert", str(other), str(tmp_path / "out"), "--to", "keras_hub"]) == 2
    assert "model_type is 'distilbert'; expected an encoder that KerasHub's BERT has" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pooler": True}, "pooler is True, expected False"),
        ({"layer_norm_epsilon": 1e-5}, "layer_norm_epsilon is 1e-05, expected 1e-12"),
        ({"type_vocabulary_size": 1}, "type_vocabulary_size is 1, expected 2"),
        ({"embedding_dim": 4}, "embedding_dim is 4, expected 128"),
    ],
)
def test_settings_that_its_folder_cannot_hold_are_refused(settings, message):
    settings = {"pooler": False, **settings}
    pooler = settings.pop("pooler")
    config = bk.BertConfig.from_preset("tiny", model_type="distilbert", **settings)
    with pytest.raises(bk.InputError, match=f"model_type 'distilbert' cannot be built: {message}: change"):
        bk.BertEncoder(config, pooler=pooler)


def test_an_embedder_answers_as_sentence_transformers(theirs, tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    texts = ["good film", "bad film a"]
    SentenceTransformer(modules=[Transformer(str(theirs)), Pooling(16)]).save(str(tmp_path / "theirs"))
    expected = SentenceTransformer(str(tmp_path / "theirs")).encode(texts)
    ours = bk.Predictor.from_checkpoint(tmp_path / "theirs")(texts)
    np.testing.assert_allclose([answer["embedding"] for answer in ours], expected, rtol=0, atol=2e-6)
    bk.save(bk.load(tmp_path / "theirs"), bk.load_tokenizer(tmp_path / "theirs"), tmp_path / "ours")
    np.testing.assert_allclose(SentenceTransformer(str(tmp_path / "ours")).encode(texts), expected, rtol=0, atol=2e-6)


@pytest.mark.slow  # starts processes: three artifacts and a server
def test_artifacts_and_the_server_answer_as_the_checkpoint(classifier, tmp_path):
    report = bk.export_model(
        classifier, tmp_path / "art", ["saved_model", "tflite", "onnx"], quantizations=["float32", "dynamic_int8"]
    )
    assert len(report["artifacts"]) == 5
    wanted = bk.Predictor.from_checkpoint(classifier)(["good film"])[0]
    with RunningServer({"films": tmp_path / "art/onnx"}) as server:
        answer = server.post("/classify", {"text": "good film"}).json()
    assert answer["label"] == wanted["label"]
    assert answer["probability"] == pytest.approx(wanted["probability"], abs=2e-6)
