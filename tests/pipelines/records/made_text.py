"""Tokenized texts made of ids, for the tests of pretraining examples."""

import itertools

import numpy as np

from bert_keras.pipelines.records.tokenized_documents import Document, TokenizedText


def make_tokenized_text(documents):
    """Make a text of documents of sentences of ids, numbered from 0. No sentence and no document may be empty."""
    sentences = [sentence for document in documents for sentence in document]
    bounds = itertools.pairwise([0, *itertools.accumulate(map(len, documents))])
    return TokenizedText(
        ids=np.array([token for sentence in sentences for token in sentence], np.int32),
        starts=[0, *itertools.accumulate(map(len, sentences))],
        documents=[Document(number, 0, start, end) for number, (start, end) in enumerate(bounds)],
        others=[],
    )
