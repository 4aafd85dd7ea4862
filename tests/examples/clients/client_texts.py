"""Kinds of models and the texts that clients are asked."""

import numpy as np

from tests.export.conftest import WORDS

PAIR_KINDS = ("pair_classifier", "reranker", "question_answerer", "null_answerer")
KINDS = ("classifier", "windowed_classifier", "multi_label", "regression", "embedder", "prompted_embedder")
KINDS += ("token_classifier", "word_tagger", *PAIR_KINDS)

# settings of tokenizers that have `rich_vocabulary`
TOKENIZERS = {
    "uncased": {},
    "cased": {"lowercase": False},
    "cased without accents": {"lowercase": False, "strip_accents": True},
    "uncased with accents": {"strip_accents": False},
    "Chinese words": {"tokenize_chinese_chars": False},
    "short words": {"max_input_chars_per_word": 5},
    "special tokens": {"additional_special_tokens": ["a", "ab", "Σ", "中"], "added_tokens": ["ΑΣ", "한글", "b c"]},
}

# Text that programs often get wrong: emoji of several code points, right-to-left text, marks, control characters
ODD_TEXTS = [
    "",
    " ",
    "\x00",
    "a\x00b",
    "\ufeffa\ufeff",
    "😀 👩🏽\u200d🚀 🏳️\u200d🌈 🇩🇪",
    "עִבְרִית שָׁלוֹם \u200fאבג\u200e the العَرَبِيَّة ١٢٣",
    "e\u0301\u0302\u0303 \u0301a a\u0327\u0301 Z\u0351\u036bA\u0301L\u0338G\u030aO\u0321",
    "\u1bf2\u1bf3\u302e\u302f\U0001d165\U0001d166\U0001d16d\U00016ff0\u1bac" * 3,
    "ΑΣ ΑΣ. ΣΑ Σ ΑΣ\u00ad ΑΣ\u0301\u0392 ΑΣ'\u0392 Σ\u0301",
    "İI \u0131i ǅ ß ﬁ 각한글 가 \u1100\u1161\u11a8",
    "\U00010414\U0001042f 𐐔𐐯 \U0001d518\U0001d52b\U0001d526 \U000f0000 \U0010ffff",
    "\r\n\t\v\f\x1c\x85\u2028\u2029\u3000x",
    "東京。 中文字 豈丽 𠀀",
    "[CLS] [MASK] [SEP] [PAD] [UNK] ##a",
]
LONE_SURROGATES = ["\ud800", "a\udc00b", "the\ud83d cat \ude00", "\udc00\ud800 x", "é\ud83d\u0301 ΑΣ\udfff"]
LONG_TEXTS = ["the cat, " * 11_000, "x" * 100_000, "e\u0301\u302e" * 33_000, "\u302e\u302f" * 50_000, "😀" * 25_000]


# kind of model, texts, message
WRONG_NUMBERS_OF_TEXTS = [
    ("null_answerer", ["who"], "a question needs a context, and there is none; expected a pair of texts"),
    ("token_classifier", ["a", "b"], "tagging needs single texts, and a second text was given: leave it out"),
    ("pair_classifier", ["a"], "the model classifies pairs of texts, and there is one text: give both"),
    ("classifier", ["a", "b"], "the model classifies single texts, and a second text was given: leave it out"),
]


def make_texts(number: int, seed: int, *, length: int = 30) -> list[str]:
    """Return random texts of the words of the tiny models, with accents, capitals and odd characters between them."""
    rng = np.random.default_rng(seed)
    words = [word.removeprefix("##") for word in WORDS]
    words += [word.upper() for word in words]
    words += [
        "Càt",
        "dogs\u0301",
        "unmat",
        "東京",
        "😀",
        "red-hat",
        "\u200b",
        "the😀cat",
    ]
    spaces = [" ", " ", " ", "", ", ", "\n", "\u3000"]
    texts = []
    for size in rng.integers(0, length, number):
        parts = [rng.choice(words) + rng.choice(spaces) for _ in range(size)]
        texts.append("".join(parts))
    return texts


def make_examples(kind: str, seed: int = 0) -> list[str | tuple[str, str]]:
    """Return texts or pairs of texts for a kind of model."""
    texts = [*make_texts(40, seed), *ODD_TEXTS, *LONE_SURROGATES]
    if kind not in PAIR_KINDS:
        return texts
    firsts = make_texts(len(texts), seed + 1, length=9)
    return [*zip(firsts, texts, strict=True), *zip(texts, firsts, strict=True)]
