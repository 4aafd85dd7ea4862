"""Attention of all-MiniLM-L6-v2 on real sentences against transformers' `output_attentions`."""

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.analysis.inspection.forward_pass import look
from bert_keras.analysis.inspection.input_sequence import row_of

TEXT = "The keys to the old cabinet are on the table, although nobody remembers who left them there."
SECOND = "Who forgot the keys of the cupboard?"
# torch and a real model: a quick test of the attention scores of a tiny twin is in tests/checkpoints
pytestmark = pytest.mark.slow
TOLERANCE = 1e-5  # of shares; measured: 1.9e-6


@pytest.fixture(scope="module")
def theirs(minilm):
    """A function that runs transformers' model and gives its attention, a row of it (L, N, S, S)."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    model = transformers.BertModel.from_pretrained(minilm, attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm)

    def attention(texts, seconds=None, **options):
        batch = tokenizer(texts, seconds, return_tensors="pt", padding=True)
        with torch.no_grad():
            found = model(**batch, output_attentions=True, **options)
        return np.stack([one.numpy() for one in found.attentions], axis=1), batch["attention_mask"].numpy()

    return attention


@pytest.mark.parametrize("second", [None, SECOND])
def test_attention_is_that_of_transformers(minilm, theirs, second):
    seen = bk.inspect(minilm, TEXT, second)
    [expected], _ = theirs(TEXT, second)
    assert seen.attention.shape == (6, 12, len(seen.tokens), len(seen.tokens))
    np.testing.assert_allclose(seen.attention, expected, rtol=0, atol=TOLERANCE)


def test_attention_is_that_of_transformers_in_a_padded_batch(minilm, theirs):
    model, tokenizer = bk.load(minilm), bk.load_tokenizer(minilm)
    expected, mask = theirs([TEXT, SECOND])
    for text, of_text, is_real in zip((TEXT, SECOND), expected, mask.astype(bool), strict=True):
        seen = look(model, row_of(tokenizer, model.encoder.config, text))
        np.testing.assert_allclose(seen.attention, of_text[:, :, is_real][:, :, :, is_real], rtol=0, atol=TOLERANCE)
