"""Warnings about data that can be used and is probably not what was meant: figures in, sentences with a remedy out.

Each limit lies far from what sound data measured (docs/languages.md, docs/records.md) and before the damage is large.
"""

import unicodedata
from collections.abc import Collection, Iterator, Mapping

MAX_UNKNOWN_SHARE = 0.05  # of tokens; 0.0 to 0.6 % with a vocabulary learned from the text or its language
RANDOM_NEXT_SHARES = (0.4, 0.6)  # BERT has 0.5
MIN_ALPHABET_COVERAGE = 0.999  # of characters: there, every second English sequence of 128 tokens holds one [UNK]
MIN_SIZE_REACHED = 0.9  # of the tokens asked for
MAX_STRIPPED_SHARE = 0.005  # of characters: English 0.0 to 0.1 %, Russian 1.2, German 1.4, Arabic 5, Hindi 19, Thai 21
MAX_LONG_WORD_SHARE = 0.005  # of characters: Thai, which has no spaces between words, 10 %, the other languages 0.0 %
MAX_DOTLESS_SHARE = 0.002  # of characters: Turkish 4.5 %
MAX_UNREACHABLE_SHARE = 0.01  # of a vocabulary: Google's uncased one has 0.0 %, its cased one, read uncased, 29 %
MAX_HANGUL_SHARE = 0.005  # of characters: Korean nearly all
_MIN_EXAMPLES = 100  # fewer say nothing about a share
_SHOWN_SCRIPTS, _LEAST_SHOWN_SHARE = 3, 0.001
_HANGUL = frozenset(map(chr, range(0xAC00, 0xD7A4)))  # the syllables, which NFD takes apart
_TURKISH = "\u0131\u0130"  # dotless i, and capital i with a dot


def vocabulary_warnings(facts: Mapping[str, object]) -> list[str]:
    """Return what `learn-vocab` warns of.

    Args:
        facts: what `vocabulary_facts` returns.
    """
    return list(_vocabulary_warnings(facts))


def records_warnings(manifest: Mapping[str, object]) -> list[str]:
    """Return what `make-records` warns of; nothing for records of version 0.1, whose manifest has no `quality`."""
    return list(_records_warnings(manifest, manifest["quality"])) if "quality" in manifest else []


def _vocabulary_warnings(facts: Mapping) -> Iterator[str]:
    keep_marks = "--no-strip-accents or --cased" if facts["lowercase"] else "--no-strip-accents"
    size, asked = facts["vocabulary_size"], facts["vocabulary_size_asked"]
    if facts["alphabet_coverage"] < MIN_ALPHABET_COVERAGE:
        yield (
            f"the alphabet of {facts['alphabet_size']:,} characters covers {percent(facts['alphabet_coverage'])} of "
            f"the text, and each word with another character becomes [UNK]: pass --alphabet {facts['alphabet_needed']}"
            + (f" --size {facts['size_needed']}" if facts["size_needed"] > asked else "")
        )
    elif size < MIN_SIZE_REACHED * asked:  # the remedy for the alphabet gives more tokens too
        lower = f", or lower --min-frequency ({facts['min_frequency']})" if facts["min_frequency"] > 1 else ""
        yield (
            f"the text gave {size:,} of the {asked:,} tokens asked for: learn from more text, or ask for "
            f"--size {size} --alphabet {facts['alphabet_size']}{lower}"
        )
    if facts["long_word_share"] > MAX_LONG_WORD_SHARE:
        yield (
            f"{percent(facts['long_word_share'])} of the text's characters are in words of more than 100 characters, "
            "which become [UNK]: put spaces between the words of a language that has none (docs/languages.md)"
        )
    if facts["stripped_share"] > MAX_STRIPPED_SHARE:
        scripts = ", ".join(f"{name} {percent(share)}" for name, share in facts["stripped_scripts"].items())
        yield (
            f"stripping accents and vowel signs changes {percent(facts['stripped_share'])} of the text's characters "
            f"({scripts}), and words that differ in them become one: pass {keep_marks} "
            "(docs/languages.md)"
        )
    if facts["hangul_share"] > MAX_HANGUL_SHARE:
        yield (
            f"{percent(facts['hangul_share'])} of the text's characters are syllables of Hangul, and stripping accents "
            f"takes each apart into two or three letters: pass {keep_marks} (docs/languages.md)"
        )
    if facts["lowercase"] and facts["dotless_share"] > MAX_DOTLESS_SHARE:
        yield (
            f"{percent(facts['dotless_share'])} of the text's characters are Turkish \u0131 and \u0130, but "
            "case is folded as in English, which makes i of I: pass --cased (docs/languages.md)"
        )


def _records_warnings(manifest: Mapping, quality: Mapping) -> Iterator[str]:
    casing = "uncased" if manifest["lowercase"] else "cased"
    covers = quality["alphabet_coverage"] >= MIN_ALPHABET_COVERAGE
    has_long_words = quality.get("long_word_share", 0.0) > MAX_LONG_WORD_SHARE  # not in the first manifests of 0.2
    if has_long_words:
        yield (
            f"{percent(quality['long_word_share'])} of the text's characters are in words too long for the tokenizer "
            "(over 100 characters, unless its settings say otherwise), which become [UNK]: put spaces between the "
            "words of a language that has none (docs/languages.md)"
        )
    if quality["unknown_token_share"] > MAX_UNKNOWN_SHARE and not (has_long_words and covers):
        yield (
            f"{percent(quality['unknown_token_share'])} of the text's tokens are [UNK], so the vocabulary is of "
            f"another language or casing than this text, read {casing}: learn one from this text with learn-vocab"
        )
    elif not covers:
        yield (
            f"the vocabulary has {percent(quality['alphabet_coverage'])} of the text's characters, and each word with "
            f"another one becomes [UNK]: learn a vocabulary from this text, with a larger --alphabet"
        )
    if quality["unreachable_token_share"] > MAX_UNREACHABLE_SHARE:
        yield (
            f"{percent(quality['unreachable_token_share'])} of the vocabulary's tokens have capital letters or "
            f"accents, which text read {casing} never gives: pass {'--cased, or ' if manifest['lowercase'] else ''}"
            "--no-strip-accents"
        )
    low, high = RANDOM_NEXT_SHARES
    share = quality.get("random_next_share", 0.5)
    if manifest["num_examples"] >= _MIN_EXAMPLES and not low <= share <= high:
        sentences = manifest["num_sentences"] / max(manifest["num_documents"], 1)
        yield (
            f"{percent(share)} of the second sentences are random, where 50% is meant, since a document has "
            f"{sentences:.1f} sentences on average: pass --objective none or sop, or separate only documents by blank "
            "lines (--sentences split finds the sentences of running text)"
        )


def stripped_characters(characters: Mapping[str, int], num_characters: int) -> dict[str, object]:
    """Return the share of a text's characters that lose a mark to stripping accents, in all and for the main scripts.

    Syllables of Hangul lose nothing: they are taken apart into their letters, and have a share of their own.

    Args:
        characters: those beyond ASCII, with their counts.
        num_characters: how many the text has in all.
    """
    scripts: dict[str, int] = {}
    for character, count in characters.items():
        if _loses_marks(character):
            script = unicodedata.name(character, "other").split()[0].capitalize()
            scripts[script] = scripts.get(script, 0) + count
    most = sorted(scripts.items(), key=lambda entry: (-entry[1], entry[0]))[:_SHOWN_SCRIPTS]
    shares = {script: share_of(count, num_characters) for script, count in most}
    return {
        "stripped_share": share_of(sum(scripts.values()), num_characters),
        "stripped_scripts": {script: share for script, share in shares.items() if share >= _LEAST_SHOWN_SHARE},
        "hangul_share": share_of(sum(characters[one] for one in characters if one in _HANGUL), num_characters),
    }


def dotless_share(characters: Mapping[str, int], num_characters: int) -> float:
    """Return the share of a text's characters whose case folds otherwise in Turkish."""
    return share_of(sum(characters.get(letter, 0) for letter in _TURKISH), num_characters)


def unreachable_share(vocabulary: Collection[str], special_tokens: Collection[str], normalize) -> float:
    """Return the share of a vocabulary's tokens that no text gives: `normalize` makes another text of them."""
    special_tokens = frozenset(special_tokens)
    tokens = [token.removeprefix("##") for token in vocabulary if token not in special_tokens]
    return share_of(sum(normalize(token) != token for token in tokens), len(tokens))


def share_of(part: int, whole: int) -> float:
    """Return a share for a manifest, six digits behind the point; 0 of nothing."""
    return round(part / whole, 6) if whole else 0.0


def _loses_marks(character: str) -> bool:
    """Whether BERT's "strip accents" drops a part of a character: its NFD without non-spacing marks (Mn)."""
    return any(unicodedata.category(part) == "Mn" for part in unicodedata.normalize("NFD", character))


def percent(share: float) -> str:
    """Return a share in percent, with as many digits as it takes to tell it from 0% and 100%."""
    digits = 1
    while digits < 4 and share not in (0, 1) and f"{share:.{digits}%}" in (f"{0:.{digits}%}", f"{1:.{digits}%}"):
        digits += 1
    return f"{share:.{digits}%}"
