"""DistilBERT (Sanh et al. 2019): BERT's blocks without segments and without a pooler."""

from bert_keras.architectures import bert
from bert_keras.architectures.architecture import DENSE, NORM, OUTPUT, TABLE, VECTOR, Architecture

# fmt: off
EMBEDDINGS = (
    (None,  None, "encoder.embeddings.", "embeddings.",         None, None),
    (TABLE, "VE", "token",               "word_embeddings",     None, None),
    (TABLE, "LE", "position",            "position_embeddings", None, None),
    (NORM,  "E",  "layer_norm",          "LayerNorm",           None, None),
)
BLOCK = (
    (None,  None, "encoder.blocks.{i}.",  "transformer.layer.{i}.", None, None),
    (DENSE, "DD", "attention.query",      "attention.q_lin",        None, None),
    (DENSE, "DD", "attention.key",        "attention.k_lin",        None, None),
    (DENSE, "DD", "attention.value",      "attention.v_lin",        None, None),
    (DENSE, "DD", "attention.projection", "attention.out_lin",      None, None),
    (NORM,  "D",  "attention_norm",       "sa_layer_norm",          None, None),
    (DENSE, "DI", "intermediate",         "ffn.lin1",               None, None),
    (DENSE, "ID", "feed_forward",         "ffn.lin2",               None, None),
    (NORM,  "D",  "feed_forward_norm",    "output_layer_norm",      None, None),
)
MASKED_LM = (
    (DENSE,  "DE", "mlm_head.transform",  "vocab_transform",      None, None),
    (NORM,   "E",  "mlm_head.layer_norm", "vocab_layer_norm",     None, None),
    (VECTOR, "V",  "mlm_head.bias",       "vocab_projector.bias", None, None),
)
CLASSIFIER = (
    (DENSE, "DD", "cls_dense",  "pre_classifier", None, None),
    (DENSE, "DC", "classifier", "classifier",     None, None),
)
SPAN = ((OUTPUT, "D2", "span", "qa_outputs", None, None),)
# fmt: on

ARCHITECTURE = Architecture(
    model_type="distilbert",
    config_keys={
        "vocabulary_size": "vocab_size",
        "num_layers": "n_layers",
        "num_heads": "n_heads",
        "hidden_dim": "dim",
        "intermediate_dim": "hidden_dim",
        "max_sequence_length": "max_position_embeddings",
        "hidden_dropout_rate": "dropout",
        "attention_dropout_rate": "attention_dropout",
        "initializer_range": "initializer_range",
    },
    config_defaults={"dropout": 0.1, "attention_dropout": 0.1, "initializer_range": 0.02, "seq_classif_dropout": 0.2},
    # the texts of a pair are separated by [SEP] alone, so the number of segments does not matter
    fixed_fields={
        "layer_norm_epsilon": 1e-12,
        "type_vocabulary_size": 2,
    },
    act_key="activation",
    dropout_keys={"BertClassifier": "seq_classif_dropout"},
    class_prefix="DistilBert",
    embeddings=EMBEDDINGS,
    block=BLOCK,
    projection=(),
    pooler=(),
    heads={
        "BertMaskedLM": MASKED_LM,
        "BertClassifier": CLASSIFIER,
        "BertTokenClassifier": bert.TOKEN_CLASSIFIER,
        "BertQuestionAnswerer": SPAN,
    },
    needs_pooler=frozenset(),
    tied={"vocab_projector.weight": "embeddings.word_embeddings.weight"},
    has_segments=False,
    classifier_act="relu",
    has_classifier_dropout=False,
)
