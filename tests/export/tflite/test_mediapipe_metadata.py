"""TFLite files with metadata: MediaPipe's own classes give the same results as our emulation of MediaPipe."""

import functools
import shutil
import warnings

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import bert_keras as bk
from bert_keras.export.tflite.mediapipe_metadata import ENTRY, add_metadata
from bert_keras.export.tflite.tflite_file import parse_tflite, read_metadata_entry, read_signatures
from bert_keras.export.tflite.to_tflite import write_tflite
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS
from tests.export.tflite.metadata_reader import Metadata, read_metadata
from tests.marks import slow_except
from tests.pipelines.text.tokenizer_texts import random_texts, rich_vocabulary

LENGTH = 17
LABELS = ("grün", "红 色", "blå-\U0001f600", "black")
ABOUT = {"name": "Farben", "description": "The colour of a text, by Zoë."}
TOLERANCE = 1e-5  # measured: 1.1e-6 for probabilities, 3.5e-6 for unnormalized vectors
TEXTS = [
    *(
        "",
        " ",
        "a",
        "The cat sat on the mat.",
        "ÀÉ é E\u0301 ß İ ǅ",
        "中文 a中b",
        "[MASK] [SEP]",
        "a b " * 40,
        "x" * 300,
    ),
    *(text for text in random_texts(300, seed=3) if "\x00" not in text),  # MediaPipe ends a text at NUL
][:80]


@pytest.fixture(scope="module")
def tokenizer():
    return bk.BertTokenizer(rich_vocabulary(), lowercase=False)


@pytest.fixture(scope="module")
def write_file(tokenizer, make_model, tmp_path_factory):
    """Function that returns a model of a kind and copies its TFLite file, without metadata, to a path."""
    models, folder = {}, tmp_path_factory.mktemp("plain")

    def copy(kind, path):
        if kind not in models:
            models[kind] = make_model(kind, vocabulary_size=tokenizer.vocabulary_size, num_layers=1)
            write_tflite(models[kind], folder / kind, length=LENGTH)
        shutil.copy(folder / kind, path)
        return models[kind]

    return copy


@pytest.fixture(scope="module")
def mediapipe_text():
    """Module of MediaPipe's text tasks."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # raised by the import of mediapipe
            from mediapipe.tasks.python import text
    except (ImportError, OSError) as error:
        pytest.skip(f"mediapipe cannot be imported: {error}")
    return text


def make_base_options(path):
    from mediapipe.tasks.python import BaseOptions

    return BaseOptions(model_asset_path=str(path))


def classify_in_mediapipe(mediapipe_text, path):
    """Return the probabilities `(B, C)` of the labels for TEXTS."""
    options = mediapipe_text.TextClassifierOptions(base_options=make_base_options(path))
    with mediapipe_text.TextClassifier.create_from_options(options) as classifier:
        heads = [classifier.classify(text).classifications for text in TEXTS]
    assert {len(head) for head in heads} == {1}
    scores = [{category.category_name: category.score for category in head[0].categories} for head in heads]
    return np.array([[row[label] for label in LABELS] for row in scores])


@pytest.fixture(scope="module")
def emulate(tokenizer):
    """Function that returns an output of a model for TEXTS, tokenized as in MediaPipe."""
    batch = bk.pack(tokenizer.for_mediapipe(), TEXTS, max_sequence_length=LENGTH, pad_to_length=LENGTH)
    return lambda model, name: np.asarray(model(batch, training=False)[name])


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("classifier", functools.partial(scipy.special.softmax, axis=-1)),
        pytest.param("multi_label", scipy.special.expit, marks=pytest.mark.slow),
    ],
    ids=["softmax", "sigmoid"],
)
def test_mediapipe_classifier_equals_our_emulation(
    kind, function, write_file, tokenizer, emulate, mediapipe_text, tmp_path
):
    model = write_file(kind, tmp_path / "model.tflite")
    add_metadata(tmp_path / "model.tflite", tokenizer, labels=LABELS, **ABOUT)
    got, expected = classify_in_mediapipe(mediapipe_text, tmp_path / "model.tflite"), function(emulate(model, "logits"))
    np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(got.argmax(-1), expected.argmax(-1))
    assert len({*expected.argmax(-1)}) > 2  # the texts have different classes


@pytest.mark.parametrize("kind", slow_except(["embedder", "cls_embedder"], quick=["embedder"]))
def test_mediapipe_embedder_equals_our_emulation(kind, write_file, tokenizer, emulate, mediapipe_text, tmp_path):
    model = write_file(kind, tmp_path / "model.tflite")
    add_metadata(tmp_path / "model.tflite", tokenizer, **ABOUT)
    base = make_base_options(tmp_path / "model.tflite")
    options = mediapipe_text.TextEmbedderOptions(base_options=base, l2_normalize=False, quantize=False)
    with mediapipe_text.TextEmbedder.create_from_options(options) as embedder:
        got = np.array([[head.embedding for head in embedder.embed(text).embeddings] for text in TEXTS])
    assert got.shape[1] == 1
    np.testing.assert_allclose(got[:, 0], emulate(model, "embedding"), rtol=0, atol=TOLERANCE)


def test_metadata_survives_a_round_trip(write_file, tokenizer, tmp_path):
    path = tmp_path / "model.tflite"
    write_file("classifier", path)
    add_metadata(path, tokenizer, labels=LABELS, **ABOUT)
    found = read_metadata(path)
    assert found == Metadata(
        ABOUT["name"],
        ABOUT["description"],
        "1.1.0",
        found.inputs,
        ("probabilities",),
        LABELS,
        rich_vocabulary(),
    )
    names = {"input_ids": "ids", "attention_mask": "mask", "token_type_ids": "segment_ids"}
    (signature,) = read_signatures(parse_tflite(path.read_bytes())).values()
    assert found.inputs == tuple(names[name] for name in signature.inputs)


def test_default_labels_are_class_numbers(write_file, tokenizer, tmp_path):
    write_file("classifier", tmp_path / "model.tflite")
    add_metadata(tmp_path / "model.tflite", tokenizer, name="a", description="b")
    assert read_metadata(tmp_path / "model.tflite").labels == ("0", "1", "2", "3")


def test_embedder_has_no_labels(write_file, tokenizer, tmp_path):
    write_file("embedder", tmp_path / "model.tflite")
    add_metadata(tmp_path / "model.tflite", tokenizer, name="a", description="b")
    assert read_metadata(tmp_path / "model.tflite").labels is None


def test_generated_classes_of_the_schema_read_the_metadata(write_file, tokenizer, mediapipe_text, tmp_path):
    from mediapipe.tasks.metadata import metadata_schema_py_generated as twin

    write_file("classifier", tmp_path / "model.tflite")
    add_metadata(tmp_path / "model.tflite", tokenizer, labels=LABELS, **ABOUT)
    entry = read_metadata_entry(parse_tflite((tmp_path / "model.tflite").read_bytes()), ENTRY)
    assert twin.ModelMetadata.ModelMetadataBufferHasIdentifier(entry, 0)
    model = twin.ModelMetadataT.InitFromObj(twin.ModelMetadata.GetRootAs(entry, 0))
    texts = [model.name, model.description, model.minParserVersion]
    assert [text.decode() for text in texts] == [*ABOUT.values(), "1.1.0"]
    (graph,) = model.subgraphMetadata
    (output,) = graph.outputTensorMetadata
    (labels,) = output.associatedFiles
    assert (labels.name, labels.type) == (b"labels.txt", twin.AssociatedFileType.TENSOR_AXIS_LABELS)
    (unit,) = graph.inputProcessUnits
    assert unit.optionsType == twin.ProcessUnitOptions.BertTokenizerOptions
    (vocabulary,) = unit.options.vocabFile
    assert (vocabulary.name, vocabulary.type) == (b"vocab.txt", twin.AssociatedFileType.VOCABULARY)


def test_metadata_does_not_change_the_outputs(write_file, tokenizer, make_batch, tmp_path):
    from ai_edge_litert.interpreter import Interpreter

    write_file("classifier", tmp_path / "before")
    shutil.copy(tmp_path / "before", tmp_path / "after")
    add_metadata(tmp_path / "after", tokenizer, labels=LABELS, **ABOUT)
    batch = make_batch(length=LENGTH, lengths=(11,))
    names = {"input_ids": "token_ids", "attention_mask": "padding_mask", "token_type_ids": "segment_ids"}
    before, after = (
        Interpreter(model_path=str(tmp_path / name)).get_signature_runner()(
            **{theirs: batch[ours] for theirs, ours in names.items()}
        )
        for name in ("before", "after")
    )
    np.testing.assert_array_equal(before["probabilities"], after["probabilities"])


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("classifier", {"labels": LABELS[:3]}, "3 labels were given for 4 classes of"),
        ("classifier", {"labels": ["a", "b", "c", "d\ne"]}, r"the label 'd\\ne' is not one line of text"),
        ("classifier", {"labels": ["a", "b", "c", "d\r"]}, r"the label 'd\\r' is not one line of text"),
        ("classifier", {"labels": ["a", "b", "c", ""]}, "the label '' is not one line of text"),
        ("classifier", {"labels": ["a", "b", "c", "b"]}, "the label 'b' was given for two classes"),
        ("embedder", {"labels": LABELS}, "has the output sentence_embedding, which has no labels: leave them out"),
        pytest.param("token_classifier", {}, "and outputs logits; MediaPipe requires", marks=pytest.mark.slow),
        pytest.param("regression", {}, "and outputs scores; MediaPipe requires", marks=pytest.mark.slow),
        pytest.param("encoder", {}, "and outputs last_hidden_state, pooler_output;", marks=pytest.mark.slow),
    ],
)
def test_models_and_labels_unsupported_by_mediapipe_are_rejected(
    kind, arguments, message, write_file, tokenizer, tmp_path
):
    path = tmp_path / "model.tflite"
    write_file(kind, path)
    before = path.read_bytes()
    with pytest.raises(bk.InputError, match=message):
        add_metadata(path, tokenizer, name="a", description="b", **arguments)
    assert path.read_bytes() == before
    with pytest.raises(bk.InputError, match="has no metadata of a text model: write it with add_metadata"):
        read_metadata(path)


def test_vocabulary_must_start_with_pad(write_file, tmp_path):
    write_file("classifier", tmp_path / "model.tflite")
    with pytest.raises(bk.InputError, match=r"\[PAD\] has id 4; expected 0, the padding of MediaPipe"):
        add_metadata(
            tmp_path / "model.tflite", bk.BertTokenizer([*SPECIAL_TOKENS[1:], "[PAD]"]), name="a", description="b"
        )


def test_metadata_is_added_once(write_file, tokenizer, tmp_path):
    write_file("classifier", tmp_path / "model.tflite")
    add_metadata(tmp_path / "model.tflite", tokenizer, name="a", description="b")
    with pytest.raises(bk.InputError, match="already has metadata: write the model again"):
        add_metadata(tmp_path / "model.tflite", tokenizer, name="a", description="b")


def write_small(path, output, lengths) -> None:
    """Write a file without a model, with one signature per length and one output."""
    functions = {}
    for length in lengths:
        names = ("input_ids", "attention_mask", "token_type_ids")
        specs = {name: tf.TensorSpec([1, length], tf.int32, name=name) for name in names}
        add = tf.function(lambda **ids: {output: tf.cast(sum(ids.values()), tf.float32)})
        functions[f"length_{length}"] = add.get_concrete_function(**specs)
    tf.saved_model.save(tf.Module(), f"{path}.saved", signatures=functions)
    converter = tf.lite.TFLiteConverter.from_saved_model(f"{path}.saved", signature_keys=list(functions))
    path.write_bytes(converter.convert())


@pytest.mark.parametrize(
    ("output", "lengths", "message"),
    [
        ("probabilities", (5, 9), "has 2 signatures; MediaPipe supports one: write one length per file"),
        (
            "logits",
            (5,),
            r"and outputs logits; MediaPipe requires .* the output probabilities or sentence_emb",
        ),
    ],
)
def test_files_with_several_lengths_or_other_outputs_are_rejected(output, lengths, message, tokenizer, tmp_path):
    write_small(tmp_path / "model.tflite", output, lengths)
    with pytest.raises(bk.InputError, match=message):
        add_metadata(tmp_path / "model.tflite", tokenizer, name="a", description="b")


def test_file_in_another_format_is_rejected(tokenizer, tmp_path):
    (tmp_path / "model.tflite").write_bytes(b"not a TFLite file")
    with pytest.raises(bk.InputError, match=r"model\.tflite is not a TFLite file: choose a file that export wrote"):
        add_metadata(tmp_path / "model.tflite", tokenizer, name="a", description="b")
