"""Classes, sets of tags, or a number for each text or pair of texts."""

from collections.abc import Callable

import tensorflow as tf

from bert_keras.export.saved_model.answers.served import TextFunction
from bert_keras.pipelines.batches.graph_encoding import encode_in_graph
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.tasks.text_classification import TextClassification


def classifying(run: Callable, tokenizer: BertTokenizer, task: TextClassification) -> TextFunction:
    """Returns the function from `text`, of pairs also `second_text`, to classes.

    Its answers, for B texts and C classes: `scores` (B, C), the logits, of a text in windows their means; and
    - "single_label": `label` (B,), `label_id` (B,), `probabilities` (B, C);
    - "multi_label": `probabilities` (B, C), `labels` (B, L), those of half or more, "" behind them, `num_labels` (B,);
    - "regression": `value` (B,).
    """

    def answer(*texts):
        columns = [tokenizer.tokenize(column) for column in texts]
        settings = {"max_sequence_length": task.max_sequence_length, "window_overlap": task.window_overlap}
        rows = encode_in_graph(tokenizer, columns, **settings)
        logits = tf.cast(run(rows.features)["logits"], tf.float64)
        if task.window_overlap is not None:
            logits = tf.math.segment_mean(logits, rows.examples)
        return class_answers(task, logits)

    return TextFunction(task.input_names, answer)


def class_answers(task: TextClassification, logits: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the answers of a task to logits `(B, C)`."""
    logits = tf.cast(logits, tf.float64)  # as in `Task.answers`
    scores = {"scores": tf.cast(logits, tf.float32)}
    if task.problem == "regression":
        return {**scores, "value": scores["scores"][:, 0]}
    names = tf.constant(list(task.labels))
    if task.problem == "multi_label":
        probabilities = tf.sigmoid(logits)
        found = probabilities >= 0.5
        every_name = tf.broadcast_to(names, tf.shape(found))
        return {
            **scores,
            "probabilities": tf.cast(probabilities, tf.float32),
            "labels": tf.ragged.boolean_mask(every_name, found).to_tensor(""),
            "num_labels": tf.reduce_sum(tf.cast(found, tf.int32), axis=-1),
        }
    label_ids = tf.argmax(logits, axis=-1, output_type=tf.int32)
    return {
        **scores,
        "label": tf.gather(names, label_ids),
        "label_id": label_ids,
        "probabilities": tf.cast(tf.nn.softmax(logits), tf.float32),
    }
