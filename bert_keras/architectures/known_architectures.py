"""All architectures, keyed by their `model_type` in `config.json`."""

from bert_keras.architectures import bert, electra

ARCHITECTURES = {record.model_type: record for record in (bert.ARCHITECTURE, electra.ARCHITECTURE)}
