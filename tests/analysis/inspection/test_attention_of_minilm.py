"""Attention of all-MiniLM-L6-v2 on real sentences against transformers' `output_attentions`."""

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.analysis.inspection.forward_pass import make_input_sequence, run_forward_pass

TEXT = "The keys to the old cabinet are on the table, although nobody remembers who left them there."
SECOND = "Who forgot the keys of the cupboard?"
# torch and a real model: a quick test of the attention scores of a tiny twin is in tests/checkpoints
pytestmark = pytest.mark.slow
TOLERANCE = 1e-5  # of probabilities; measured: 1.9e-6


@pytest.fixture(scope="module")
def expect(minilm):
    """A function that returns the attention of transformers' model, (L, N, S, S) per sequence, and the padding mask."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    model = transformers.BertModel.from_pretrained(minilm, attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm)

    def attention(texts, seconds=None, **options):
        batch = tokenizer(texts, seconds, return_tensors="pt", padding=True)
        with torch.no_grad():
            outputs = model(**batch, output_attentions=True, **options)
        return np.stack([layer.numpy() for layer in outputs.attentions], axis=1), batch["attention_mask"].numpy()

    return attention


@pytest.mark.parametrize("second", [None, SECOND])
def test_attention_matches_transformers(minilm, expect, second):
    inspection = bk.inspect(minilm, TEXT, second)
    [expected], _ = expect(TEXT, second)
    assert inspection.attention.shape == (6, 12, len(inspection.tokens), len(inspection.tokens))
    np.testing.assert_allclose(inspection.attention, expected, rtol=0, atol=TOLERANCE)


def test_attention_matches_a_padded_batch_of_transformers(minilm, expect):
    model, tokenizer = bk.load(minilm), bk.load_tokenizer(minilm)
    expected, mask = expect([TEXT, SECOND])
    for text, padded, is_real in zip((TEXT, SECOND), expected, mask.astype(bool), strict=True):
        attention = run_forward_pass(model, make_input_sequence(tokenizer, model.encoder.config, text)).attention
        np.testing.assert_allclose(attention, padded[:, :, is_real][:, :, :, is_real], rtol=0, atol=TOLERANCE)
