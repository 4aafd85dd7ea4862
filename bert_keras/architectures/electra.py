"""ELECTRA (Clark et al. 2020): BERT's encoder without a pooler, and heads of its own."""

import dataclasses

from bert_keras.architectures import bert
from bert_keras.architectures.architecture import DENSE, NORM, VECTOR

# fmt: off
MASKED_LM = (
    (DENSE,  "DE", "mlm_head.transform",  "generator_predictions.dense",     None, None),
    (NORM,   "E",  "mlm_head.layer_norm", "generator_predictions.LayerNorm", None, None),
    (VECTOR, "V",  "mlm_head.bias",       "generator_lm_head.bias",          None, None),
)
CLASSIFIER = (
    (DENSE, "DD", "cls_dense",  "classifier.dense",    None, None),
    (DENSE, "DC", "classifier", "classifier.out_proj", None, None),
)
REPLACED = (
    (DENSE, "DD", "head_dense", "discriminator_predictions.dense",            None, None),
    (DENSE, "D1", "replaced",   "discriminator_predictions.dense_prediction", None, None),
)
# fmt: on

ARCHITECTURE = dataclasses.replace(
    bert.ARCHITECTURE,
    model_type="electra",
    config_keys={**bert.CONFIG_KEYS, "embedding_dim": "embedding_size"},
    config_defaults={**bert.CONFIG_DEFAULTS, "embedding_size": None},
    class_prefix="Electra",
    heads={
        "BertMaskedLM": MASKED_LM,
        "BertPretrainer": MASKED_LM + bert.NEXT_SENTENCE,
        "BertClassifier": CLASSIFIER,
        "BertTokenClassifier": bert.TOKEN_CLASSIFIER,
        "BertQuestionAnswerer": bert.SPAN,
        "ElectraPretrainer": REPLACED,
    },
    needs_pooler=frozenset({"BertPretrainer"}),
    models={"ForPreTraining": "ElectraPretrainer"},
    # transformers has no ELECTRA with a next-sentence head
    endings={"ElectraPretrainer": "ForPreTraining", "BertPretrainer": "ForMaskedLM"},
    head_settings={"BertMaskedLM": {"head_act": "gelu"}},  # transformers' ELECTRA ignores hidden_act here
    tied={**bert.ARCHITECTURE.tied, "generator_lm_head.weight": "embeddings.word_embeddings.weight"},
)
