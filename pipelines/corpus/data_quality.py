"""Warnings about usable data that is probably not what the user meant: statistics in, sentences with a fix out.

Each limit is far from the values of good data (docs/guide/languages.md, docs/guide/records.md), and is reached before
the damage is large.
"""

import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping

_MAX_UNKNOWN_SHARE = 0.05  # of tokens; 0.0 to 0.6 % with a vocabulary learned from the text or its language
_RANDOM_NEXT_SHARES = (0.4, 0.6)  # BERT has 0.5
_MIN_ALPHABET_COVERAGE = 0.999  # of characters; at 0.999 every second English sequence of 128 tokens has one [UNK]
_MIN_SIZE_REACHED = 0.9  # of the tokens asked for
_MAX_STRIPPED_SHARE = 0.005  # of characters: English 0.0 to 0.1 %, Russian 1.2, German 1.4, Arabic 5, Hindi 19, Thai 21
_MAX_LONG_WORD_SHARE = 0.005  # of characters: Thai, which has no spaces between words, 10 %, other languages 0.0 %
_MAX_DOTLESS_SHARE = 0.002  # of characters: Turkish 4.5 %
_MAX_UNREACHABLE_SHARE = 0.01  # of a vocabulary: Google's uncased one 0.0 %, its cased one with lowercased text 29 %
_MAX_HANGUL_SHARE = 0.005  # of characters: nearly all of Korean
_MIN_EXAMPLES = 100  # fewer examples give no reliable share
_MAX_SCRIPTS, _MIN_SCRIPT_SHARE = 3, 0.001  # of a warning
_HANGUL = frozenset(map(chr, range(0xAC00, 0xD7A4)))  # the syllables, which NFD decomposes
_TURKISH = "\u0131\u0130"  # dotless i, and capital i with a dot


def find_vocabulary_warnings(facts: Mapping) -> Iterator[str]:
    """Yield the warnings of `learn-vocab`.

    Args:
        facts: `LearnedVocabulary.statistics`.
    """
    keep_marks = "--no-strip-accents or --cased" if facts["lowercase"] else "--no-strip-accents"
    size, requested_size = facts["vocabulary_size"], facts["vocabulary_size_asked"]
    if facts["alphabet_coverage"] < _MIN_ALPHABET_COVERAGE:
        yield (
            f"the alphabet of {facts['alphabet_size']:,} characters covers "
            f"{format_percent(facts['alphabet_coverage'])} of the text, and each word with another character becomes "
            f"[UNK]: pass --alphabet {facts['alphabet_needed']}"
            + (f" --size {facts['size_needed']}" if facts["size_needed"] > requested_size else "")
        )
    elif size < _MIN_SIZE_REACHED * requested_size:  # a larger alphabet gives more tokens too
        lower = f", or lower --min-frequency ({facts['min_frequency']})" if facts["min_frequency"] > 1 else ""
        yield (
            f"the text gave {size:,} of the {requested_size:,} tokens asked for: learn from more text, or ask for "
            f"--size {size} --alphabet {facts['alphabet_size']}{lower}"
        )
    if facts["long_word_share"] > _MAX_LONG_WORD_SHARE:
        yield (
            f"{format_percent(facts['long_word_share'])} of the text's characters are in words of more than 100 "
            "characters, which become [UNK]: put spaces between the words of a language that has none "
            "(docs/guide/languages.md)"
        )
    if facts["stripped_share"] > _MAX_STRIPPED_SHARE:
        scripts = ", ".join(f"{name} {format_percent(share)}" for name, share in facts["stripped_scripts"].items())
        yield (
            f"stripping accents and vowel signs changes {format_percent(facts['stripped_share'])} of the text's "
            f"characters ({scripts}), and words that differ only in them become one: pass {keep_marks} "
            "(docs/guide/languages.md)"
        )
    if facts["hangul_share"] > _MAX_HANGUL_SHARE:
        yield (
            f"{format_percent(facts['hangul_share'])} of the text's characters are Hangul syllables, and stripping "
            f"accents splits each into two or three letters: pass {keep_marks} (docs/guide/languages.md)"
        )
    if facts["lowercase"] and facts["dotless_share"] > _MAX_DOTLESS_SHARE:
        yield (
            f"{format_percent(facts['dotless_share'])} of the text's characters are Turkish \u0131 and \u0130, but "
            "case is folded as in English, which turns I into i: pass --cased (docs/guide/languages.md)"
        )


def find_records_warnings(manifest: Mapping) -> Iterator[str]:
    """Yield the warnings of `make-records`; none for records of version 0.1, whose manifest has no `quality`."""
    quality = manifest.get("quality")
    if quality is None:
        return
    casing = "lowercased" if manifest["lowercase"] else "cased"
    covers = quality["alphabet_coverage"] >= _MIN_ALPHABET_COVERAGE
    # the share is absent in early manifests of format version 2
    has_long_words = quality.get("long_word_share", 0.0) > _MAX_LONG_WORD_SHARE
    if has_long_words:
        yield (
            f"{format_percent(quality['long_word_share'])} of the text's characters are in words too long for the "
            "tokenizer (over 100 characters by default), which become [UNK]: put spaces between the words of a "
            "language that has none (docs/guide/languages.md)"
        )
    if quality["unknown_token_share"] > _MAX_UNKNOWN_SHARE and not (has_long_words and covers):
        yield (
            f"{format_percent(quality['unknown_token_share'])} of the text's tokens are [UNK], so the vocabulary is of "
            f"another language or casing than this {casing} text: learn one from this text with learn-vocab"
        )
    elif not covers:
        yield (
            f"the vocabulary has {format_percent(quality['alphabet_coverage'])} of the text's characters, and each "
            "word with another character becomes [UNK]: learn a vocabulary from this text, with a larger --alphabet"
        )
    if quality["unreachable_token_share"] > _MAX_UNREACHABLE_SHARE:
        yield (
            f"{format_percent(quality['unreachable_token_share'])} of the vocabulary's tokens have capital letters or "
            f"accents, which {casing} text never produces: pass {'--cased, or ' if manifest['lowercase'] else ''}"
            "--no-strip-accents"
        )
    low, high = _RANDOM_NEXT_SHARES
    share = quality.get("random_next_share", 0.5)
    if manifest["num_examples"] >= _MIN_EXAMPLES and not low <= share <= high:
        sentences = manifest["num_sentences"] / max(manifest["num_documents"], 1)
        yield (
            f"{format_percent(share)} of the second sentences are random instead of 50%, since a document has "
            f"{sentences:.1f} sentences on average: pass --objective none or sop, or put blank lines only between "
            "documents (--sentences split finds the sentences of running text)"
        )


def measure_stripped_characters(characters: Mapping[str, int], num_characters: int) -> dict[str, object]:
    """Compute the share of a text's characters that lose a mark to stripping accents, in total and by script.

    Hangul syllables lose nothing: they are decomposed into their letters, and have a share of their own.

    Args:
        characters: the characters beyond ASCII, with their counts.
        num_characters: the number of all characters of the text.
    """
    scripts: dict[str, int] = {}
    for character, count in characters.items():
        # whether its canonical decomposition has non-spacing marks (Mn), which BERT strips as accents
        if any(unicodedata.category(part) == "Mn" for part in unicodedata.normalize("NFD", character)):
            script = unicodedata.name(character, "other").split()[0].capitalize()
            scripts[script] = scripts.get(script, 0) + count
    most = sorted(scripts.items(), key=lambda entry: (-entry[1], entry[0]))[:_MAX_SCRIPTS]
    shares = {script: compute_share(count, num_characters) for script, count in most}
    return {
        "stripped_share": compute_share(sum(scripts.values()), num_characters),
        "stripped_scripts": {script: share for script, share in shares.items() if share >= _MIN_SCRIPT_SHARE},
        "hangul_share": compute_share(sum(characters[one] for one in characters if one in _HANGUL), num_characters),
    }


def compute_dotless_share(characters: Mapping[str, int], num_characters: int) -> float:
    """Compute the share of a text's characters that Turkish folds differently than English."""
    return compute_share(sum(characters.get(letter, 0) for letter in _TURKISH), num_characters)


def compute_unreachable_share(
    vocabulary: Collection[str], special_tokens: Collection[str], normalize: Callable[[str], str]
) -> float:
    """Compute the share of a vocabulary's tokens that never occur in text, because `normalize` changes them."""
    special_tokens = frozenset(special_tokens)
    tokens = [token.removeprefix("##") for token in vocabulary if token not in special_tokens]
    return compute_share(sum(normalize(token) != token for token in tokens), len(tokens))


def compute_share(part: int, whole: int) -> float:
    """Return `part / whole` with six digits after the decimal point; 0 if `whole` is 0."""
    return round(part / whole, 6) if whole else 0.0


def format_percent(share: float) -> str:
    """Return a share in percent, with enough digits to differ from 0% and 100%."""
    digits = 1
    while digits < 4 and share not in (0, 1) and f"{share:.{digits}%}" in (f"{0:.{digits}%}", f"{1:.{digits}%}"):
        digits += 1
    return f"{share:.{digits}%}"
