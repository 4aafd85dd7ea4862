"""All architectures, keyed by their `model_type` in `config.json`."""

from bert_keras.architectures import bert, distilbert, electra
from bert_keras.architectures.architecture import Architecture
from bert_keras.checks import quote
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.extras import load_plugins

ARCHITECTURES: dict[str, Architecture] = {}


def register_architecture(record: Architecture) -> None:
    """Add an architecture, for example one of another package; see `bert_keras.extras`.

    Raises:
        InputError: another architecture has the same `model_type`.
    """
    if record.model_type in ARCHITECTURES:
        raise InputError(f"there is an architecture {record.model_type!r} already: choose another model_type")
    ARCHITECTURES[record.model_type] = record


def get_architecture(model_type: str) -> Architecture:
    """Return the architecture of a `model_type`.

    Raises:
        InputError: no architecture has this name.
    """
    if model_type not in ARCHITECTURES:
        raise InputError(f"model_type is {quote(model_type)}; expected {' or '.join(map(repr, ARCHITECTURES))}")
    return ARCHITECTURES[model_type]


def check_config(config: BertConfig, *, pooler: bool) -> None:
    """Raise `InputError` if the architecture of a config has no encoder with these settings, so that none is lost.

    Args:
        config: the config of an encoder.
        pooler: whether the encoder has a pooler.
    """
    record = get_architecture(config.model_type)
    expected = dict(record.fixed_fields)
    if not record.projection:
        expected["embedding_dim"] = config.hidden_dim
    given = {"pooler": pooler, **config.to_dict()}
    if not record.pooler:
        expected["pooler"] = False
    wrong = [f"{name} is {given[name]}, expected {value}" for name, value in expected.items() if given[name] != value]
    if wrong:
        raise InputError(
            f"an encoder with the model_type {config.model_type!r} cannot be built: {'; '.join(wrong)}: change them, "
            "or the model_type"
        )


for _record in (bert.ARCHITECTURE, electra.ARCHITECTURE, distilbert.ARCHITECTURE):
    register_architecture(_record)
load_plugins()
