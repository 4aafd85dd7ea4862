"""A model and its tokenizer as one SavedModel that takes raw strings."""

import os

import keras
import tensorflow as tf

from bert_keras.checkpoints import BertClassifier, BertEmbedder, BertEncoder
from bert_keras.features import FEATURES
from bert_keras.pipelines.packing import pack
from bert_keras.pipelines.tokenizer import BertTokenizer

TEXT_MODELS = (BertClassifier, BertEmbedder, BertEncoder)
_IDS = ("token_ids", "padding_mask", "segment_ids")


def write_saved_model(model, tokenizer: BertTokenizer, folder: str | os.PathLike) -> None:
    """Saves a model for TensorFlow Serving, or plain TensorFlow with tensorflow-text.

    `serving_default` takes `text` (B,), raw strings, where the model answers on a single text (classifier,
    embedder, encoder); `ids` takes `input_ids`, `attention_mask` and `token_type_ids`, int32 (B, S), of
    any model, and is the default one of the others. Each batch is padded to its longest text only.
    """
    served = ServedModel(model, tokenizer)
    signatures = {"ids": served.ids_function()}
    signatures["serving_default"] = served.text_function() if isinstance(model, TEXT_MODELS) else signatures["ids"]
    tf.saved_model.save(served, str(folder), signatures=signatures)


class ServedModel(tf.Module):
    """What the SavedModel holds: the model's variables, and the functions over them."""

    def __init__(self, model: keras.Model, tokenizer: BertTokenizer):
        super().__init__(name="bert_keras")
        self._weights = [variable.value for variable in model.variables]  # a root must own what its functions read
        self._call = lambda features: named_outputs(model, model(features, training=False))
        self._pack = lambda text: pack(tokenizer, text, max_sequence_length=text_length(model, tokenizer))

    def text_function(self):
        """Returns the function from `text` (B,) to the model's answers."""
        return tf.function(lambda text: self._call(self._pack(text))).get_concrete_function(
            tf.TensorSpec([None], tf.string, name="text")
        )

    def ids_function(self):
        """Returns the function from border names, int32 (B, S), to the model's answers."""
        border = {name: FEATURES[name].border_name for name in _IDS}

        def from_ids(**given):
            return self._call({name: given[border[name]] for name in _IDS})

        specs = {theirs: tf.TensorSpec([None, None], tf.int32, name=theirs) for theirs in border.values()}
        return tf.function(from_ids).get_concrete_function(**specs)


def named_outputs(model: keras.Model, outputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Adds to a classifier's logits the answers that people ask for; other models answer as they are."""
    if not isinstance(model, BertClassifier):
        return outputs
    logits = outputs["logits"]
    if model.problem == "regression":
        return {"scores": logits, "logits": logits}
    if model.problem == "multi_label":
        return {"probabilities": tf.sigmoid(logits), "logits": logits}
    label_ids = tf.argmax(logits, axis=-1, output_type=tf.int32)
    labels = tf.constant(list(model.labels or map(str, range(model.num_classes))))
    return {
        "label": tf.gather(labels, label_ids),
        "label_id": label_ids,
        "probabilities": tf.nn.softmax(logits),
        "logits": logits,
    }


def text_length(model: keras.Model, tokenizer: BertTokenizer) -> int:
    """Returns where texts are cut: at the model's last position, or sooner if the tokenizer says so."""
    limit = getattr(model, "encoder", model).config.max_sequence_length
    return min(limit, tokenizer.max_sequence_length or limit)
