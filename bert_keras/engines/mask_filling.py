"""`bk.fill_mask`: predict the tokens at each [MASK] of a text."""

import dataclasses
from collections.abc import Mapping, Sequence

import keras
import numpy as np
from keras import ops

from bert_keras.checkpoints.checkpoint import check_finite_outputs
from bert_keras.checkpoints.vocabulary_file import check_tokenizer_size
from bert_keras.engines.sequence_runner import make_features
from bert_keras.heads.fill_mask.mask_checks import check_has_masked_lm, check_top_k
from bert_keras.heads.fill_mask.model import MaskedLMModel
from bert_keras.heads.fill_mask.task import MaskFilling
from bert_keras.pipelines.text.token_arrays import as_text_array
from bert_keras.pipelines.text.tokenizer import BertTokenizer

_BATCH_SIZE = 32  # texts; the logits of one mask take 122 kB with BERT's vocabulary


@dataclasses.dataclass(frozen=True)
class Filling:
    """One prediction for one [MASK].

    Attributes:
        token: the token, as in the vocabulary ("##s" continues a word).
        token_id: its id.
        probability: its probability over the whole vocabulary, from 0 to 1.
        text: the text with the token in place of this [MASK]; other masks remain.
    """

    token: str
    token_id: int
    probability: float
    text: str


def fill_mask(
    model: keras.Model, tokenizer: BertTokenizer, texts: Sequence[str], *, top_k: int = 5
) -> list[list[list[Filling]]]:
    """Predict the tokens at every [MASK] of every text, independently of each other.

    The probabilities are those of transformers' `pipeline("fill-mask")`.

    Args:
        model: a model with a masked-LM head: `BertMaskedLM`, `BertPretrainer`, or an `ElectraPretrainer` with its
            generator.
        tokenizer: the model's tokenizer.
        texts: texts with one [MASK] or more; other special tokens are recognized too.
        top_k: number of predictions per mask, the most probable first.

    Returns:
        `top_k` fillings for each mask of each text, in their order.

    Raises:
        InputError: the model has no masked-LM head or fewer tokens than the tokenizer, `top_k` is out of range, a text
            has no [MASK] or is too long, or the model outputs NaN or infinity.

    Example:
        >>> model, tokenizer = bk.load("demo/pretrained"), bk.load_tokenizer("demo/pretrained")
        >>> [[fillings]] = bk.fill_mask(model, tokenizer, ["The [MASK] statement wraps a block."], top_k=3)
        >>> len(fillings), fillings[0].text
        (3, 'The... statement wraps a block.')
    """
    masked_lm = get_masked_lm(model)
    check_tokenizer_size(tokenizer, masked_lm.encoder.config)
    check_top_k(top_k, tokenizer.vocabulary_size)
    texts = [text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in as_text_array(texts)]
    length = masked_lm.encoder.config.max_sequence_length
    task = MaskFilling(length, vocabulary=tuple(tokenizer.vocabulary), num_best=top_k)
    sequences = task.encode(tokenizer, texts)
    masks = task.find_masks(sequences)
    owners, places = sequences.sequence_indices[masks], masks - sequences.row_splits[sequences.sequence_indices[masks]]
    probabilities = []
    for start in range(0, len(texts), _BATCH_SIZE):
        indices = np.arange(start, min(start + _BATCH_SIZE, len(texts)))
        features = make_features(sequences, indices, int(sequences.lengths[indices].max()))
        positions = [places[owners == index] for index in indices]
        probabilities += predict_tokens(masked_lm, tokenizer, features, positions)
    answers = task.fill(sequences, np.concatenate(probabilities), texts)
    return [[[Filling(**one) for one in fillings] for fillings in answer["masks"]] for answer in answers]


def predict_tokens(
    model: MaskedLMModel, tokenizer: BertTokenizer, features: Mapping[str, np.ndarray], positions: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Return the token probabilities at the masked positions of each sequence.

    Args:
        model: a model with a masked-LM head.
        tokenizer: its tokenizer.
        features: the inputs of the encoder, `(B, S)` each.
        positions: B arrays of masked positions, `(M,)` each, of any length.

    Returns:
        B arrays `(M, V)`, where V is the number of tokens; the padding of a larger embedding table is removed.

    Raises:
        InputError: the model outputs NaN or infinity.
    """
    mask_positions = np.zeros((len(positions), max(map(len, positions))), np.int32)
    for padded, places in zip(mask_positions, positions, strict=True):
        padded[: len(places)] = places
    outputs = model({**features, "mask_positions": mask_positions}, training=False)
    probabilities = ops.convert_to_numpy(ops.softmax(outputs["mlm_logits"], axis=-1))
    check_finite_outputs(model, probabilities)
    return [
        sequence[: len(places), : tokenizer.vocabulary_size]
        for sequence, places in zip(probabilities, positions, strict=True)
    ]


def get_masked_lm(model: keras.Model) -> MaskedLMModel:
    """Return the model with the masked-LM head: this one, or its generator.

    Raises:
        InputError: there is no such head; the message names the model's head.
    """
    generator = getattr(model, "generator", None)
    if generator is None and isinstance(model, MaskedLMModel):
        return model
    check_has_masked_lm(type(model).__name__, has_generator=generator is not None)
    return generator
