"""Packed sequences have the same loss and gradients as their examples in separate sequences."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import bert_keras as bk
from tests.marks import slow

LOSS_TOLERANCE = 4e-6  # measured: 4.8e-7, for losses near 6
GRADIENT_TOLERANCE = 3e-6  # relative to the largest gradient of a weight; measured: 3.1e-7
LENGTHS = ((6, 4, 5), (9, 7), (3, 3, 8))  # of the examples in three packed sequences
LENGTH, NUM_MASKED, MAX_MASKED_PER_EXAMPLE = 17, 7, 3


def draw_examples(sizes):
    """Draw eight examples of different lengths with masked positions and next-sentence labels."""
    rng = np.random.default_rng(3)
    examples = []
    for size in itertools.chain(*LENGTHS):
        num_masked = int(rng.integers(1, min(MAX_MASKED_PER_EXAMPLE, size - 1) + 1))
        examples.append(
            {
                "token_ids": rng.integers(5, sizes["vocabulary_size"], size),
                "segment_ids": (np.arange(size) >= size // 2).astype("int32"),
                "mask_positions": np.sort(rng.permutation(size - 1)[:num_masked] + 1),
                "mask_ids": rng.integers(5, sizes["vocabulary_size"], num_masked),
                "next_sentence_labels": int(rng.integers(0, 2)),
            }
        )
    return examples


def make_batch(groups, *, length: int, num_masked: int, num_packs: int | None):
    """Put each group of examples into one sequence; with `num_packs=None`, omit the features of packing."""
    shapes = {"token_ids": length, "segment_ids": length, "padding_mask": length, "pack_ids": length}
    shapes |= {"mask_positions": num_masked, "mask_ids": num_masked, "pack_starts": num_packs or 1}
    x = {name: np.zeros((len(groups), width), "int32") for name, width in shapes.items()}
    mask_weights = np.zeros((len(groups), num_masked), "float32")
    labels, label_weights = np.zeros((2, len(groups), num_packs or 1), "float32")
    for row, group in enumerate(groups):
        start = num_placed = 0
        for number, example in enumerate(group):
            size, num_new = len(example["token_ids"]), len(example["mask_ids"])
            for name in ("token_ids", "segment_ids"):
                x[name][row, start : start + size] = example[name]
            x["padding_mask"][row, start : start + size], x["pack_ids"][row, start : start + size] = 1, number + 1
            masked = slice(num_placed, num_placed + num_new)
            x["mask_positions"][row, masked] = example["mask_positions"] + start
            x["mask_ids"][row, masked], mask_weights[row, masked] = example["mask_ids"], 1.0
            x["pack_starts"][row, number] = start
            labels[row, number], label_weights[row, number] = example["next_sentence_labels"], 1.0
            start, num_placed = start + size, num_placed + num_new
    y = {"mask_ids": x.pop("mask_ids"), "mask_weights": mask_weights}
    y |= {"next_sentence_labels": labels.astype("int32"), "next_sentence_weights": label_weights}
    if num_packs is None:
        del x["pack_ids"], x["pack_starts"], y["next_sentence_weights"]
        y["next_sentence_labels"] = y["next_sentence_labels"][:, 0]
    return x, y


@pytest.fixture
def both_layouts(sizes):
    """Batches with the same examples, packed and in separate sequences."""
    examples = draw_examples(sizes)
    groups, start = [], 0
    for lengths in LENGTHS:
        groups.append(examples[start : start + len(lengths)])
        start += len(lengths)
    separate = make_batch(
        [[example] for example in examples], length=11, num_masked=MAX_MASKED_PER_EXAMPLE, num_packs=None
    )
    return make_batch(groups, length=LENGTH, num_masked=NUM_MASKED, num_packs=4), separate


def loss_and_gradients(model, x, y, mode):
    weights = [weight.value for weight in model.trainable_weights]

    def run():
        with tf.GradientTape() as tape:
            loss = model.compute_loss(x, y, model(x, training=False))
        return loss, tape.gradient(loss, weights, unconnected_gradients="zero")

    if mode != "eager":
        run = tf.function(run, jit_compile=mode == "xla")
    loss, gradients = run()
    return float(loss), [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("pretrainer", "eager"), *slow(*itertools.product(["pretrainer", "masked_lm"], ["graph", "xla"]))],
)
def test_packing_does_not_change_loss_and_gradients(kind, mode, both_layouts, make_model):
    model = make_model(kind)
    model.compile("adam")
    results = []
    for x, y in both_layouts:
        x = {name: value for name, value in x.items() if kind == "pretrainer" or name != "pack_starts"}
        results.append(loss_and_gradients(model, x, y, mode))
    (packed_loss, packed_gradients), (loss, gradients) = results
    assert abs(packed_loss - loss) < LOSS_TOLERANCE
    for ours, theirs, weight in zip(packed_gradients, gradients, model.trainable_weights, strict=True):
        scale = max(1.0, np.abs(theirs).max())
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=GRADIENT_TOLERANCE * scale, err_msg=weight.path)


@pytest.mark.slow  # tests/training/test_objectives.py trains packed sequences too
def test_packed_sequences_train_in_fit(both_layouts, make_model):
    (x, y), _ = both_layouts
    model = make_model("pretrainer", hidden_dropout_rate=0.0, attention_dropout_rate=0.0)
    model.compile("adam", jit_compile=True)
    history = model.fit(x, y, epochs=2, batch_size=3, verbose=0).history
    assert {"loss", "mlm_logits_accuracy", "next_sentence_logits_accuracy"} <= set(history)
    assert history["loss"][1] < history["loss"][0]


def test_each_packed_example_has_its_own_next_sentence_logits(both_layouts, make_model, run):
    (x, _), (x_separate, _) = both_layouts
    model = make_model("pretrainer")
    packed, separate = run(model, x)["next_sentence_logits"], run(model, x_separate)["next_sentence_logits"]
    assert packed.shape == (3, 4, 2)
    used = np.concatenate([packed[row, : len(lengths)] for row, lengths in enumerate(LENGTHS)])
    np.testing.assert_allclose(used, separate, rtol=0, atol=4e-6)  # measured: 4.0e-7


def test_masked_lm_rejects_pack_starts(both_layouts, make_model):
    (x, _), _ = both_layouts
    with pytest.raises(bk.InputError, match="pack_starts"):
        make_model("masked_lm", num_layers=1)(x)
