"""One table translates every weight's name at the border, in this one file.

Our name of a weight is its attribute path in the model: `encoder.blocks.0.attention.query.kernel`.
Each row names a layer in the four worlds; the layer's kind adds the names of its variables.
`{i}` stands for the number of the block.
"""

import dataclasses
import re

from bert_keras.config import BertConfig

DENSE, OUTPUT, NORM, TABLE, VECTOR = "dense", "output", "norm", "table", "vector"

# what each kind of layer adds to its name for its variables: ours, Hugging Face, Google TF1, KerasHub
_VARIABLES = {
    DENSE: ((".kernel", ".weight", "/kernel", "/kernel"), (".bias", ".bias", "/bias", "/bias")),
    OUTPUT: ((".kernel", ".weight", "_weights", "/kernel"), (".bias", ".bias", "_bias", "/bias")),
    NORM: ((".gamma", ".weight", "/gamma", "/gamma"), (".beta", ".bias", "/beta", "/beta")),
    TABLE: ((".embeddings", ".weight", "", "/embeddings"),),
    VECTOR: (("", "", "", ""),),
}

# fmt: off
# kind, then the layer's name in the four worlds, below the scope that stands in the first row
_EMBEDDINGS = (
    (None,  "encoder.embeddings.", "embeddings.",           "bert/embeddings/",      ""),
    (TABLE, "token",               "word_embeddings",       "word_embeddings",       "token_embedding"),
    (TABLE, "position",            "position_embeddings",   "position_embeddings",   "position_embedding"),
    (TABLE, "segment",             "token_type_embeddings", "token_type_embeddings", "segment_embedding"),
    (NORM,  "layer_norm",          "LayerNorm",             "LayerNorm",             "embeddings_layer_norm"),
)
_BLOCK = (
    (None,  "encoder.blocks.{i}.",  "encoder.layer.{i}.",         "bert/encoder/layer_{i}/",    "transformer_layer_{i}/"),
    (DENSE, "attention.query",      "attention.self.query",       "attention/self/query",       "self_attention_layer/query"),
    (DENSE, "attention.key",        "attention.self.key",         "attention/self/key",         "self_attention_layer/key"),
    (DENSE, "attention.value",      "attention.self.value",       "attention/self/value",       "self_attention_layer/value"),
    (DENSE, "attention.projection", "attention.output.dense",     "attention/output/dense",     "self_attention_layer/attention_output"),
    (NORM,  "attention_norm",       "attention.output.LayerNorm", "attention/output/LayerNorm", "self_attention_layer_norm"),
    (DENSE, "intermediate",         "intermediate.dense",         "intermediate/dense",         "feedforward_intermediate_dense"),
    (DENSE, "feed_forward",         "output.dense",               "output/dense",               "feedforward_output_dense"),
    (NORM,  "feed_forward_norm",    "output.LayerNorm",           "output/LayerNorm",           "feedforward_layer_norm"),
)
_PROJECTION = ((DENSE, "encoder.embedding_projection", "embeddings_project", None, None),)
_POOLER = ((DENSE, "encoder.pooler", "pooler.dense", "bert/pooler/dense", "pooled_dense"),)

_MASKED_LM = (
    (DENSE,  "mlm_head.transform",  "cls.predictions.transform.dense",     "cls/predictions/transform/dense",     None),
    (NORM,   "mlm_head.layer_norm", "cls.predictions.transform.LayerNorm", "cls/predictions/transform/LayerNorm", None),
    (VECTOR, "mlm_head.bias",       "cls.predictions.bias",                "cls/predictions/output_bias",         None),
)
_ELECTRA_MASKED_LM = (
    (DENSE,  "mlm_head.transform",  "generator_predictions.dense",     None, None),
    (NORM,   "mlm_head.layer_norm", "generator_predictions.LayerNorm", None, None),
    (VECTOR, "mlm_head.bias",       "generator_lm_head.bias",          None, None),
)
# Google writes the last layer of a task as two bare variables, output_weights (C, D) and output_bias (C,)
_NEXT_SENTENCE = ((OUTPUT, "next_sentence", "cls.seq_relationship", "cls/seq_relationship/output", None),)
_CLASSIFIER = ((OUTPUT, "classifier", "classifier", "output", "logits"),)
_TOKEN_CLASSIFIER = ((DENSE, "classifier", "classifier", None, None),)
_ELECTRA_CLASSIFIER = (
    (DENSE, "cls_dense",  "classifier.dense",    None, None),
    (DENSE, "classifier", "classifier.out_proj", None, None),
)
_SPAN = ((OUTPUT, "span", "qa_outputs", "cls/squad/output", None),)
_REPLACED = (
    (DENSE, "head_dense", "discriminator_predictions.dense",            None, None),
    (DENSE, "replaced",   "discriminator_predictions.dense_prediction", None, None),
)
# fmt: on

_HEADS = {
    ("BertMaskedLM", "bert"): _MASKED_LM,
    ("BertMaskedLM", "electra"): _ELECTRA_MASKED_LM,
    ("BertPretrainer", "bert"): _MASKED_LM + _NEXT_SENTENCE,
    ("BertPretrainer", "electra"): _ELECTRA_MASKED_LM + _NEXT_SENTENCE,
    ("BertClassifier", "bert"): _CLASSIFIER,
    ("BertClassifier", "electra"): _ELECTRA_CLASSIFIER,
    ("BertTokenClassifier", "bert"): _TOKEN_CLASSIFIER,
    ("BertTokenClassifier", "electra"): _TOKEN_CLASSIFIER,
    ("BertQuestionAnswerer", "bert"): _SPAN,
    ("BertQuestionAnswerer", "electra"): _SPAN,
    ("ElectraPretrainer", "electra"): _REPLACED,
}


@dataclasses.dataclass(frozen=True)
class WeightName:
    """One weight in the four worlds; None where a world has no such weight."""

    ours: str
    huggingface: str | None
    google: str | None
    keras_hub: str | None

    @property
    def is_kernel(self) -> bool:
        """Whether it is a dense layer's matrix: (in, out) here, (out, in) at Hugging Face."""
        return self.ours.endswith(".kernel")


def weight_names(model: str, config: BertConfig, *, pooler: bool, family: str = "bert") -> list[WeightName]:
    """Lists every weight of a model of ours, in reading order.

    Args:
        model: the class name, "BertClassifier" for example.
        config: the encoder's shape.
        pooler: whether its encoder has a pooler.
        family: "bert" or "electra": which names Hugging Face gives the head.
    """
    rows = [row for row in _scoped(_EMBEDDINGS) if config.position_type == "learned" or "position" not in row[1]]
    if config.embedding_dim != config.hidden_dim:
        rows += _PROJECTION
    for i in range(config.num_layers):
        rows += _scoped(_BLOCK, i)
    if pooler:
        rows += _POOLER
    rows += _HEADS.get((model, family), ())
    return [name for row in rows for name in _variables_of(*row)]


def plain_huggingface_name(name: str) -> str:
    """Takes a tensor's name in a file to the table's: without the model's prefix, without TF1's gamma and beta."""
    name = re.sub(r"^(bert|electra)\.", "", name)
    return re.sub(r"\.beta$", ".bias", re.sub(r"\.gamma$", ".weight", name))


def _scoped(rows, i: int | None = None):
    """Puts the scope of the first row, with the number of the block, before the names of the others."""
    (_, *scopes), *rows = rows
    scopes = [scope.replace("{i}", str(i)) for scope in scopes]
    return [(kind, *(scope + name for scope, name in zip(scopes, names, strict=True))) for kind, *names in rows]


def _variables_of(kind, *stems):
    for ends in _VARIABLES[kind]:
        yield WeightName(*(None if stem is None else stem + end for stem, end in zip(stems, ends, strict=True)))
