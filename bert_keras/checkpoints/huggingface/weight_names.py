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
# kind, the axes of its matrix or vector in the letters of `_sizes`, then the layer's name in the four worlds, below the
# scope that stands in the first row
_EMBEDDINGS = (
    (None,  None, "encoder.embeddings.", "embeddings.",           "bert/embeddings/",      ""),
    (TABLE, "VE", "token",               "word_embeddings",       "word_embeddings",       "token_embedding"),
    (TABLE, "LE", "position",            "position_embeddings",   "position_embeddings",   "position_embedding"),
    (TABLE, "TE", "segment",             "token_type_embeddings", "token_type_embeddings", "segment_embedding"),
    (NORM,  "E",  "layer_norm",          "LayerNorm",             "LayerNorm",             "embeddings_layer_norm"),
)
_BLOCK = (
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
_PROJECTION = ((DENSE, "ED", "encoder.embedding_projection", "embeddings_project", None, None),)
_POOLER = ((DENSE, "DD", "encoder.pooler", "pooler.dense", "bert/pooler/dense", "pooled_dense"),)

_MASKED_LM = (
    (DENSE,  "DE", "mlm_head.transform",  "cls.predictions.transform.dense",     "cls/predictions/transform/dense",     None),
    (NORM,   "E",  "mlm_head.layer_norm", "cls.predictions.transform.LayerNorm", "cls/predictions/transform/LayerNorm", None),
    (VECTOR, "V",  "mlm_head.bias",       "cls.predictions.bias",                "cls/predictions/output_bias",         None),
)
_ELECTRA_MASKED_LM = (
    (DENSE,  "DE", "mlm_head.transform",  "generator_predictions.dense",     None, None),
    (NORM,   "E",  "mlm_head.layer_norm", "generator_predictions.LayerNorm", None, None),
    (VECTOR, "V",  "mlm_head.bias",       "generator_lm_head.bias",          None, None),
)
# Google writes the last layer of a task as two bare variables, output_weights (C, D) and output_bias (C,)
_NEXT_SENTENCE = ((OUTPUT, "D2", "next_sentence", "cls.seq_relationship", "cls/seq_relationship/output", None),)
_CLASSIFIER = ((OUTPUT, "DC", "classifier", "classifier", "output", "logits"),)
_TOKEN_CLASSIFIER = ((DENSE, "DC", "classifier", "classifier", None, None),)
_ELECTRA_CLASSIFIER = (
    (DENSE, "DD", "cls_dense",  "classifier.dense",    None, None),
    (DENSE, "DC", "classifier", "classifier.out_proj", None, None),
)
_SPAN = ((OUTPUT, "D2", "span", "qa_outputs", "cls/squad/output", None),)
_REPLACED = (
    (DENSE, "DD", "head_dense", "discriminator_predictions.dense",            None, None),
    (DENSE, "D1", "replaced",   "discriminator_predictions.dense_prediction", None, None),
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
    """One weight in the four worlds; None where a world has no such weight. `axes`: the letters of its shape."""

    ours: str
    huggingface: str | None
    google: str | None
    keras_hub: str | None
    axes: str

    @property
    def is_kernel(self) -> bool:
        """Whether it is a dense layer's matrix: (in, out) here, (out, in) at Hugging Face."""
        return self.ours.endswith(".kernel")

    def shape(self, config: BertConfig, num_classes: int | None = None) -> tuple[int, ...]:
        """Returns its shape in our layout; `num_classes` is that of a head over classes."""
        sizes = _sizes(config, num_classes)
        return tuple(sizes[axis] for axis in self.axes)


def list_weights(model: str, config: BertConfig, *, pooler: bool, family: str = "bert") -> list[WeightName]:
    """Lists every weight of a model of ours, in reading order.

    Args:
        model: the class name, "BertClassifier" for example.
        config: the encoder's shape.
        pooler: whether its encoder has a pooler.
        family: "bert" or "electra": which names Hugging Face gives the head.
    """
    rows = [row for row in _scoped(_EMBEDDINGS) if config.position_type == "learned" or "position" not in row[2]]
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
    (_, _, *scopes), *rows = rows
    scopes = [scope.replace("{i}", str(i)) for scope in scopes]
    return [
        (kind, axes, *(scope + name for scope, name in zip(scopes, names, strict=True))) for kind, axes, *names in rows
    ]


def _variables_of(kind, axes, *stems):
    for place, ends in enumerate(_VARIABLES[kind]):
        names = (None if stem is None else stem + end for stem, end in zip(stems, ends, strict=True))
        yield WeightName(*names, axes[-1] if place else axes)  # a bias has the last axis of its kernel


def _sizes(config: BertConfig, num_classes: int | None) -> dict[str, int | None]:
    return {
        "V": config.vocabulary_size,
        "L": config.max_sequence_length,
        "T": config.type_vocabulary_size,
        "E": config.embedding_dim,
        "D": config.hidden_dim,
        "I": config.intermediate_dim,
        "C": num_classes,
        "1": 1,
        "2": 2,
    }
