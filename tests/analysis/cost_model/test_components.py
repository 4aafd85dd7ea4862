"""Estimated file sizes against real files."""

import pytest

import bert_keras as bk
from bert_keras.analysis.cost_model.components import estimate_file_sizes


def test_a_checkpoint_has_the_estimated_size(tmp_path):
    tokenizer = bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(995))])
    model = bk.BertClassifier(bk.BertEncoder(bk.BertConfig.from_preset("tiny", vocabulary_size=1000)), 3)
    bk.save(model, tokenizer, tmp_path / "model")
    sizes = estimate_file_sizes(model)
    assert (tmp_path / "model" / "model.safetensors").stat().st_size == pytest.approx(
        sizes["checkpoint (safetensors)"], rel=0.02
    )
    assert sizes["TFLite float16"] * 2 == sizes["TFLite float32"] == sizes["SavedModel"] == 4 * model.count_params()


def test_int8_files_of_minilm_have_the_measured_ratio_to_float32():
    config = bk.BertConfig(
        vocabulary_size=30522,
        hidden_dim=384,
        num_layers=6,
        num_heads=12,
        intermediate_dim=1536,
        max_sequence_length=512,
    )
    sizes = estimate_file_sizes(bk.BertClassifier(bk.BertEncoder(config), 2))
    assert sizes["ONNX int8"] / sizes["ONNX"] == pytest.approx(0.2549, rel=0.02)  # the real file, docs/guide/export.md
    assert sizes["TFLite dynamic_int8"] / sizes["TFLite float32"] == pytest.approx(0.2561, rel=0.02)
