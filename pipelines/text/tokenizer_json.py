"""`tokenizer.json`, the file of Hugging Face's `tokenizers`: checked to be BERT's WordPiece, and read.

transformers 5 and sentence-transformers 6 write no other vocabulary. A file of other rules, BPE or Unigram for example,
is refused by name, since the ids of `BertTokenizer` would differ from it.
"""

import dataclasses
from collections.abc import Iterable, Mapping

from bert_keras.checks import check_value, quote, read_field
from bert_keras.errors import InputError, UnsupportedTokenizerError

_SINGLE = ["[CLS]", "A", "[SEP]"]
_PAIR = [*_SINGLE, "B", "[SEP]"]


@dataclasses.dataclass(frozen=True)
class AddedToken:
    """A token that Hugging Face's library cuts out of a text before WordPiece sees it.

    Attributes:
        content: the token.
        token_id: its id.
        normalized: whether it is looked for in the text after case and accents were folded.
        single_word: whether it counts only where no letter stands beside it.
    """

    content: str
    token_id: int
    normalized: bool = False
    single_word: bool = False

    @classmethod
    def read(cls, values: object, token_id: object, *, source: object) -> "AddedToken":
        """Reads one from JSON, where the id stands in it or beside it."""
        values = check_value(values, dict, name="an added token", source=source)
        return cls(
            read_field(values, "content", str, source=source),
            check_value(token_id, int, name="the id of an added token", source=source, minimum=0),
            # as `tokenizers` has it: special tokens are looked for in the text as it is
            read_field(values, "normalized", bool, source=source, default=not values.get("special", False)),
            read_field(values, "single_word", bool, source=source, default=False),
        )


def read_added_tokens(values: Mapping, source: object) -> list[AddedToken]:
    """Returns the added tokens of a `tokenizer.json`."""
    tokens = read_field(values, "added_tokens", list[dict], source=source, default=None) or []
    return [AddedToken.read(token, token.get("id"), source=source) for token in tokens]


def read_tokens_by_id(values: Mapping, source: object) -> dict[int, str]:
    """Returns the tokens of WordPiece's own vocabulary by their ids, without the added ones.

    Raises:
        InputError: it is no object of tokens and ids, or two tokens have one id.
    """
    model = read_field(values, "model", dict, source=source)
    return tokens_by_id(read_field(model, "vocab", dict[str, int], source=source).items(), source)


def tokens_by_id(tokens: Iterable[tuple[str, int]], source: object) -> dict[int, str]:
    """Returns tokens by their ids.

    Raises:
        InputError: two tokens have the same id.
    """
    found: dict[int, str] = {}
    for token, token_id in tokens:
        if found.setdefault(token_id, token) != token:
            raise InputError(
                f"{source} gives the id {token_id} to {quote(found[token_id])} and to {quote(token)}; expected one "
                "token for each id: restore the file from its source"
            )
    return found


def check_is_bert(values: Mapping, source: object) -> None:
    """Raises `UnsupportedTokenizerError` unless a `tokenizer.json` splits text by BERT's rules."""
    model = read_field(values, "model", dict, source=source)
    read_field(values, "normalizer", dict, source=source, default=None)
    normalizer = normalizer_of(values)
    expect("model", _model_kind(model), "WordPiece", source)
    expect("unk_token", model.get("unk_token", "[UNK]"), "[UNK]", source)
    expect("continuing_subword_prefix", model.get("continuing_subword_prefix", "##"), "##", source)
    expect("normalizer", _kind(normalizer), "BertNormalizer", source)
    expect("clean_text", normalizer.get("clean_text", True), True, source)
    expect("pre_tokenizer", _kind(_unwrapped(values.get("pre_tokenizer"))), "BertPreTokenizer", source)
    _check_template(read_field(values, "post_processor", dict, source=source, default=None), source)


def normalizer_of(values: Mapping) -> dict:
    """Returns the normalizer of a `tokenizer.json`, also where it is the only one of a sequence; {}: there is none."""
    normalizer = _unwrapped(values.get("normalizer"))
    return normalizer if isinstance(normalizer, dict) else {}


def expect(name: str, value: object, expected: object, source: object) -> None:
    """Raises `UnsupportedTokenizerError` if a file asks for another value than BERT's."""
    if value != expected:
        raise UnsupportedTokenizerError(
            f"{source} has {name} {quote(value)}; expected {expected!r}, BERT's own: this model reads text by other "
            "rules, so its ids would differ: load the weights alone (bert_keras.load) and give them the ids of its own "
            "tokenizer"
        )


def _parts(part: object) -> list | None:
    """Returns the parts of a sequence of normalizers or pre-tokenizers; None: it is none."""
    parts = (part.get("normalizers") or part.get("pretokenizers")) if isinstance(part, dict) else None
    return parts if isinstance(parts, list) else None


def _unwrapped(part: object) -> object:
    """Returns a normalizer or a pre-tokenizer; of a sequence of one, that one."""
    while (parts := _parts(part)) is not None and len(parts) == 1:
        part = parts[0]
    return part


def _kind(part: object) -> object:
    """Returns the type of a normalizer or a pre-tokenizer; of a sequence, the types of its parts."""
    if not isinstance(part, dict):
        return None
    parts = _parts(part)
    return " + ".join(str(_kind(one)) for one in parts) if parts is not None else part.get("type")


def _model_kind(model: Mapping) -> object:
    """Returns the type of the model, which old files do not name."""
    by_content = "BPE" if "merges" in model else "WordPiece" if isinstance(model.get("vocab"), dict) else "Unigram"
    return model.get("type", by_content)


def _check_template(processor: Mapping | None, source: object) -> None:
    """Refuses other special tokens around a text than [CLS] and [SEP]."""
    if processor is None:  # then transformers puts BERT's
        return
    kind = processor.get("type")
    if kind == "BertProcessing":
        ends = [read_field(processor, name, list, source=source)[:1] for name in ("cls", "sep")]
        expect("post_processor", ends, [["[CLS]"], ["[SEP]"]], source)
        return
    expect("post_processor", kind, "TemplateProcessing", source)
    for name, expected in (("single", _SINGLE), ("pair", _PAIR)):
        parts = read_field(processor, name, list[dict], source=source)
        expect(f"post_processor {name}", [_template_part(part) for part in parts], expected, source)


def _template_part(part: Mapping) -> object:
    return next((value.get("id") for value in part.values() if isinstance(value, dict)), None)
