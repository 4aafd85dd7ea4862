"""What filling masks needs of a model and of the texts, checked before TensorFlow is loaded."""

from collections.abc import Sequence

from bert_keras.errors import InputError

MASK = "[MASK]"
_HEADS = ("BertMaskedLM", "BertPretrainer")
_OTHER_HEADS = {
    "BertEncoder": "no head",
    "BertClassifier": "a classification head",
    "BertTokenClassifier": "a token-classification head",
    "BertQuestionAnswerer": "a question-answering head",
    "BertEmbedder": "an embedding head",
    "ElectraPretrainer": "ELECTRA's head for replaced tokens and no generator",
}


def check_has_masked_lm(model: str, *, has_generator: bool) -> None:
    """Raises `InputError` unless a model has a masked-LM head, or a generator, which has one.

    Args:
        model: the name of its class.
        has_generator: whether it is an `ElectraPretrainer` with its generator.
    """
    if model in _HEADS or has_generator:
        return
    raise InputError(
        f"a {model} has {_OTHER_HEADS.get(model, 'another head')}; expected a masked-LM head: load a folder of "
        "BertMaskedLM or BertPretrainer (BertForMaskedLM, BertForPreTraining, ElectraForMaskedLM)"
    )


def check_top_k(top_k: int, vocabulary_size: int) -> None:
    """Raises `InputError` if the vocabulary has not so many tokens."""
    if not 1 <= top_k <= vocabulary_size:
        raise InputError(f"top_k is {top_k}; expected 1 to {vocabulary_size}, the pieces of the vocabulary")


def check_have_masks(texts: Sequence[str]) -> None:
    """Raises `InputError` unless there are texts, and each has a [MASK]."""
    if not texts:
        raise InputError(f"there are no texts to fill; expected one or more with a {MASK}")
    for number, text in enumerate(texts, 1):
        if MASK not in text:
            raise InputError(f"{place_of(number, text)} has no {MASK}; expected one or more: write it for the word")


def place_of(number: int, text: str) -> str:
    """Returns which text it is, for messages."""
    return f"text {number} ({(text if len(text) < 60 else text[:60] + '...')!r})"
