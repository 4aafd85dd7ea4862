"""All architectures, keyed by their `model_type` in `config.json`."""

from bert_keras.architectures import bert, distilbert, electra
from bert_keras.architectures.architecture import Architecture
from bert_keras.checks import quote
from bert_keras.errors import InputError

ARCHITECTURES = {
    record.model_type: record for record in (bert.ARCHITECTURE, electra.ARCHITECTURE, distilbert.ARCHITECTURE)
}


def get_architecture(model_type: str) -> Architecture:
    """Return the architecture of a `model_type`.

    Raises:
        InputError: there is none.
    """
    if model_type not in ARCHITECTURES:
        raise InputError(f"model_type is {quote(model_type)}; expected {' or '.join(map(repr, ARCHITECTURES))}")
    return ARCHITECTURES[model_type]
