"""Untrusted `.keras` files and KerasHub presets are checked before Keras builds their models."""

import io
import json
import zipfile

import h5py
import keras
import numpy as np
import pytest

import bert_keras as bk
from bert_keras.checkpoints import loading
from bert_keras.checkpoints.keras_files.keras_hub_preset import write_preset as write_hub_preset
from bert_keras.checkpoints.keras_files.keras_weights import check_h5
from bert_keras.checkpoints.reading import read_tokenizer_settings, read_without_tensorflow
from tests.checkpoints.tiny_folders import WORDS, edit_json, write_preset
from tests.fuzzing import fuzz, mutate_json
from tests.marks import slow

QUICK, LONG, LONG_IN_KERAS, SEED = 25, 10_000, 2_000, 24


@pytest.fixture(scope="module")
def members(make_model, tmp_path_factory):
    """The files in the `.keras` file of a tiny classifier, keyed by name."""
    path = tmp_path_factory.mktemp("keras") / "model.keras"
    make_model("classifier", num_layers=1).save(path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture
def write(members, tmp_path):
    """A function that writes the `.keras` file with some of its files replaced."""

    def write_file(compression=zipfile.ZIP_STORED, **changes):
        path = tmp_path / "model.keras"
        with zipfile.ZipFile(path, "w", compression) as archive:
            for name, content in {**members, **changes}.items():
                archive.writestr(name, content)
        return path

    return write_file


@pytest.fixture
def write_config(members, write):
    """A function that writes the `.keras` file after another function has changed its config."""

    def write_file(change):
        config = json.loads(members["config.json"])
        change(config)
        return write(**{"config.json": json.dumps(config)})

    return write_file


@pytest.fixture
def unbuilt(monkeypatch):
    """Fail if Keras loads a model."""

    def fail(*_args, **_options):
        raise AssertionError("Keras was reached")

    monkeypatch.setattr(loading.keras.models, "load_model", fail)


def get_encoder(config):
    return config["config"]["encoder"]["config"]["config"]


def test_the_file_is_valid(write):
    assert type(bk.load(write())).__name__ == "BertClassifier"


@pytest.mark.usefixtures("unbuilt")
@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        (lambda config: get_encoder(config).update(vocabulary_size=10**9), "a model of 30000.* parameters"),
        (lambda config: get_encoder(config).update(num_layers=10**9), "parameters, and its weights have"),
        (lambda config: config["config"]["encoder"]["config"].update(config={"hidden_dim": 10**6}), "parameters"),
        (lambda config: get_encoder(config).update(hidden_dim=10**30), "sets hidden_dim to 1000000"),
        (lambda config: get_encoder(config).update(max_sequence_length="17"), "sets max_sequence_length to '17'"),
        (lambda config: config["config"].update(num_classes=10**9), "parameters, and its weights have"),
        (lambda config: config["config"]["encoder"]["config"].update(config={"num_segments": 10**9}), "parameters"),
        (
            lambda config: get_encoder(config).update(position_type="sinusoidal", max_sequence_length=10**7),
            "parameters",
        ),
        (lambda config: config.update(class_name="Lambda", registered_name=None), "holds a 'Lambda'; expected a model"),
        (lambda config: config.update(class_name="x" * 70_000, registered_name="os>x"), "holds a 'xxx"),
    ],
)
def test_a_config_larger_than_its_weights_is_refused(write_config, change, pattern):
    with pytest.raises(bk.InputError, match=pattern) as caught:
        bk.load(write_config(change))
    assert len(str(caught.value)) < 600


def dense(**changes):
    """Return the config of a Keras layer with 1.2 GB of weights, which Keras allocates before it reads the weights."""
    layer = {"module": "keras.layers", "class_name": "Dense", "config": {"name": "dense", "units": 3_000_000}}
    return {**layer, "registered_name": None, "build_config": {"input_shape": [None, 100]}, **changes}


def in_encoder(layer):
    return lambda config: config["config"].update(encoder=layer)


@pytest.mark.usefixtures("unbuilt")
@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        (in_encoder(dense()), "holds a 'Dense' of 'keras.layers'; expected models of bert_keras or KerasHub's BERT"),
        (in_encoder(dense(module="keras.src.layers.core.dense")), "holds a 'Dense' of 'keras.src.layers.core.dense'"),
        (in_encoder(dense(registered_name="keras_hub>BertDense")), "holds a 'Dense'"),
        (in_encoder(dense(registered_name="bert_keras>Dense")), "holds a 'Dense'"),
        (in_encoder(dense(module="keras", class_name="Sequential")), "holds a 'Sequential' of 'keras'"),
        (in_encoder(dense(module=None, class_name="keras_hub>GPT2Backbone")), "holds a 'keras_hub>GPT2Backbone' of"),
        (in_encoder(dense(module="a", registered_name="keras_hub>GPT2Backbone")), "holds a 'Dense' of 'a'"),
        (in_encoder(dense(module="keras_hub.layers", class_name="ReversibleEmbedding")), "holds a 'Reversible"),
        (in_encoder(dense(module="somewhere")), "holds a 'Dense' of 'somewhere'"),
        (in_encoder(dense(module=["keras.layers"])), "holds a 'Dense' of"),
        (lambda config: get_encoder(config).update(extra=[{"a": dense()}]), "holds a 'Dense'"),
        (lambda config: config.update(compile_config={"loss": dense()}), "holds a 'Dense'"),
        (lambda config: config.update(compile_config={"metrics": [metric("AUC", num_thresholds=10**9)]}), "in 'AUC',"),
        (lambda config: config.update(compile_config=metric("MeanIoU", num_classes=10**5)), "has 10,000,000,000 num"),
        (lambda config: config.update(compile_config=metric("AUC", num_thresholds="9")), "sets num_thresholds to '9'"),
    ],
)
def test_a_third_party_layer_is_refused(write_config, change, pattern):
    with pytest.raises(bk.InputError, match=pattern) as caught:
        bk.load(write_config(change))
    assert len(str(caught.value)) < 600


def metric(name, **config):
    return {"module": "keras.metrics", "class_name": name, "config": config, "registered_name": None}


@pytest.mark.parametrize("file", ["config.json", "task.json", "preprocessor.json", "tokenizer.json"])
def test_a_third_party_layer_in_a_preset_is_refused(file, tmp_path):
    folder = write_preset(tmp_path / "preset")
    values = json.loads((folder / file).read_text()) if (folder / file).exists() else {"config": {}}
    values["config"]["dtype"] = dense()
    (folder / file).write_text(json.dumps(values))
    with pytest.raises(bk.InputError, match=rf"{file} holds a 'Dense' of 'keras\.layers'"):
        read_without_tensorflow(folder)


def test_files_of_compiled_models_load(make_model, tmp_path):
    model = make_model("classifier", num_layers=1)
    rate = keras.optimizers.schedules.CosineDecay(1e-3, 100)
    metrics = [keras.metrics.AUC(), keras.metrics.CategoricalAccuracy(), keras.metrics.MeanIoU(num_classes=50)]
    loss = {"logits": keras.losses.CategoricalCrossentropy(from_logits=True)}
    model.compile(keras.optimizers.AdamW(rate), loss, metrics={"logits": metrics})
    model.optimizer.build(model.trainable_variables)
    model.save(tmp_path / "model.keras")
    again = bk.load(tmp_path / "model.keras")
    assert type(again.optimizer.get_config()["learning_rate"]) is dict


def test_files_of_models_with_sinusoidal_positions_load(make_model, tmp_path):
    model = make_model("encoder", num_layers=1, position_type="sinusoidal", max_sequence_length=50_000)
    model.save(tmp_path / "model.keras")
    assert bk.load(tmp_path / "model.keras").config.max_sequence_length == 50_000


@pytest.mark.usefixtures("unbuilt")
def test_a_zip_bomb_is_refused(write):
    bomb = write(zipfile.ZIP_DEFLATED, **{"model.weights.h5": b"\0" * (32 << 20)})
    with pytest.raises(bk.InputError, match="unpacks to 33,"):
        bk.load(bomb)


@pytest.mark.usefixtures("unbuilt")
@pytest.mark.parametrize(
    ("name", "content", "pattern"),
    [
        ("config.json", b"[" * 100_000, "nested too deeply"),
        ("config.json", b"{}", "holds a None"),
        ("config.json", b'{"registered_name": "bert_keras>X", "a": "\\ud800"}', "surrogates not allowed"),
        ("model.weights.h5", b"no weights" * 10_000, "not readable HDF5"),
    ],
)
def test_a_damaged_member_is_refused(write, name, content, pattern):
    with pytest.raises(bk.InputError, match=pattern):
        bk.load(write(**{name: content}))


PICKLED = {"class_name": "__lambda__", "config": {"value": "e30=", "defaults": None, "closure": None}}
LAYER = {"module": "keras.layers", "class_name": "Lambda", "config": {"name": "l", "function": PICKLED}}


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        (
            lambda config: config.update(compile_config={"optimizer": "adam", "loss": PICKLED}),
            r"cannot be read by Keras \(Requested the deserialization of .*lambda",
        ),
        (lambda config: config["config"].update(encoder={**LAYER, "registered_name": None}), "holds a 'Lambda'"),
    ],
    ids=["a loss", "a layer"],
)
def test_a_pickled_function_is_not_run(write_config, change, pattern):
    with pytest.raises(bk.InputError, match=pattern):
        bk.load(write_config(change))


def test_nan_in_a_keras_file_is_refused(make_model, tmp_path):
    model = make_model("classifier", num_layers=1)
    model.classifier.bias.assign(np.full(4, np.nan, "float32"))
    model.save(tmp_path / "model.keras")
    with pytest.raises(bk.InputError, match=r"model\.keras: tensor .*classifier/bias contains NaN or infinity"):
        bk.load(tmp_path / "model.keras")


@pytest.mark.filterwarnings(
    "ignore:Layer .* does not have a `quantize` method:UserWarning"
)  # Dropout has no quantize()
def test_a_quantized_model_is_refused(make_model, tmp_path):
    model = make_model("classifier", num_layers=1, hidden_act="gelu_tanh")
    model.quantize("int8")
    with pytest.raises(bk.InputError, match=r"is quantized \(int8\); expected float weights: save, convert or"):
        bk.save(model, None, tmp_path / "folder")
    with pytest.raises(bk.InputError, match=r"is quantized \(int8\)"):
        write_hub_preset(model.encoder, None, tmp_path / "preset")
    assert not list(tmp_path.iterdir())
    model.save(tmp_path / "model.keras")
    message = r"model\.keras, model\.weights\.h5: .* holds int8 numbers, codes of a quantized model.* before you call"
    with pytest.raises(bk.InputError, match=message):
        bk.load(tmp_path / "model.keras")


def test_a_quantized_preset_is_refused(tmp_path):
    folder = write_preset(tmp_path / "preset")
    with h5py.File(folder / "model.weights.h5", "a") as file:
        file["layers/dense/vars/0"] = np.ones((6, 6), "int8")
    with pytest.raises(bk.InputError, match=r"'layers/dense/vars/0' holds int8 numbers, codes of a quantized model"):
        read_without_tensorflow(folder)


def write_chunked(file):
    file.create_dataset("a", shape=(1 << 40,), dtype="float32", chunks=(1 << 20,))


def write_unwritten(file):
    file.create_dataset("a", shape=(1 << 40,), dtype="float32")


def write_external(file):
    file.create_dataset("a", shape=(4,), dtype="uint8", external=[("/etc/passwd", 0, 4)])


def write_link(file):
    file["a"] = h5py.ExternalLink("/etc/passwd", "a")


def write_virtual(file):
    layout = h5py.VirtualLayout(shape=(4,), dtype="float32")
    layout[:] = h5py.VirtualSource("elsewhere.h5", "a", shape=(4,))
    file.create_virtual_dataset("a", layout)


@pytest.mark.parametrize("write_weights", [write_chunked, write_unwritten, write_external, write_link, write_virtual])
def test_weights_stored_elsewhere_are_refused(write_weights):
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        write_weights(file.create_group("layers"))
    with pytest.raises(bk.InputError, match=r"x\.h5: 'layers.* is not stored completely"):
        check_h5(content, "x.h5")


@pytest.mark.parametrize(
    ("file", "keys", "change", "pattern"),
    [
        ("config.json", ("config",), {"vocabulary_size": 10**9}, "parameters, and its weights have"),
        ("config.json", ("config",), {"num_layers": 10**9}, "parameters, and its weights have"),
        ("config.json", ("config",), {"hidden_dim": [6]}, r"sets hidden_dim to \[6\]"),
        ("config.json", (), {"class_name": ["BertBackbone"]}, r"is a preset of \['BertBackbone'\]"),
        ("task.json", (), {"class_name": {}}, "sets class_name to"),
        ("task.json", ("config", "backbone", "config"), {"num_layers": 10**9}, "parameters, and its weights have"),
        ("task.json", ("config",), {"num_classes": 10**9}, "parameters, and its weights have"),
    ],
)
def test_a_preset_larger_than_its_weights_is_refused(tmp_path, file, keys, change, pattern):
    folder = write_preset(tmp_path / "preset")
    assert read_without_tensorflow(folder) is None
    edit_json(folder / file, *keys, **change)
    with pytest.raises(bk.InputError, match=pattern):
        read_without_tensorflow(folder)


@pytest.mark.parametrize(
    ("values", "pattern"),
    [
        ({"config": 5}, "sets config to 5; expected an object"),
        ({"config": []}, r"sets config to \[\]"),
        ({"config": None}, "sets config to None"),
        ({"config": {"lowercase": "yes"}}, "sets lowercase to 'yes'; expected true or false"),
        ({"config": {"strip_accents": 3}}, "sets strip_accents to 3"),
    ],
)
def test_an_invalid_value_in_a_presets_tokenizer_is_reported(tmp_path, values, pattern):
    folder = write_preset(tmp_path / "preset")
    (folder / "assets/tokenizer").mkdir(parents=True)
    (folder / "assets/tokenizer/vocabulary.txt").write_text("\n".join(WORDS) + "\n")
    (folder / "tokenizer.json").write_text(json.dumps(values))
    with pytest.raises(bk.InputError, match=rf"tokenizer\.json {pattern}"):
        read_tokenizer_settings(folder)


@pytest.mark.parametrize("count", [QUICK, *slow(LONG)])
def test_a_mutated_keras_config_is_checked(members, write, unbuilt, count):
    config = json.loads(members["config.json"])

    def read(content: bytes) -> None:
        loading.check_content(write(**{"config.json": content}))

    outcomes = fuzz(read, lambda random: mutate_json(random, config), count=count, seed=SEED)
    print(f".keras config, before Keras: {dict(outcomes)}")
    assert min(outcomes["read"], outcomes["refused"]) > 0


@pytest.mark.slow
def test_a_mutated_keras_config_is_loaded_or_refused(members, write):
    config = json.loads(members["config.json"])

    def read(content: bytes) -> None:
        loading.keras.utils.clear_session()
        bk.load(write(**{"config.json": content}))

    outcomes = fuzz(read, lambda random: mutate_json(random, config), count=LONG_IN_KERAS, seed=SEED)
    print(f".keras config: {dict(outcomes)}")
    assert outcomes["read"] > 100
