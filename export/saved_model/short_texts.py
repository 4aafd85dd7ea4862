"""Run batches of few tokens in operations of their own, so that TensorFlow can keep its copies of the weights.

oneDNN's kernels need the weights of a product in another order, and at short texts most of the time goes into that.
With the environment variable `TF_ONEDNN_ASSUME_FROZEN_WEIGHTS=1` TensorFlow keeps the ordered copy of the first call.
But products of few rows need another order than those of many, so each kind gets its own operations. Both read the same
variables, and without the environment variable nothing changes.
"""

from collections.abc import Callable, Mapping

import tensorflow as tf

from bert_keras.export.saved_model.answers.text_function import RunModel

FEWEST_ROWS, MOST_ROWS = 8, 80  # oneDNN chooses one order of the weights for these, and another for fewer or more
FEW_ROWS = "few_rows"  # part of the names of the functions for few rows

Features = Mapping[str, tf.Tensor]


def separate_few_rows(run: RunModel, count_rows: Callable[[Features], tf.Tensor]) -> RunModel:
    """Wrap a function of features so that batches of 8 to 80 rows run in a copy of its operations.

    Args:
        run: runs the model on any batch.
        count_rows: returns the number of rows of the products: of the tokens that are computed.
    """

    def few_rows(features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return run(features)

    def run_any(features: Features) -> dict[str, tf.Tensor]:
        rows = count_rows(features)
        few = tf.function(few_rows, autograph=False)
        is_few = (rows >= FEWEST_ROWS) & (rows <= MOST_ROWS)
        return tf.cond(is_few, lambda: few(dict(features)), lambda: run(features))

    return run_any


def count_tokens(features: Features) -> tf.Tensor:
    """Return the number of tokens of a batch, padding included."""
    return tf.size(features["padding_mask"])


def count_real_tokens(features: Features) -> tf.Tensor:
    """Return the number of tokens of a batch without its padding."""
    return tf.reduce_sum(features["padding_mask"])
