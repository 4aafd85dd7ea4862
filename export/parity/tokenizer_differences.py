"""Compare the tokenizer of an artifact's folder, which runs without TensorFlow, with the checkpoint's."""

import pathlib
from collections.abc import Sequence

import numpy as np

from bert_keras.checkpoints.vocabulary_file import open_tokenizer
from bert_keras.errors import UnsupportedTokenizerError
from bert_keras.pipelines.text.portable_tokenizer import PortableTokenizer
from bert_keras.pipelines.text.tokenizer import BertTokenizer


def count_tokenizer_differences(
    tokenizer: BertTokenizer, folder: pathlib.Path, texts: Sequence[str]
) -> dict[str, int] | None:
    """Count the texts whose ids differ between a checkpoint's tokenizer and a folder's in Hugging Face's library.

    The engines onnxruntime and openvino use the latter, and so do other tools that open the folder.

    Args:
        tokenizer: the checkpoint's tokenizer.
        folder: the folder with the tokenizer's files.
        texts: the texts to compare.

    Returns:
        `texts`, the number of texts, and `differ`, how many of them have other ids. None if the folder has no
        tokenizer, or one that only TensorFlow can run (MediaPipe's rules).
    """
    settings = open_tokenizer(folder)()
    if settings is None:
        return None
    try:
        portable = PortableTokenizer(**settings)
    except UnsupportedTokenizerError:
        return None
    ours, theirs = (one.tokenize_to_arrays(texts) for one in (tokenizer, portable))
    pairs = zip(*(np.split(ids.token_ids, ids.row_splits[1:-1]) for ids in (ours, theirs)), strict=True)
    return {"texts": len(texts), "differ": sum(not np.array_equal(one, other) for one, other in pairs)}
