"""BERT (Devlin et al. 2018): the tensors of its encoder and its heads in the four formats."""

from bert_keras.architectures.architecture import DENSE, NORM, OUTPUT, TABLE, VECTOR, Architecture

CONFIG_KEYS = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_position_embeddings",
    "type_vocabulary_size": "type_vocab_size",
    "hidden_dropout_rate": "hidden_dropout_prob",
    "attention_dropout_rate": "attention_probs_dropout_prob",
    "layer_norm_epsilon": "layer_norm_eps",
    "initializer_range": "initializer_range",
}
CONFIG_DEFAULTS = {
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "layer_norm_eps": 1e-12,
    "initializer_range": 0.02,
}
# fmt: off
EMBEDDINGS = (
    (None,  None, "encoder.embeddings.", "embeddings.",           "bert/embeddings/",      ""),
    (TABLE, "VE", "token",               "word_embeddings",       "word_embeddings",       "token_embedding"),
    (TABLE, "LE", "position",            "position_embeddings",   "position_embeddings",   "position_embedding"),
    (TABLE, "TE", "segment",             "token_type_embeddings", "token_type_embeddings", "segment_embedding"),
    (NORM,  "E",  "layer_norm",          "LayerNorm",             "LayerNorm",             "embeddings_layer_norm"),
)
BLOCK = (
    (None,  None, "encoder.blocks.{i}.",  "encoder.layer.{i}.",         "bert/encoder/layer_{i}/",    "transformer_layer_{i}/"),
    (DENSE, "DD", "attention.query",      "attention.self.query",       "attention/self/query",       "self_attention_layer/query"),
    (DENSE, "DD", "attention.key",        "attention.self.key",         "attention/self/key",         "self_attention_layer/key"),
    (DENSE, "DD", "attention.value",      "attention.self.value",       "attention/self/value",       "self_attention_layer/value"),
    (DENSE, "DD", "attention.projection", "attention.output.dense",     "attention/output/dense",     "self_attention_layer/attention_output"),
    (NORM,  "D",  "attention_norm",       "attention.output.LayerNorm", "attention/output/LayerNorm", "self_attention_layer_norm"),
    (DENSE, "DI", "intermediate",         "intermediate.dense",         "intermediate/dense",         "feedforward_intermediate_dense"),
    (DENSE, "ID", "feed_forward",         "output.dense",               "output/dense",               "feedforward_output_dense"),
    (NORM,  "D",  "feed_forward_norm",    "output.LayerNorm",           "output/LayerNorm",           "feedforward_layer_norm"),
)
PROJECTION = ((DENSE, "ED", "encoder.embedding_projection", "embeddings_project", None, None),)
POOLER = ((DENSE, "DD", "encoder.pooler", "pooler.dense", "bert/pooler/dense", "pooled_dense"),)
MASKED_LM = (
    (DENSE,  "DE", "mlm_head.transform",  "cls.predictions.transform.dense",     "cls/predictions/transform/dense",     None),
    (NORM,   "E",  "mlm_head.layer_norm", "cls.predictions.transform.LayerNorm", "cls/predictions/transform/LayerNorm", None),
    (VECTOR, "V",  "mlm_head.bias",       "cls.predictions.bias",                "cls/predictions/output_bias",         None),
)
# Google stores the output layer of a task as two variables without a scope, output_weights (C, D) and output_bias (C,)
NEXT_SENTENCE = ((OUTPUT, "D2", "next_sentence", "cls.seq_relationship", "cls/seq_relationship/output", None),)
CLASSIFIER = ((OUTPUT, "DC", "classifier", "classifier", "output", "logits"),)
TOKEN_CLASSIFIER = ((DENSE, "DC", "classifier", "classifier", None, None),)
SPAN = ((OUTPUT, "D2", "span", "qa_outputs", "cls/squad/output", None),)
# fmt: on

ARCHITECTURE = Architecture(
    model_type="bert",
    config_keys=CONFIG_KEYS,
    config_defaults=CONFIG_DEFAULTS,
    dropout_keys={"BertClassifier": "classifier_dropout", "BertTokenClassifier": "classifier_dropout"},
    class_prefix="Bert",
    embeddings=EMBEDDINGS,
    block=BLOCK,
    projection=PROJECTION,
    pooler=POOLER,
    heads={
        "BertMaskedLM": MASKED_LM,
        "BertPretrainer": MASKED_LM + NEXT_SENTENCE,
        "BertClassifier": CLASSIFIER,
        "BertTokenClassifier": TOKEN_CLASSIFIER,
        "BertQuestionAnswerer": SPAN,
    },
    needs_pooler=frozenset({"BertPretrainer", "BertClassifier"}),
    tied={
        "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
)
