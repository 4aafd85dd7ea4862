"""Pretraining batches have every record once per epoch, are reproducible, and can start anywhere."""

import collections
import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.features import FEATURES
from bert_keras.files import compute_digest
from bert_keras.pipelines.batches import pretraining_batches
from bert_keras.pipelines.batches.epochs import make_example_seeds
from bert_keras.pipelines.batches.masking import ELECTRA_REPLACE_RATES, MaskingTokens, mask_tokens
from bert_keras.pipelines.batches.pretraining_batches import make_pretraining_batches
from bert_keras.pipelines.records.making_records import write_records
from bert_keras.pipelines.records.record import Record, serialize_records
from tests.marks import slow, slow_except

LENGTH, MAX_EXAMPLES = 23, 3
SHARDS = (("train", 11), ("train", 0), ("train", 19), ("train", 1), ("held_out", 7), ("train", 8), ("held_out", 2))
NUM_TRAIN = sum(count for split, count in SHARDS if split == "train")
# for "none", examples have only a first text; the longest examples fill a sequence
KINDS = {
    "single nsp": {"sentence_objective": "nsp"},
    "single none": {"sentence_objective": "none"},
    "packed sop": {"sentence_objective": "sop", "packed": True},
    "packed none": {"sentence_objective": "none", "packed": True},
}
CLS, SEP = 2, 3


def draw_record(rng, sentence_objective, packed=False):
    ids, lengths, labels = [], [], []
    for _ in range(rng.integers(1, MAX_EXAMPLES + 1) if packed else 1):
        room = LENGTH - len(ids)
        if room < 5:
            break
        first = int(rng.integers(1, room - 3))
        second = 0 if sentence_objective == "none" else int(rng.integers(1, room - 2 - first))
        lengths.append((first + 2, second + 1 if second else 0))
        ids += [CLS, *rng.integers(5, 18, first), SEP]
        ids += [*rng.integers(5, 18, second), SEP] if second else []
        labels += [int(rng.integers(2))] if second else []
    return Record([int(index) for index in ids], lengths, labels)


def write_random_records(folder, tokenizer, **settings):
    """Write a records folder, replace its shards by random records as in `SHARDS`, and return (split, record) pairs.

    Shards of both splits alternate, so that the number of a record differs from its index in the split.
    """
    documents = [["the a b c d"], ["d c b a the"]]
    limits = {"max_sequence_length": LENGTH, "max_examples_per_sequence": MAX_EXAMPLES}
    manifest = write_records(folder, documents, tokenizer, **limits, **settings)
    rng = np.random.default_rng(3)
    records, manifest["shards"] = [], []
    for number, (split, count) in enumerate(SHARDS):
        shard = [draw_record(rng, **settings) for _ in range(count)]
        path = folder / f"sequences-{number}.tfrecord"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for record in serialize_records(shard):
                writer.write(record)
        entry = {"name": path.name, "split": split, "num_records": count, "num_examples": count, **compute_digest(path)}
        manifest["shards"].append(entry)
        records += [(split, record) for record in shard]
    for split, counts in manifest["splits"].items():
        counts["num_records"] = sum(count for other, count in SHARDS if other == split)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return records


@pytest.fixture(scope="module")
def records(tiny_tokenizer, tmp_path_factory):
    """Dict from kind to the folder and its (split, record) pairs in the order of the record numbers."""
    root = tmp_path_factory.mktemp("records")
    return {
        kind: (
            root / kind.replace(" ", "_"),
            write_random_records(root / kind.replace(" ", "_"), tiny_tokenizer, **settings),
        )
        for kind, settings in KINDS.items()
    }


@pytest.fixture
def folder(records):
    return records["single nsp"][0]


@pytest.fixture
def batches(folder, tiny_tokenizer):
    """Function that makes batches of single pairs and returns each as a dict of tuples."""

    def make(**settings):
        return read(make_pretraining_batches(folder, tiny_tokenizer, **{"batch_size": 5, **settings}))

    return make


def read(dataset):
    return [
        {name: as_tuple(value) for name, value in {**features, **labels}.items()}
        for features, labels in dataset.as_numpy_iterator()
    ]


def as_tuple(array):
    return tuple(map(tuple, array.tolist())) if array.ndim == 2 else tuple(array.tolist())


def list_sequences(batches):
    """Return the sequences of all batches, each as a dict."""
    return [
        dict(zip(batch, sequence, strict=True)) for batch in batches for sequence in zip(*batch.values(), strict=True)
    ]


def restore_ids(sequence):
    """Return the ids of a sequence before masking."""
    ids = list(sequence["token_ids"])
    for position, index, weight in zip(
        sequence["mask_positions"], sequence["mask_ids"], sequence["mask_weights"], strict=True
    ):
        if weight:
            ids[position] = index
    return tuple(ids)


def count_sequences(sequences):
    return collections.Counter(tuple(sorted(sequence.items())) for sequence in sequences)


def make_expected(record, max_examples):
    """Return the expected features and labels of a record."""
    out = {"segment_ids": [], "pack_ids": [], "pack_starts": []}
    for number, (first, second) in enumerate(record.lengths, 1):
        out["pack_starts"].append(len(out["pack_ids"]))
        out["segment_ids"] += [0] * first + [1] * second
        out["pack_ids"] += [number] * (first + second)
    out |= {"token_ids": record.token_ids, "padding_mask": [1] * len(record.token_ids)}
    out = {name: pad(values, LENGTH) for name, values in out.items() if name != "pack_starts"} | {
        "pack_starts": pad(out["pack_starts"], max_examples)
    }
    out["next_sentence_labels"] = pad(record.sentence_labels, max_examples)
    out["next_sentence_weights"] = pad([1.0] * len(record.sentence_labels), max_examples)
    return out


def pad(values, length):
    return (*values, *[0] * (length - len(values)))


@pytest.mark.parametrize("kind", slow_except(KINDS, quick=["packed sop"]))
def test_names_types_and_static_shapes_match_the_table_of_features(kind, records, tiny_tokenizer):
    dataset = make_pretraining_batches(records[kind][0], tiny_tokenizer, batch_size=5, epochs=3)
    features, labels = dataset.element_spec
    packed, labelled = "packed" in kind, "none" not in kind
    expected = {"token_ids", "segment_ids", "padding_mask", "mask_positions"}
    expected |= {"pack_ids"} if packed else set()
    expected |= {"pack_starts"} if packed and labelled else set()
    assert set(features) == expected
    assert set(labels) == {"mask_ids", "mask_weights"} | ({"next_sentence_labels"} if labelled else set()) | (
        {"next_sentence_weights"} if packed and labelled else set()
    )
    sizes = {"B": 5, "S": LENGTH, "M": 4, "K": MAX_EXAMPLES}  # 15 % of 23 is 3.45
    for name, spec in {**features, **labels}.items():
        shape = "BK" if packed and name == "next_sentence_labels" else FEATURES[name].shape
        assert spec.dtype.name == FEATURES[name].dtype, name
        assert tuple(spec.shape) == tuple(sizes[letter] for letter in shape), name
    assert dataset.cardinality().numpy() == sum(1 for _ in dataset) == 3 * (NUM_TRAIN // 5)


@pytest.mark.parametrize(
    ("kind", "split"),
    slow_except(itertools.product(KINDS, ["train", "held_out"]), quick=[("packed sop", "train")]),
)
def test_unshuffled_records_keep_their_order(kind, split, records, tiny_tokenizer):
    folder, split_records = records[kind]
    settings = {"batch_size": 4, "split": split, "shuffle": False, "drop_remainder": False}
    sequences = list_sequences(read(make_pretraining_batches(folder, tiny_tokenizer, **settings)))
    expected_records = [record for record_split, record in split_records if record_split == split]
    assert len(sequences) == len(expected_records)
    for sequence, record in zip(sequences, expected_records, strict=True):
        expected = make_expected(record, MAX_EXAMPLES if "packed" in kind else 1)
        assert restore_ids(sequence) == expected.pop("token_ids")
        for name in set(expected) & set(sequence):
            actual = sequence[name] if isinstance(sequence[name], tuple) else (sequence[name],)
            assert actual == expected[name], name


ALL_OPTIONS = {"mask_rate": 0.4, "max_predictions": 7, "replace_rates": ELECTRA_REPLACE_RATES}


@pytest.mark.parametrize(
    ("settings", "mask_options"),
    slow_except(
        [
            ({}, {}),
            ({"mask_unit": "whole_word"}, {"unit": "whole_word"}),
            ({"mask_unit": "span", "mask_rate": 0.4}, {"unit": "span", "mask_rate": 0.4, "max_predictions": 10}),
            ({"replace_rates": ELECTRA_REPLACE_RATES}, {"replace_rates": ELECTRA_REPLACE_RATES}),
            ({"max_predictions": 2}, {"max_predictions": 2}),
            ({"mask_unit": "span", **ALL_OPTIONS}, {"unit": "span", **ALL_OPTIONS}),
            ({"masking": "static"}, {"epoch": 0}),
        ],
        quick=[
            ({"mask_unit": "span", **ALL_OPTIONS}, {"unit": "span", **ALL_OPTIONS}),
            ({"masking": "static"}, {"epoch": 0}),
        ],
    ),
)
@pytest.mark.parametrize("kind", ["packed sop", *slow("single nsp")])
def test_masks_depend_only_on_record_number_seed_and_epoch(kind, settings, mask_options, records, tiny_tokenizer):
    """The record number counts all shards, even if only the shards of one split are read."""
    folder, split_records = records[kind]
    settings = {"batch_size": 3, "split": "held_out", "shuffle": False, "seed": 7, "epochs": 2, **settings}
    sequences = list_sequences(read(make_pretraining_batches(folder, tiny_tokenizer, **settings)))
    numbers = [number for number, (split, _) in enumerate(split_records) if split == "held_out"]
    assert len(sequences) == 2 * len(numbers) == 18
    tokens = MaskingTokens.from_tokenizer(tiny_tokenizer)
    for epoch, epoch_sequences in enumerate((sequences[:9], sequences[9:])):
        token_ids = tf.constant([restore_ids(sequence) for sequence in epoch_sequences])
        features = {
            "token_ids": token_ids,
            "padding_mask": tf.constant([sequence["padding_mask"] for sequence in epoch_sequences]),
        }
        options = {"max_predictions": 4, **mask_options}
        seeds = make_example_seeds(7, options.pop("epoch", epoch), numbers)
        features, labels = mask_tokens(features, tokens, seeds=seeds, **options)
        for name, value in {**features, **labels}.items():
            assert [tuple(values) for values in value.numpy().tolist()] == [
                sequence[name] for sequence in epoch_sequences
            ], name


@pytest.mark.slow
def test_epoch_has_every_record_once(batches):
    plain = list_sequences(batches(batch_size=1, shuffle=False))
    shuffled = list_sequences(batches(batch_size=1))
    assert len(plain) == NUM_TRAIN
    assert [restore_ids(sequence) for sequence in plain] != [restore_ids(sequence) for sequence in shuffled]
    # masks depend on the record, not on its position, so they are equal
    assert count_sequences(plain) == count_sequences(shuffled)


@pytest.mark.parametrize(
    ("window", "masking"),
    slow_except(itertools.product([7, 65_536], ["dynamic", "static"]), quick=[(7, "dynamic")]),
)
def test_every_epoch_has_a_new_order_and_new_dynamic_masks(window, masking, batches, monkeypatch):
    monkeypatch.setattr(pretraining_batches, "_SHUFFLE_WINDOW", window)
    sequences = list_sequences(batches(batch_size=1, epochs=2, masking=masking))
    first, second = sequences[:NUM_TRAIN], sequences[NUM_TRAIN:]
    assert [restore_ids(sequence) for sequence in first] != [restore_ids(sequence) for sequence in second]
    assert sorted(map(restore_ids, first)) == sorted(map(restore_ids, second))
    assert (count_sequences(first) == count_sequences(second)) == (masking == "static")


STARTS = ("first epoch", "second epoch", "last epoch")


@pytest.mark.parametrize(
    ("shuffle", "drop_remainder", "window", "interleaved", "starts"),
    [
        (True, False, 4, 1, STARTS[1:]),
        *slow(
            (True, False, 4, 1, STARTS[:1]),
            (True, True, 7, 2, STARTS),
            (True, True, 65_536, 8, STARTS),
            (False, False, 7, 2, STARTS),
            (False, True, 65_536, 8, STARTS),
        ),
    ],
)
def test_batches_can_start_anywhere(shuffle, drop_remainder, window, interleaved, starts, batches, monkeypatch):
    monkeypatch.setattr(pretraining_batches, "_SHUFFLE_WINDOW", window)
    monkeypatch.setattr(pretraining_batches, "_NUM_INTERLEAVED", interleaved)
    settings = {"shuffle": shuffle, "drop_remainder": drop_remainder, "epochs": 3}
    all_batches = batches(**settings)
    assert len(all_batches) == 3 * (NUM_TRAIN // 5 if drop_remainder else -(-NUM_TRAIN // 5))
    first_batches = dict(zip(STARTS, (5, len(all_batches) // 3, len(all_batches) - 2), strict=True))
    for first_batch in map(first_batches.get, starts):
        assert batches(**settings, first_batch=first_batch) == all_batches[first_batch:]


@pytest.mark.slow  # quick tests read an epoch without its remainder, and others with it
def test_remainder_is_dropped_by_default(batches, folder, tiny_tokenizer):
    assert [len(batch["token_ids"]) for batch in batches(batch_size=16)] == [16, 16]
    assert [len(batch["token_ids"]) for batch in batches(batch_size=16, drop_remainder=False)] == [16, 16, 7]
    assert [len(batch["token_ids"]) for batch in batches(batch_size=99, drop_remainder=False)] == [NUM_TRAIN]
    dataset = make_pretraining_batches(folder, tiny_tokenizer, batch_size=16, drop_remainder=False)
    assert dataset.element_spec[0]["token_ids"].shape == (None, LENGTH)
    assert dataset.cardinality().numpy() == 3


def test_batches_depend_only_on_the_seed(folder, tiny_tokenizer):
    """The batches do not depend on the global seed, on earlier reads or on the number of threads."""
    settings = {"batch_size": 5}
    dataset = make_pretraining_batches(folder, tiny_tokenizer, **settings, seed=3)
    expected = read(dataset)
    assert read(dataset) == expected
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    assert read(dataset.with_options(options)) == expected
    tf.random.set_seed(99)
    try:
        assert read(make_pretraining_batches(folder, tiny_tokenizer, **settings, seed=3)) == expected
    finally:
        tf.random.set_seed(None)
    assert read(make_pretraining_batches(folder, tiny_tokenizer, **settings, seed=4)) != expected


@pytest.mark.slow  # test_task_batches.py has a quick test of the same code
def test_epochs_none_repeats_forever(folder, tiny_tokenizer, batches):
    endless = make_pretraining_batches(folder, tiny_tokenizer, batch_size=5, epochs=None, first_batch=9)
    assert endless.cardinality().numpy() == tf.data.INFINITE_CARDINALITY
    assert read(endless.take(12)) == batches(epochs=3)[9:21]


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["nsp", "sop", "none"])
@pytest.mark.parametrize("packed", [False, True])
def test_batches_match_the_counts_of_write_records(objective, packed, tiny_tokenizer, tmp_path):
    rng = np.random.default_rng(0)
    words = ["the", "unaffable", "playing", "a", "b", "c", "d"]
    documents = [
        [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(rng.integers(1, 7))] for _ in range(60)
    ]
    manifest = write_records(
        tmp_path / "records",
        documents,
        tiny_tokenizer,
        max_sequence_length=LENGTH,
        sentence_objective=objective,
        packed=packed,
        held_out_rate=0.2,
        block_bytes=1_500,
    )
    assert len(manifest["shards"]) > 4
    for split, counts in manifest["splits"].items():
        settings = {"batch_size": 4, "split": split, "drop_remainder": False, "max_sequence_length": LENGTH}
        sequences = list_sequences(read(make_pretraining_batches(tmp_path / "records", tiny_tokenizer, **settings)))
        assert len(sequences) == counts["num_records"]
        assert sum(sum(sequence["padding_mask"]) for sequence in sequences) == counts["num_tokens"]
        assert (
            sum(np.sum(sequence.get("next_sentence_labels", 0)) for sequence in sequences)
            == counts["num_positive_labels"]
        )
        assert sum(max(sequence.get("pack_ids", [1])) for sequence in sequences) == counts["num_examples"]
        for sequence in sequences:
            ids = np.array(restore_ids(sequence))
            starts = [0, *np.flatnonzero(np.diff(sequence["pack_ids"]) == 1) + 1] if packed else [0]
            assert (ids[starts] == CLS).all()
            assert (ids == CLS).sum() == len(starts)


ERRORS = {
    "batch larger than the records": (
        {"batch_size": 10_000},
        r"has 39 train records, fewer than one batch of 10000: lower the batch size",
    ),
    "zero batch size": ({"batch_size": 0}, "batch_size is 0; expected an integer >= 1"),
    "zero epochs": ({"epochs": 0}, "epochs is 0; expected an integer >= 1"),
    "zero predictions": ({"max_predictions": 0}, "max_predictions is 0"),
    "mask rate above one": ({"mask_rate": 1.5}, r"mask_rate is 1\.5"),
    "unknown unit": ({"mask_unit": "letter"}, "the unit of masking is 'letter'"),
    "replace rates above one": ({"replace_rates": (1.0, 1.0)}, "replace_rates is"),
    "unknown masking": ({"masking": "random"}, "masking is 'random'; expected one of dynamic, static"),
    "negative seed": ({"seed": -3}, "seed is -3"),
    "other length": (
        {"max_sequence_length": 128},
        r"has records of 23 tokens; expected 128: make records of that length with make-records --max-sequence-length",
    ),
    "unknown split": ({"split": "dev"}, "split is 'dev'; expected one of train, held_out"),
    "first batch after the end": ({"first_batch": 14, "epochs": 2}, "first_batch is 14; expected 0 to 13"),
    "negative first batch": ({"first_batch": -1, "epochs": None}, "first_batch is -1; expected 0 or more"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_invalid_settings_are_rejected_before_reading(case, batches):
    changes, message = ERRORS[case]
    with pytest.raises(InputError, match=message):
        batches(**changes)


def test_records_without_held_out_split_are_an_error(folder, tiny_tokenizer, tmp_path):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["shards"] = [shard for shard in manifest["shards"] if shard["split"] == "train"]
    manifest["splits"]["held_out"]["num_records"] = 0
    for shard in manifest["shards"]:
        (tmp_path / shard["name"]).write_bytes((folder / shard["name"]).read_bytes())
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(
        InputError,
        match="has no held_out records; expected at least one: make records of more text, or with a larger share",
    ):
        make_pretraining_batches(tmp_path, tiny_tokenizer, batch_size=1, split="held_out")


def test_records_of_another_tokenizer_are_rejected(folder, tiny_tokenizer):
    other = type(tiny_tokenizer)([*tiny_tokenizer.vocabulary, "e"])
    with pytest.raises(InputError, match="the records were made with another tokenizer"):
        make_pretraining_batches(folder, other, batch_size=1)
