"""Reading `tokenizer.json`, the file of Hugging Face's `tokenizers`, if it is BERT's WordPiece.

transformers 5 and sentence-transformers 6 write no other vocabulary. A file with other rules, BPE or Unigram for
example, is an error, because the ids of `BertTokenizer` would differ.
"""

import dataclasses
from collections.abc import Iterable, Mapping

from bert_keras.checks import check_value, quote, read_field
from bert_keras.errors import InputError, UnsupportedTokenizerError

_SINGLE = ["[CLS]", "A", "[SEP]"]
_PAIR = [*_SINGLE, "B", "[SEP]"]


@dataclasses.dataclass(frozen=True)
class AddedToken:
    """A token that Hugging Face's library matches before WordPiece.

    Attributes:
        content: the token.
        token_id: its id.
        normalized: whether it is matched after case and accents are folded.
        single_word: whether it is matched only where no letter is next to it.
    """

    content: str
    token_id: int
    normalized: bool = False
    single_word: bool = False

    @classmethod
    def read(cls, values: object, token_id: object, *, source: object) -> "AddedToken":
        """Read an added token from its JSON object `values` and its id."""
        values = check_value(values, dict, name="an added token", source=source)
        return cls(
            read_field(values, "content", str, source=source),
            check_value(token_id, int, name="the id of an added token", source=source, minimum=0),
            # as in `tokenizers`: special tokens are matched in the raw text
            read_field(values, "normalized", bool, source=source, default=not values.get("special", False)),
            read_field(values, "single_word", bool, source=source, default=False),
        )


def read_added_tokens(values: Mapping, source: object) -> list[AddedToken]:
    """Return the added tokens of a `tokenizer.json`."""
    tokens = read_field(values, "added_tokens", list[dict], source=source, default=None) or []
    return [AddedToken.read(token, token.get("id"), source=source) for token in tokens]


def read_tokens_by_id(values: Mapping, source: object) -> dict[int, str]:
    """Return the tokens of the WordPiece vocabulary keyed by id, without added tokens.

    Raises:
        InputError: the vocabulary is not an object of tokens and ids, or two tokens have the same id.
    """
    model = read_field(values, "model", dict, source=source)
    return key_by_id(read_field(model, "vocab", dict[str, int], source=source).items(), source)


def key_by_id(tokens: Iterable[tuple[str, int]], source: object) -> dict[int, str]:
    """Return tokens keyed by id.

    Raises:
        InputError: two tokens have the same id.
    """
    found: dict[int, str] = {}
    for token, token_id in tokens:
        if found.setdefault(token_id, token) != token:
            raise InputError(
                f"{source} has the id {token_id} for {quote(found[token_id])} and for {quote(token)}; expected one "
                "token per id: restore the file from its source"
            )
    return found


def check_is_bert(values: Mapping, source: object) -> None:
    """Raise `UnsupportedTokenizerError` unless a `tokenizer.json` has BERT's text rules."""
    model = read_field(values, "model", dict, source=source)
    read_field(values, "normalizer", dict, source=source, default=None)
    normalizer = read_normalizer(values)
    check_equal("model", _get_model_kind(model), "WordPiece", source)
    check_equal("unk_token", model.get("unk_token", "[UNK]"), "[UNK]", source)
    check_equal("continuing_subword_prefix", model.get("continuing_subword_prefix", "##"), "##", source)
    check_equal("normalizer", _get_kind(normalizer), "BertNormalizer", source)
    check_equal("clean_text", normalizer.get("clean_text", True), True, source)
    check_equal("pre_tokenizer", _get_kind(_unwrap(values.get("pre_tokenizer"))), "BertPreTokenizer", source)
    _check_template(read_field(values, "post_processor", dict, source=source, default=None), source)


def read_normalizer(values: Mapping) -> dict:
    """Return the normalizer of a `tokenizer.json`, or the only one of a sequence; {} if there is no normalizer."""
    normalizer = _unwrap(values.get("normalizer"))
    return normalizer if isinstance(normalizer, dict) else {}


def check_equal(name: str, value: object, expected: object, source: object) -> None:
    """Raise `UnsupportedTokenizerError` if a setting of a file differs from BERT's."""
    if value != expected:
        raise UnsupportedTokenizerError(
            f"{source} has {name} {quote(value)}; expected BERT's {expected!r}, since the ids would differ with other "
            "text rules: load only the weights (bert_keras.load) and pass them the ids of the model's own tokenizer"
        )


def _find_parts(part: object) -> list | None:
    """Return the parts of a sequence of normalizers or pre-tokenizers; None if it is not a sequence."""
    parts = (part.get("normalizers") or part.get("pretokenizers")) if isinstance(part, dict) else None
    return parts if isinstance(parts, list) else None


def _unwrap(part: object) -> object:
    """Return a normalizer or pre-tokenizer, or the only part of a sequence."""
    while (parts := _find_parts(part)) is not None and len(parts) == 1:
        part = parts[0]
    return part


def _get_kind(part: object) -> object:
    """Return the type of a normalizer or pre-tokenizer, or the types of the parts of a sequence."""
    if not isinstance(part, dict):
        return None
    parts = _find_parts(part)
    return " + ".join(str(_get_kind(one)) for one in parts) if parts is not None else part.get("type")


def _get_model_kind(model: Mapping) -> object:
    """Return the type of the model, which is missing in old files."""
    by_content = "BPE" if "merges" in model else "WordPiece" if isinstance(model.get("vocab"), dict) else "Unigram"
    return model.get("type", by_content)


def _check_template(processor: Mapping | None, source: object) -> None:
    """Raise `UnsupportedTokenizerError` if the special tokens around a text are not [CLS] and [SEP]."""
    if processor is None:  # transformers then adds BERT's
        return
    kind = processor.get("type")
    if kind == "BertProcessing":
        ends = [read_field(processor, name, list, source=source)[:1] for name in ("cls", "sep")]
        check_equal("post_processor", ends, [["[CLS]"], ["[SEP]"]], source)
        return
    check_equal("post_processor", kind, "TemplateProcessing", source)
    for name, expected in (("single", _SINGLE), ("pair", _PAIR)):
        parts = read_field(processor, name, list[dict], source=source)
        check_equal(f"post_processor {name}", [_get_template_part(part) for part in parts], expected, source)


def _get_template_part(part: Mapping) -> object:
    return next((value.get("id") for value in part.values() if isinstance(value, dict)), None)
