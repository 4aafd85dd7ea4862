"""Sizes of files against files that were written."""

import pytest

import bert_keras as bk
from bert_keras.analysis.cost_model.file_sizes import artifact_bytes


def test_a_checkpoint_is_as_large_as_was_said(tmp_path):
    tokenizer = bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(995))])
    model = bk.BertClassifier(bk.BertEncoder(bk.BertConfig.from_preset("tiny", vocabulary_size=1000)), 3)
    bk.save(model, tokenizer, tmp_path / "model")
    said = artifact_bytes(model)
    assert (tmp_path / "model" / "model.safetensors").stat().st_size == pytest.approx(
        said["checkpoint (safetensors)"], rel=0.02
    )
    assert said["TFLite float16"] * 2 == said["TFLite float32"] == said["SavedModel"] == 4 * model.count_params()


def test_eight_bits_of_minilm_are_a_quarter_and_a_little():
    config = bk.BertConfig(
        vocabulary_size=30522,
        hidden_dim=384,
        num_layers=6,
        num_heads=12,
        intermediate_dim=1536,
        max_sequence_length=512,
    )
    said = artifact_bytes(bk.BertClassifier(bk.BertEncoder(config), 2))
    assert said["ONNX int8"] / said["ONNX"] == pytest.approx(0.2549, rel=0.02)  # the file, docs/guide/export.md
    assert said["TFLite dynamic_int8"] / said["TFLite float32"] == pytest.approx(0.2561, rel=0.02)
