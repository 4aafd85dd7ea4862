"""Files for phones: MediaPipe's own classes run them, and answer as our emulation of them."""

import functools
import shutil
import warnings

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import bert_keras as bk
from bert_keras.export.tflite.mediapipe_metadata import ENTRY, Metadata, add_metadata, read_metadata
from bert_keras.export.tflite.tflite_file import read_file, read_metadata_entry, signatures
from bert_keras.export.tflite.to_tflite import write_tflite
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS
from tests.marks import slow_except
from tests.pipelines.text.tokenizer_texts import random_texts, rich_vocabulary

LENGTH = 17
LABELS = ("grün", "红 色", "blå-\U0001f600", "black")
ABOUT = {"name": "Farben", "description": "Which colour a text has.", "author": "Zoë", "license_text": "Apache-2.0"}
TOLERANCE = 1e-5  # measured: 1.1e-6 of probabilities, 3.5e-6 of vectors that are not of length 1
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
    *(text for text in random_texts(300, seed=3) if "\x00" not in text),  # MediaPipe's C interface ends a text there
][:200]


@pytest.fixture(scope="module")
def tokenizer():
    return bk.BertTokenizer(rich_vocabulary(), lowercase=False)


@pytest.fixture(scope="module")
def written(tokenizer, make_model, tmp_path_factory):
    """A function from a kind of model to the model and a copy of its file, without metadata."""
    models, folder = {}, tmp_path_factory.mktemp("plain")

    def copy(kind, path):
        if kind not in models:
            models[kind] = make_model(kind, vocabulary_size=tokenizer.vocabulary_size, num_layers=1)
            write_tflite(models[kind], folder / kind, length=LENGTH)
        shutil.copy(folder / kind, path)
        return models[kind]

    return copy


@pytest.fixture(scope="module")
def phone():
    """MediaPipe's module of text tasks."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # mediapipe's own, while it is imported
            from mediapipe.tasks.python import text
    except (ImportError, OSError) as error:
        pytest.skip(f"mediapipe does not run here: {error}")
    return text


def base_options(path):
    from mediapipe.tasks.python import BaseOptions

    return BaseOptions(model_asset_path=str(path))


def scores_of_phone(phone, path):
    """The probability of each label for each of TEXTS, in the order of LABELS: (B, C)."""
    options = phone.TextClassifierOptions(base_options=base_options(path))
    with phone.TextClassifier.create_from_options(options) as classifier:
        heads = [classifier.classify(text).classifications for text in TEXTS]
    assert {len(head) for head in heads} == {1}
    scores = [{category.category_name: category.score for category in head[0].categories} for head in heads]
    return np.array([[row[label] for label in LABELS] for row in scores])


@pytest.fixture(scope="module")
def emulated(tokenizer):
    """A function from a model to what we say that a phone computes for TEXTS."""
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
def test_mediapipes_classifier_answers_as_our_emulation(kind, function, written, tokenizer, emulated, phone, tmp_path):
    model = written(kind, tmp_path / "model.tflite")
    add_metadata(tmp_path / "model.tflite", tokenizer, labels=LABELS, **ABOUT)
    got, expected = scores_of_phone(phone, tmp_path / "model.tflite"), function(emulated(model, "logits"))
    np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(got.argmax(-1), expected.argmax(-1))
    assert len({*expected.argmax(-1)}) > 2  # they are not all of one class


@pytest.mark.parametrize("kind", slow_except(["embedder", "cls_embedder"], quick=["embedder"]))
def test_mediapipes_embedder_answers_as_our_emulation(kind, written, tokenizer, emulated, phone, tmp_path):
    model = written(kind, tmp_path / "model.tflite")
    add_metadata(tmp_path / "model.tflite", tokenizer, **ABOUT)
    base = base_options(tmp_path / "model.tflite")
    options = phone.TextEmbedderOptions(base_options=base, l2_normalize=False, quantize=False)
    with phone.TextEmbedder.create_from_options(options) as embedder:
        got = np.array([[head.embedding for head in embedder.embed(text).embeddings] for text in TEXTS])
    assert got.shape[1] == 1
    np.testing.assert_allclose(got[:, 0], emulated(model, "embedding"), rtol=0, atol=TOLERANCE)


def test_metadata_is_read_back(written, tokenizer, tmp_path):
    path = tmp_path / "model.tflite"
    written("classifier", path)
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
    (signature,) = signatures(read_file(path.read_bytes())).values()
    assert found.inputs == tuple(names[name] for name in signature.inputs)


def test_classes_without_names_have_their_numbers(written, tokenizer, tmp_path):
    written("classifier", tmp_path / "model.tflite")
    add_metadata(tmp_path / "model.tflite", tokenizer, name="a", description="b")
    assert read_metadata(tmp_path / "model.tflite").labels == ("0", "1", "2", "3")


def test_an_embedder_has_no_labels(written, tokenizer, tmp_path):
    written("embedder", tmp_path / "model.tflite")
    add_metadata(tmp_path / "model.tflite", tokenizer, name="a", description="b")
    assert read_metadata(tmp_path / "model.tflite").labels is None


def test_the_classes_that_the_schema_generates_read_the_same(written, tokenizer, phone, tmp_path):
    from mediapipe.tasks.metadata import metadata_schema_py_generated as twin

    written("classifier", tmp_path / "model.tflite")
    add_metadata(tmp_path / "model.tflite", tokenizer, labels=LABELS, **ABOUT)
    entry = read_metadata_entry(read_file((tmp_path / "model.tflite").read_bytes()), ENTRY)
    assert twin.ModelMetadata.ModelMetadataBufferHasIdentifier(entry, 0)
    model = twin.ModelMetadataT.InitFromObj(twin.ModelMetadata.GetRootAs(entry, 0))
    texts = [model.name, model.description, model.author, model.license, model.minParserVersion]
    assert [text.decode() for text in texts] == [*ABOUT.values(), "1.1.0"]
    (graph,) = model.subgraphMetadata
    (output,) = graph.outputTensorMetadata
    (labels,) = output.associatedFiles
    assert (labels.name, labels.type) == (b"labels.txt", twin.AssociatedFileType.TENSOR_AXIS_LABELS)
    (unit,) = graph.inputProcessUnits
    assert unit.optionsType == twin.ProcessUnitOptions.BertTokenizerOptions
    (vocabulary,) = unit.options.vocabFile
    assert (vocabulary.name, vocabulary.type) == (b"vocab.txt", twin.AssociatedFileType.VOCABULARY)


def test_the_graph_computes_what_it_did(written, tokenizer, make_batch, tmp_path):
    from ai_edge_litert.interpreter import Interpreter

    written("classifier", tmp_path / "before")
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
        ("classifier", {"has_pairs": True}, "reads pairs of texts, and MediaPipe gives one text: run its file"),
        ("classifier", {"labels": LABELS[:3]}, "3 labels were given for 4 classes of"),
        ("classifier", {"labels": ["a", "b", "c", "d\ne"]}, r"the label 'd\\ne' is not one line of text"),
        ("classifier", {"labels": ["a", "b", "c", "d\r"]}, r"the label 'd\\r' is not one line of text"),
        ("classifier", {"labels": ["a", "b", "c", ""]}, "the label '' is not one line of text"),
        ("classifier", {"labels": ["a", "b", "c", "b"]}, "the label 'b' is that of two classes"),
        ("embedder", {"labels": LABELS}, "gives sentence_embedding, which has no labels: leave them out"),
        pytest.param("token_classifier", {}, "gives logits for .*; MediaPipe runs models", marks=pytest.mark.slow),
        pytest.param("regression", {}, "gives scores for", marks=pytest.mark.slow),
        pytest.param("encoder", {}, "gives last_hidden_state, pooler_output for", marks=pytest.mark.slow),
    ],
)
def test_what_mediapipe_cannot_run_is_refused(kind, arguments, message, written, tokenizer, tmp_path):
    path = tmp_path / "model.tflite"
    written(kind, path)
    before = path.read_bytes()
    with pytest.raises(bk.InputError, match=message):
        add_metadata(path, tokenizer, name="a", description="b", **arguments)
    assert path.read_bytes() == before
    with pytest.raises(bk.InputError, match="has no metadata of a text model: write it with add_metadata"):
        read_metadata(path)


def test_pad_is_the_first_token(written, tmp_path):
    written("classifier", tmp_path / "model.tflite")
    with pytest.raises(bk.InputError, match=r"\[PAD\] has id 4; expected 0, the padding of MediaPipe"):
        add_metadata(
            tmp_path / "model.tflite", bk.BertTokenizer([*SPECIAL_TOKENS[1:], "[PAD]"]), name="a", description="b"
        )


def test_metadata_is_added_once(written, tokenizer, tmp_path):
    written("classifier", tmp_path / "model.tflite")
    add_metadata(tmp_path / "model.tflite", tokenizer, name="a", description="b")
    with pytest.raises(bk.InputError, match="has metadata already: write the model again"):
        add_metadata(tmp_path / "model.tflite", tokenizer, name="a", description="b")


def write_small(path, output, lengths) -> None:
    """Writes a file without a model: a signature for each length, and one output."""
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
        ("probabilities", (5, 9), "has 2 signatures; MediaPipe runs one: write one length a file"),
        ("logits", (5,), r"gives logits for .*; MediaPipe runs models that give probabilities or sentence_emb"),
    ],
)
def test_files_of_several_lengths_or_other_outputs_are_refused(output, lengths, message, tokenizer, tmp_path):
    write_small(tmp_path / "model.tflite", output, lengths)
    with pytest.raises(bk.InputError, match=message):
        add_metadata(tmp_path / "model.tflite", tokenizer, name="a", description="b")


def test_another_file_is_refused(tokenizer, tmp_path):
    (tmp_path / "model.tflite").write_bytes(b"no TFLite file")
    with pytest.raises(bk.InputError, match=r"model\.tflite is no TFLite file: name one that write_tflite wrote"):
        add_metadata(tmp_path / "model.tflite", tokenizer, name="a", description="b")
