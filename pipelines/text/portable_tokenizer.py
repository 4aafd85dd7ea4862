"""`PortableTokenizer`: the tokenizer of a model folder without TensorFlow, run by Hugging Face's `tokenizers`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras.errors import UnsupportedTokenizerError
from bert_keras.pipelines.text.text_array import as_text_array
from bert_keras.pipelines.text.text_rules import TextRules
from bert_keras.pipelines.text.token_arrays import TokenArrays
from bert_keras.pipelines.text.tokenizer_folder import check_length
from bert_keras.pipelines.text.tokenizer_writing import make_rust_tokenizer
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS, check_special_tokens, check_vocabulary


class PortableTokenizer:
    """Tokenizer that splits text into WordPiece ids without TensorFlow, for programs that only predict.

    It is Hugging Face's library with the vocabulary and the text rules of a `BertTokenizer`, as `BertTokenizer.save`
    writes them to `tokenizer.json`. Its Unicode version is that of the library, so the ids of rare characters can
    differ from `BertTokenizer`'s (`docs/reference/tokenizer.md` lists them); the parity report of an ONNX artifact
    counts the texts that do. Special tokens in a text are ordinary text, as in `BertTokenizer.tokenize`.

    Args:
        vocabulary: the tokens in the order of their ids, including `SPECIAL_TOKENS`.
        additional_special_tokens, added_tokens, max_sequence_length: see `BertTokenizer`.
        **rules: fields of `TextRules`.

    Raises:
        InputError: the vocabulary or a setting is invalid, or the text rules are MediaPipe's.

    Example:
        >>> tokenizer = PortableTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing"])
        >>> tokenizer.tokenize_to_arrays(["Playing pl\u00e1y"]).token_ids.tolist()
        [5, 6, 5]
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        additional_special_tokens: Sequence[str] = (),
        added_tokens: Sequence[str] = (),
        max_sequence_length: int | None = None,
        **rules: Any,
    ):
        self.vocabulary = tuple(vocabulary)
        check_vocabulary(self.vocabulary)
        self.rules = TextRules(**rules)
        if self.rules.is_mediapipe:
            raise UnsupportedTokenizerError(
                "the tokenizer has MediaPipe's text rules, which run in TensorFlow only; expected BERT's: use the "
                "engine tensorflow"
            )
        ids = {token: index for index, token in enumerate(self.vocabulary)}
        check_special_tokens((*SPECIAL_TOKENS, *additional_special_tokens, *added_tokens), ids)
        self.pad_id, self.cls_id, self.sep_id = (ids[token] for token in ("[PAD]", "[CLS]", "[SEP]"))
        self.max_sequence_length = check_length(max_sequence_length)
        self._rust = make_rust_tokenizer(
            self.vocabulary, self.rules, unsplit_tokens=tuple(additional_special_tokens), added_tokens=added_tokens
        )

    @property
    def vocabulary_size(self) -> int:
        """V, the number of tokens."""
        return len(self.vocabulary)

    def tokenize_to_arrays(self, texts: Any, *, with_offsets: bool = False) -> TokenArrays:
        """Return the tokens of all texts as NumPy arrays.

        Args:
            texts: `(B,)` strings.
            with_offsets: whether to compute the range of characters and the word of each token.

        Raises:
            InputError: `texts` is not a batch of strings.
        """
        texts = [text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in as_text_array(texts)]
        run = self._rust.encode_batch if with_offsets else self._rust.encode_batch_fast
        encodings = run(texts, add_special_tokens=False)
        ids = [encoding.ids for encoding in encodings]
        row_splits = np.cumsum([0, *map(len, ids)])
        token_ids = np.fromiter((number for text in ids for number in text), np.int32, row_splits[-1])
        if not with_offsets:
            return TokenArrays(token_ids, row_splits)
        offsets = np.array([pair for encoding in encodings for pair in encoding.offsets], np.int32).reshape(-1, 2)
        word_ids = np.array([number for encoding in encodings for number in encoding.word_ids], np.int32)
        return TokenArrays(token_ids, row_splits, offsets[:, 0], offsets[:, 1], word_ids)
