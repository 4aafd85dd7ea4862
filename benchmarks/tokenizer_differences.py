"""List differences between the ids of Hugging Face's tokenizer and ours, with code points and causes.

    python benchmarks/tokenizer_differences.py [--vocabulary VOCAB.txt --text FILE ...]

Compares every code point, alone and between other characters, with a vocabulary that contains every character, so that
[UNK] hides no difference. With `--text`, plain or gzip, it also counts the lines whose ids differ with your vocabulary.
Takes three to five minutes on two cores.
"""

import argparse
import collections
import gzip
import itertools
import os
import pathlib
import unicodedata
from collections.abc import Callable, Iterable, Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
import tensorflow_text as tf_text
import tokenizers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from bert_keras.pipelines.text.text_rules import UNICODE_VERSION, unicode_table
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS, read_vocabulary

FRAMES = ("{}", "a{}b", "\u4e2d{}\u6587", "e\u0301{}x")  # alone, between letters, between Chinese, after a mark
TABLE = unicode_table()
PLANES = [
    [code for code in range(first, first + 0x10000) if not 0xD800 <= code < 0xE000]
    for first in range(0, 0x110000, 0x10000)
]


def main() -> None:
    """Print the differences for uncased and cased text, then those of the given text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=pathlib.Path, help="a vocab.txt, for --text and tensorflow-text")
    parser.add_argument("--text", type=pathlib.Path, nargs="*", default=[])
    parser.add_argument("--cased", action="store_true", help="the vocabulary belongs to a cased model")
    arguments = parser.parse_args()
    if arguments.text and not arguments.vocabulary:
        parser.error("--text needs --vocabulary")
    print(
        f"ours: Unicode {UNICODE_VERSION}; tokenizers {tokenizers.__version__}; tensorflow-text {tf_text.__version__}"
    )
    for lowercase in (True, False):
        print_code_points(lowercase)
    print_sequences()
    if arguments.vocabulary:
        print_vocabulary(arguments.vocabulary, arguments.text, lowercase=not arguments.cased)


def print_code_points(lowercase: bool) -> None:
    """Print the number of code points that differ in each context, and the code points of each cause."""
    differing = {frame: set() for frame in FRAMES}
    for plane in PLANES:  # one vocabulary per plane: up to 132,000 tokens, our tokenizer accepts 137,000
        ours, theirs = make_tokenizers(make_vocabulary(plane), lowercase)
        for frame in FRAMES:
            texts = [frame.format(chr(code)) for code in plane]
            differing[frame].update(plane[index] for index in find_differences(ours, theirs, texts))
    print(f"\n{'uncased' if lowercase else 'cased'}, of {sum(map(len, PLANES)):,} code points:")
    for frame, codes in differing.items():
        print(f"  {len(codes):,} differ in {frame.format('C')!a}")
    causes = collections.defaultdict(list)
    for code in sorted(set().union(*differing.values())):
        causes[find_cause(code, lowercase)].append(code)
    for text, codes in sorted(causes.items(), key=lambda item: -len(item[1])):
        print(f"  {len(codes):,}: {text}\n    {format_ranges(codes)}")


def find_cause(code: int, lowercase: bool) -> str:
    """Return the cause of a code point's difference."""
    character = chr(code)
    splits = len(pre_tokenizers.BertPreTokenizer().pre_tokenize_str(f"a{character}b")) == 3
    if unicodedata.category(character) == "Co":  # private use in every version of Unicode
        return "private use: dropped by Hugging Face"
    if 0x2B820 <= code < 0x2B920:
        return "Chinese, extension E: not split by Hugging Face, whose range starts at 2B920 by mistake"
    if TABLE.control[code]:
        return "control or format character: not dropped by Hugging Face, whose Unicode 8 lacks it"
    if TABLE.punctuation[code]:
        return "punctuation: not split by Hugging Face, whose Unicode 8 lacks it"
    if splits:
        return "punctuation only in Unicode 8: split by Hugging Face"
    if lowercase and TABLE.mark[code]:
        return "non-spacing mark: not stripped by Hugging Face, whose Unicode 8 lacks it"
    if code not in TABLE.lower and normalizers.Lowercase().normalize_str(character) != character:
        return "capital letter newer than Unicode 14: lower-cased by Hugging Face"
    if normalizers.BertNormalizer().normalize_str(character) == "":
        return "non-spacing mark only in Unicode 8: stripped by Hugging Face"
    return "decomposed by us, not by Hugging Face, whose NFD is older" if code in TABLE.decomposition else "unknown"


def print_sequences() -> None:
    """Print differences that depend on more than one character."""
    marks = [code for code in (TABLE.combining_class.astype(bool) & ~TABLE.mark).nonzero()[0] if code != 0x1734]
    texts = [f"a{chr(first)}{chr(second)}" for first, second in itertools.product(marks, marks)]
    sigma = "\u0391\u03a3"  # a word of two capitals with a final sigma
    ours, theirs = make_tokenizers(make_vocabulary([*map(ord, sigma), *marks]), True)
    reordered = find_differences(ours, theirs, texts)
    print("\nuncased, sequences:")
    print(
        f"  {len(reordered):,} of {len(texts):,} pairs of kept marks differ: NFD sorts them, in Hugging Face with "
        "older Unicode data"
    )
    print(f"    each pair contains one of {format_ranges(find_cover([texts[index][1:] for index in reordered]))}")
    result = "differs" if find_differences(ours, theirs, [sigma]) else "is the same"
    print(f"  {sigma!a}, a word that ends in a capital sigma, {result}")


def find_cover(pairs: Iterable[str]) -> list[int]:
    """Return code points of which every pair contains one, preferring rare ones."""
    counts = collections.Counter(itertools.chain.from_iterable(pairs))
    return sorted({ord(max(pair, key=lambda character: counts[character])) for pair in pairs})


def print_vocabulary(path: pathlib.Path, text_files: Sequence[pathlib.Path], *, lowercase: bool) -> None:
    """Print the differences with a given vocabulary: for tensorflow-text's tokenizer, and for text."""
    tokens = read_vocabulary(path)
    ours, theirs = make_tokenizers(tokens, lowercase)
    fast = tf_text.FastBertTokenizer(tokens, token_out_type=tf.int32, lower_case_nfd_strip_accents=lowercase)
    print(f"\n{path.name}, a + C + b:")
    texts = [f"a{chr(code)}b" for code in itertools.chain.from_iterable(PLANES)]
    for name, other in (("Hugging Face", theirs), ("FastBertTokenizer", lambda texts: fast.tokenize(texts).to_list())):
        print(f"  {len(find_differences(ours, other, texts)):,} differ in {name}")
    for file in text_files:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        lines = [line for line in data.decode(errors="replace").split("\n") if line.strip()]
        num_different = len(find_differences(ours, theirs, lines))
        print(f"  {num_different:,} of {len(lines):,} lines of {file.name} differ in Hugging Face")


def make_tokenizers(tokens: Sequence[str], lowercase: bool) -> tuple[Callable, Callable]:
    """Return our tokenizer and that of Hugging Face as functions from texts to lists of ids."""
    ours = BertTokenizer(tokens, lowercase=lowercase)
    theirs = Tokenizer(models.WordPiece({token: index for index, token in enumerate(tokens)}, unk_token="[UNK]"))
    theirs.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    theirs.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    theirs.add_special_tokens(list(SPECIAL_TOKENS))
    return (
        lambda texts: ours.tokenize(texts, keep_special_tokens=True).to_list(),
        lambda texts: [encoding.ids for encoding in theirs.encode_batch_fast(texts)],
    )


def find_differences(ours: Callable, theirs: Callable, texts: Sequence[str]) -> list[int]:
    """Return the indices of texts with different ids."""
    indices = []
    for start in range(0, len(texts), 0x10000):
        batch = texts[start : start + 0x10000]
        pairs = enumerate(zip(ours(batch), theirs(batch), strict=True), start)
        indices += [index for index, (left, right) in pairs if left != right]
    return indices


def make_vocabulary(codes: Iterable[int]) -> list[str]:
    """Return a vocabulary of all characters that either tokenizer produces from code points in their contexts."""
    codes = {*codes, *map(ord, "".join(FRAMES))}
    lowered = codes.union(*(TABLE.lower[code] for code in codes & TABLE.lower.keys()), [0x3C2])  # final sigma
    decomposed = sorted(set().union(lowered, *map(TABLE.decompose, lowered)))
    characters = [chr(code) for code in decomposed if not chr(code).isspace()]
    return [*SPECIAL_TOKENS, *characters, *(f"##{character}" for character in characters)]


def format_ranges(codes: Sequence[int]) -> str:
    """Format sorted code points as ranges in hexadecimal."""
    groups = itertools.groupby(enumerate(codes), key=lambda pair: pair[1] - pair[0])
    runs = [[code for _, code in group] for _, group in groups]
    return " ".join(f"{run[0]:04X}" if len(run) == 1 else f"{run[0]:04X}-{run[-1]:04X}" for run in runs)


if __name__ == "__main__":
    main()
