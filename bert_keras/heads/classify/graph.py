"""Classification and regression of texts and pairs of texts, in the graph."""

import tensorflow as tf

from bert_keras.heads.classify.task import THRESHOLD, TextClassification
from bert_keras.heads.text_function import RunModel, TextFunction
from bert_keras.pipelines.batches.packing import encode_in_graph
from bert_keras.pipelines.text.tokenizer import BertTokenizer


def build_classifier(run: RunModel, tokenizer: BertTokenizer, task: TextClassification, length: int) -> TextFunction:
    """Build the function from `text`, and `second_text` for pairs, to classes.

    Its outputs, for B texts and C classes, are `scores` (B, C), the logits (their mean for a text in windows), and

    - "single_label": `label` (B,), `label_id` (B,), `probabilities` (B, C);
    - "multi_label": `probabilities` (B, C), `labels` (B, L), the labels with a probability of at least `THRESHOLD`,
      padded with "", and `num_labels` (B,);
    - "regression": `value` (B,).
    """

    def answer(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
        columns = [tokenizer.tokenize(column) for column in texts]
        settings = {"max_sequence_length": task.max_sequence_length, "window_overlap": task.window_overlap}
        batch = encode_in_graph(tokenizer, columns, **settings)
        logits = tf.cast(run(batch.features)["logits"], tf.float64)
        if task.window_overlap is not None:
            logits = tf.math.segment_mean(logits, batch.examples)
        return answer_classes(task, logits)

    return TextFunction(task.input_names, answer)


def answer_classes(task: TextClassification, logits: tf.Tensor) -> dict[str, tf.Tensor]:
    """Return the outputs of a task for logits `(B, C)`."""
    logits = tf.cast(logits, tf.float64)  # as in `Task.decode`
    scores = {"scores": tf.cast(logits, tf.float32)}
    if task.problem == "regression":
        return {**scores, "value": scores["scores"][:, 0]}
    names = tf.constant(list(task.labels))
    if task.problem == "multi_label":
        probabilities = tf.sigmoid(logits)
        found = probabilities >= THRESHOLD
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
