"""The table of weight names in the four formats: ours, Hugging Face, Google TF1 and KerasHub.

Our name of a weight is its attribute path in the model: `encoder.blocks.0.attention.query.kernel`. Each row of the table
names a layer; the layer's kind adds the names of its variables. `{i}` is the index of the block.
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence

from bert_keras.config import BertConfig

DENSE, OUTPUT, NORM, TABLE, VECTOR = "dense", "output", "norm", "table", "vector"

# suffixes of each kind of layer for its variables: ours, Hugging Face, Google TF1, KerasHub
_VARIABLES = {
    DENSE: ((".kernel", ".weight", "/kernel", "/kernel"), (".bias", ".bias", "/bias", "/bias")),
    OUTPUT: ((".kernel", ".weight", "_weights", "/kernel"), (".bias", ".bias", "_bias", "/bias")),
    NORM: ((".gamma", ".weight", "/gamma", "/gamma"), (".beta", ".bias", "/beta", "/beta")),
    TABLE: ((".embeddings", ".weight", "", "/embeddings"),),
    VECTOR: (("", "", "", ""),),
}

# fmt: off
# kind, axes of its matrix or vector (letters of `_get_sizes`), then the layer's name in the four formats; a row without kind
# has the prefixes of the rows after it
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
# Google stores the output layer of a task as two variables without a scope, output_weights (C, D) and output_bias (C,)
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
    """The names of a weight in the four formats.

    Attributes:
        ours: its attribute path in our models.
        huggingface: its name in transformers; None, here and below: the format has no such weight.
        google: its name in Google's TF1 code.
        keras_hub: its path in KerasHub.
        axes: its shape in our layout, in the letters of `_get_sizes`.
    """

    ours: str
    huggingface: str | None
    google: str | None
    keras_hub: str | None
    axes: str

    @property
    def is_kernel(self) -> bool:
        """Whether it is the matrix of a dense layer: (in, out) in our models, (out, in) in transformers."""
        return self.ours.endswith(".kernel")

    def shape(self, config: BertConfig, num_classes: int | None = None) -> tuple[int, ...]:
        """Return its shape in our layout; `num_classes` is C, for a head that has it."""
        sizes = _get_sizes(config, num_classes)
        return tuple(sizes[axis] for axis in self.axes)


def list_weights(model: str, config: BertConfig, *, pooler: bool, family: str = "bert") -> list[WeightName]:
    """List the weights of one of our models, from input to output.

    Args:
        model: the class name, "BertClassifier" for example.
        config: the config of the encoder.
        pooler: whether the encoder has a pooler.
        family: "bert" or "electra": the architecture in transformers, which determines the names of the head.
    """
    rows = [row for row in _add_prefixes(_EMBEDDINGS) if config.position_type == "learned" or "position" not in row[2]]
    if config.embedding_dim != config.hidden_dim:
        rows += _PROJECTION
    for i in range(config.num_layers):
        rows += _add_prefixes(_BLOCK, i)
    if pooler:
        rows += _POOLER
    rows += _HEADS.get((model, family), ())
    return [name for row in rows for name in _list_variables(*row)]


def normalize_tensor_name(name: str) -> str:
    """Convert the name of a tensor in a file to that of the table: no model prefix, no gamma and beta as in TF1."""
    name = re.sub(r"^(bert|electra)\.", "", name)
    return re.sub(r"\.beta$", ".bias", re.sub(r"\.gamma$", ".weight", name))


def _add_prefixes(rows: Sequence[tuple], i: int | None = None) -> list[tuple]:
    """Prepend the prefixes in the first row, with the index of the block, to the names of the other rows."""
    (_, _, *prefixes), *rows = rows
    prefixes = [prefix.replace("{i}", str(i)) for prefix in prefixes]
    return [
        (kind, axes, *(prefix + name for prefix, name in zip(prefixes, names, strict=True)))
        for kind, axes, *names in rows
    ]


def _list_variables(kind: str, axes: str, *layers: str | None) -> Iterator[WeightName]:
    """Yield the weights of a layer, given its names in the four formats."""
    for index, suffixes in enumerate(_VARIABLES[kind]):
        names = (None if layer is None else layer + suffix for layer, suffix in zip(layers, suffixes, strict=True))
        yield WeightName(*names, axes[-1] if index else axes)  # a bias has the last axis of its kernel


def _get_sizes(config: BertConfig, num_classes: int | None) -> dict[str, int | None]:
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
