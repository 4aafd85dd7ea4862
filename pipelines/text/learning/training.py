"""WordPiece training with Hugging Face `tokenizers`, made reproducible."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from bert_keras.errors import InputError
from bert_keras.pipelines.text.learning.alphabet import can_continue_word, choose_alphabet
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS, is_too_long

_BLOCK_WORDS = 1000  # words per string for the trainer, which queues 256; 10,000 take 48 MB more and as much time
_REPORT_WORDS = 100_000


def train_vocabulary(
    words: Mapping[str, int],
    *,
    size: int,
    min_frequency: int = 2,
    leading: Sequence[str] = SPECIAL_TOKENS,
    alphabet: Sequence[str] | None = None,
    tokenize_chinese_chars: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Learn a vocabulary from the number of occurrences of each word.

    Hugging Face's trainer numbers "##a", "##b", ... in the order of a hash map, which differs in each run, and breaks
    ties by these numbers. Here they are numbered before it starts.

    Args:
        words: the counts of `count_words`.
        size: the maximum number of tokens.
        min_frequency: the number of occurrences that a pair of tokens needs to be merged.
        leading: the first tokens of the vocabulary, from `make_leading_tokens`.
        alphabet: the characters of the vocabulary, sorted. None: those of `choose_alphabet`.
        tokenize_chinese_chars: whether each Chinese character is a word, so that it never continues one.
        progress: called with the number of words that the trainer has received, counting each occurrence, and the
            number of all words.

    Returns:
        The tokens in the order of their ids.

    Raises:
        InputError: there are no words, or the alphabet does not fit into `size` tokens.
    """
    if not words:
        raise InputError("there is no text to learn a vocabulary from: name files with words")
    if alphabet is None:
        alphabet = choose_alphabet(
            words, size=size, leading=leading, tokenize_chinese_chars=tokenize_chinese_chars
        ).characters
    continuing = [f"##{character}" for character in alphabet if can_continue_word(character, tokenize_chinese_chars)]
    first_tokens = list(dict.fromkeys([*leading, *alphabet, *continuing]))
    if len(first_tokens) > size:
        raise InputError(
            f"a vocabulary of {size:,} tokens has no room for the text's alphabet of {len(alphabet):,} characters, "
            f"which takes {len(first_tokens):,} tokens with the special tokens: raise --size to {len(first_tokens):,} "
            "or more, or ask for a smaller alphabet (--alphabet)"
        )
    known = set(alphabet)  # other words are always [UNK], and single characters have nothing to merge
    mergeable = {word: count for word, count in words.items() if len(word) > 1 and known.issuperset(word)}
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=min_frequency, show_progress=False, special_tokens=first_tokens
    )
    tokenizer.train_from_iterator(_join_words(mergeable, progress), trainer)
    ids = tokenizer.get_vocab()
    # a repeated clause of a language without spaces becomes a token of up to 200 characters, which no tokenizer accepts
    return [token for token in sorted(ids, key=ids.__getitem__) if not is_too_long(token)]


def _join_words(words: Mapping[str, int], progress: Callable[[int, int], None] | None) -> Iterator[str]:
    """Yield each word as often as it was counted, many words per string, because the trainer accepts no counts.

    This takes 0.2 us per word and core, about a third of the total time, however large the text is.
    """
    total, done, reported, block = sum(words.values()), 0, 0, []
    for word, count in words.items():
        for start in range(0, count, _BLOCK_WORDS):
            block += [word] * min(count - start, _BLOCK_WORDS)
            if len(block) >= _BLOCK_WORDS:
                yield " ".join(block)
                done, block = done + len(block), []
                if progress is not None and done >= reported + _REPORT_WORDS:
                    progress(done, total)
                    reported = done
    if progress is not None:
        progress(total, total)
    yield " ".join(block)
