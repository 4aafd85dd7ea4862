"""The parity check detects every artifact that differs from its checkpoint."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

import bert_keras as bk
from bert_keras.errors import InputError, ParityError
from bert_keras.export import artifacts, ids_graph, targets
from bert_keras.export.parity import artifact_program, parity_check, probe_inputs
from bert_keras.export.parity.comparison import Comparison, describe_differences
from bert_keras.export.parity.fresh_process import query_artifact
from bert_keras.export.parity.reference import Reference
from bert_keras.export.saved_model import saved_model_artifact, to_saved_model
from bert_keras.export.saved_model.op_audit import read_meta_graph
from bert_keras.export.saved_model.saved_model_artifact import get_next_version
from bert_keras.export.verify import verify
from tests.export.conftest import LENGTH, InThisProcess, build
from tests.marks import slow_except


def read_text_inputs(folder):
    return read_meta_graph(folder).signature_def["serving_default"].inputs


def change_features(**changes):
    """Return a function that makes the exported model run on modified features."""

    def apply(monkeypatch, reference):
        def run(model, features):
            return model({**features, **{name: change(features) for name, change in changes.items()}}, training=False)

        for module in (ids_graph, to_saved_model):
            monkeypatch.setattr(module, "call_model", run)
        return reference

    return apply


def with_tanh_gelu(monkeypatch, reference):
    """Return the same weights with the tanh approximation of GELU."""
    del monkeypatch
    model = reference.model
    config = bk.BertConfig.from_dict({**model.encoder.config.to_dict(), "hidden_act": "gelu_tanh"})
    other = build("pair_classifier", config)
    other.set_weights(model.get_weights())
    return Reference(other, reference.tokenizer, reference.task)


def with_other_tokenizer(monkeypatch, reference):
    del monkeypatch
    tokenizer = bk.BertTokenizer(reference.tokenizer.vocabulary, lowercase=False, max_sequence_length=LENGTH)
    return Reference(reference.model, tokenizer, reference.task)


GRAPHS = {  # faults of the graph
    "segments zeroed": change_features(segment_ids=lambda features: 0 * features["segment_ids"]),
    "tanh for erf": with_tanh_gelu,
    "cased for uncased": with_other_tokenizer,
    "mask and segments swapped": change_features(
        padding_mask=lambda features: features["segment_ids"], segment_ids=lambda features: features["padding_mask"]
    ),
    "padding not masked": change_features(padding_mask=lambda features: 0 * features["padding_mask"] + 1),
}


@pytest.mark.slow  # test_probe_inputs.py checks that a probe text depends on the rules for case
@pytest.mark.parametrize("fault", ["tanh for erf", "cased for uncased"])
def test_wrong_graph_is_rejected(fault, references, monkeypatch, in_this_process):
    written = GRAPHS[fault](monkeypatch, references("pair_classifier"))
    signatures = to_saved_model.build_signatures(written.model, written.tokenizer, written.task)
    report = FakeArtifact(signatures).report(references("pair_classifier"), monkeypatch)
    assert not report["passed"], report
    assert describe_differences(report)


@pytest.mark.slow
@pytest.mark.parametrize("fault", list(GRAPHS))
def test_saved_model_of_a_wrong_graph_is_rejected(fault, references, tmp_path, monkeypatch):
    reference = references("pair_classifier")
    with monkeypatch.context() as patch:
        written = GRAPHS[fault](patch, reference)
        to_saved_model.write_saved_model(written.model, written.tokenizer, written.task, tmp_path / "1")
    report = parity_check.start_saved_model_check(reference, tmp_path / "1").report()
    assert not report["passed"], report
    assert describe_differences(report)


class FakeArtifact:
    """Signatures that pass through the parity check like an artifact, with modified inputs or outputs."""

    def __init__(self, signatures):
        self.signatures = signatures

    def answer(self, signature, inputs) -> dict:
        outputs = self.signatures[signature](**{name: tf.constant(value) for name, value in inputs.items()})
        return {name: values.numpy() for name, values in outputs.items()}

    def report(self, reference, monkeypatch, change_inputs=lambda _, inputs: inputs, change_outputs=dict) -> dict:
        def answer(signature, inputs):
            return change_outputs(self.answer(signature, change_inputs(signature, inputs)))

        monkeypatch.setitem(InThisProcess.loaders, "saved_model", lambda _: (answer, {}))
        return parity_check.start_saved_model_check(reference, "tests/export").report()


class LoadedArtifact(FakeArtifact):
    """SavedModel that is loaded once for many tests."""

    def __init__(self, folder):
        self.model = tf.saved_model.load(str(folder))
        super().__init__(self.model.signatures)
        self.weights = [variable.numpy() for variable in self.model.weights]

    def assign(self, weights) -> None:
        for variable, value in zip(self.model.weights, weights, strict=True):
            variable.assign(value)


@pytest.fixture(scope="module")
def loaded(saved):
    """SavedModel of a classifier for pairs, with weights that can be changed."""
    return LoadedArtifact(saved("pair_classifier"))


def change_all(shape, change):
    """Return a function that changes all weights of a shape; (40,) selects the biases of the inner dense layers."""
    return lambda weights: [change(weight) if weight.shape == shape else weight for weight in weights]


def change_last(shape, change):
    """Return a function that changes the last weight of a shape."""

    def changed(weights):
        last = max(number for number, weight in enumerate(weights) if weight.shape == shape)
        return [change(weight) if number == last else weight for number, weight in enumerate(weights)]

    return changed


WEIGHTS = {
    "biases dropped": change_all((40,), np.zeros_like),
    "one bias of one layer dropped": change_last((40,), np.zeros_like),
    "half precision": lambda weights: [
        weight.astype("float16").astype("float32") if weight.dtype == "float32" else weight for weight in weights
    ],
    "one layer rounded to 8 bits": change_last((36, 40), lambda weight: np.rint(weight * 100) / 100),
    "equal segment embeddings": change_all((2, 36), lambda table: np.stack([table[0], table[0]])),
    "second half of positions off by one": change_all(
        (LENGTH, 36), lambda table: np.concatenate([table[:9], table[8:-1]])
    ),
    "last two positions swapped": change_all((LENGTH, 36), lambda table: table[[*range(LENGTH - 2), -1, -2]]),
    "classes in a different order": lambda weights: [
        weight[..., [1, 0, 2]] if weight.shape in ((36, 3), (3,)) else weight for weight in weights
    ],
}


DETECTED = ["one bias of one layer dropped", "last two positions swapped", "classes in a different order"]


@pytest.mark.parametrize("fault", slow_except(WEIGHTS, quick=DETECTED))
def test_wrong_weights_are_rejected(fault, references, loaded, monkeypatch, in_this_process):
    loaded.assign(WEIGHTS[fault](loaded.weights))
    report = loaded.report(references("pair_classifier"), monkeypatch)
    loaded.assign(loaded.weights)
    assert not report["passed"], report
    assert describe_differences(report)


INPUTS = {
    "unchanged": lambda inputs: inputs,
    "mask and segments swapped": lambda inputs: {
        **inputs,
        "attention_mask": inputs["token_type_ids"],
        "token_type_ids": inputs["attention_mask"],
    },
    "segments zeroed": lambda inputs: {**inputs, "token_type_ids": 0 * inputs["token_type_ids"]},
    "padding not masked": lambda inputs: {**inputs, "attention_mask": 0 * inputs["attention_mask"] + 1},
    "last token masked": lambda inputs: {**inputs, "attention_mask": np.roll(inputs["attention_mask"], -1, axis=1)},
}


@pytest.mark.parametrize("fault", slow_except(INPUTS, quick=["unchanged", "segments zeroed", "last token masked"]))
def test_wrong_inputs_are_rejected(fault, references, loaded, monkeypatch, in_this_process):
    change = lambda name, inputs: INPUTS[fault](inputs) if name == "ids" else inputs  # noqa: E731
    report = loaded.report(references("pair_classifier"), monkeypatch, change)
    assert report["passed"] == (fault == "unchanged"), report


TEXTS = {
    "texts swapped": lambda inputs: {"text": inputs["second_text"], "second_text": inputs["text"]},
    "no second text": lambda inputs: {**inputs, "second_text": probe_inputs.to_bytes_array([""] * len(inputs["text"]))},
}


@pytest.mark.parametrize("fault", slow_except(TEXTS, quick=["texts swapped"]))
def test_wrong_texts_are_rejected(fault, references, loaded, monkeypatch, in_this_process):
    change = lambda name, inputs: inputs if name == "ids" else TEXTS[fault](inputs)  # noqa: E731
    report = loaded.report(references("pair_classifier"), monkeypatch, change)
    assert not report["passed"], report


def test_swapped_label_names_are_rejected(references, loaded, monkeypatch, in_this_process):
    other = {"rot": b"gr\xc3\xbcn", "gr\xc3\xbcn": b"rot"}

    def rename_labels(outputs):
        names = [other.get(name.decode("latin-1"), name) for name in outputs.get("label", ())]
        return {**outputs, **({"label": np.array(names, object)} if names else {})}

    report = loaded.report(references("pair_classifier"), monkeypatch, change_outputs=rename_labels)
    assert not report["passed"]
    assert report["labels"]["label"]["differ"] > 5
    assert report["labels"]["label_id"]["differ"] == 0


@pytest.mark.slow
def test_labels_in_a_different_order_are_rejected(references, tmp_path, in_this_process):
    reference = references("classifier")
    model = bk.BertClassifier(reference.model.encoder, 3, labels=["grün", "rot", "blau"])
    model.set_weights(reference.model.get_weights())
    task = reference.task.__class__(labels=("grün", "rot", "blau"), max_sequence_length=LENGTH)
    to_saved_model.write_saved_model(model, reference.tokenizer, task, tmp_path / "1")
    report = parity_check.start_saved_model_check(reference, tmp_path / "1").report()
    assert not report["passed"]
    assert report["labels"]["label"]["differ"] > 5


def test_output_with_a_different_name_is_rejected(references, loaded, monkeypatch, in_this_process):
    reference = references("pair_classifier")
    answer, signatures = (lambda signature, inputs: {"output_0": np.zeros((len(next(iter(inputs.values()))), 3))}), {}
    monkeypatch.setitem(InThisProcess.loaders, "saved_model", lambda _: (answer, signatures))
    report = parity_check.start_saved_model_check(reference, "tests/export").report()
    assert "ids/logits: expected the shape (3,), got None" in describe_differences(report)


def test_either_of_two_tied_labels_passes():
    comparison = Comparison(1e-4)
    comparison.compare_argmax(
        "logits", np.array([[0.5, 0.50001, 0.1], [1, 2, 3]]), np.array([[0.50001, 0.5, 0.1], [1, 2, 3]])
    )
    assert comparison.report()["labels"] == {"logits": {"compared": 2, "differ": 0}}
    comparison.compare_argmax("logits", np.array([[0.5, 0.6]]), np.array([[0.6, 0.5]]))
    assert comparison.report()["labels"]["logits"]["differ"] == 1
    assert not comparison.report()["passed"]


@pytest.mark.parametrize("got", [np.array([1.0, np.nan]), np.array([1.0]), None])
def test_nan_and_missing_outputs_fail(got):
    comparison = Comparison(1e-4)
    comparison.compare_floats("logits", np.array([1.0, 2.0]), got)
    assert not comparison.report()["passed"]


def test_sequences_have_all_lengths_and_half_of_them_are_pairs(references):
    reference = references("encoder")
    sequences = probe_inputs.draw_sequences(reference.config, reference.tokenizer, 19)
    lengths = [len(sequence.token_ids) for sequence in sequences]
    assert (len(sequences), set(lengths)) == (200, set(range(1, 20)))
    assert 40 < sum(sequence.segment_ids.any() for sequence in sequences) < 120
    sizes = {len(batch) for batch in probe_inputs.split_into_batches(200)}
    assert {1, 13} < sizes


def test_twins_are_in_one_batch():
    for number in range(2, 100):
        batches = probe_inputs.split_into_batches(number)
        assert [one for batch in batches for one in batch] == list(range(number))
        assert len(batches[-1]) > 1


def test_last_two_sequences_are_a_pair_and_its_twin(references):
    reference = references("encoder")
    sequences = probe_inputs.draw_sequences(reference.config, reference.tokenizer, 19)
    *others, pair, twin = probe_inputs.end_with_twins(sequences)
    assert len(others) == len(sequences) - 2
    assert probe_inputs.are_twins(pair, twin)
    assert (pair.segment_ids.any(), twin.segment_ids.any()) == (True, False)
    singles = [sequence for sequence in sequences if not sequence.segment_ids.any()]
    assert probe_inputs.end_with_twins(singles) == singles


def test_equal_outputs_for_twins_fail_at_any_tolerance():
    comparison = Comparison(9.0, relative=True)
    comparison.check_twins_differ("logits", (np.array([1.0]), np.array([2.0])), (np.array([1.0]), np.array([1.1])))
    comparison.check_twins_differ("same", (np.array([1.0]), np.array([1.0])), (np.array([1.0]), np.array([1.0])))
    assert comparison.report()["passed"]
    comparison.check_twins_differ("logits", (np.array([1.0]), np.array([2.0])), (np.array([1.0]), np.array([1.0])))
    assert "identical for a pair" in comparison.report()["missing"]["logits"]


@pytest.fixture(scope="module")
def checkpoint(references, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint") / "classifier"
    reference = references("pair_classifier")
    bk.save(reference.model, reference.tokenizer, folder, task=reference.task.settings())
    return folder


@pytest.fixture
def copied(saved, loaded, monkeypatch, in_this_process):
    """Let an export copy the SavedModel of `saved`, and check it in this process."""
    copy = lambda *arguments: shutil.copytree(saved("pair_classifier"), arguments[-1], dirs_exist_ok=True)  # noqa: E731
    monkeypatch.setattr(saved_model_artifact, "write_saved_model", copy)
    monkeypatch.setitem(InThisProcess.loaders, "saved_model", lambda _: (loaded.answer, {}))


def test_saved_model_is_published_with_its_parity_report(checkpoint, tmp_path, copied):
    check_published(checkpoint, tmp_path / "artifacts")


@pytest.mark.slow  # the quick demo also exports a SavedModel and checks it in a fresh process
def test_written_saved_model_is_published_with_its_parity_report(checkpoint, tmp_path):
    check_published(checkpoint, tmp_path / "artifacts")


def check_published(checkpoint, out):
    parity = bk.export_model(checkpoint, out)
    assert parity == json.loads((out / "parity.json").read_text())
    [(name, written)] = parity["artifacts"].items()
    assert (name, written["passed"], written["num_inputs"]) == ("saved_model/1", True, 40)
    assert (written["warmup_requests"], written["audit"]["min_serving"]) == (2, "2.13")
    assert json.loads((out / "saved_model/1/assets.extra/parity.json").read_text()) == written
    assert (out / "serving/Dockerfile").is_file()
    assert set(read_text_inputs(out / "saved_model/1")) == {"text", "second_text"}


@pytest.mark.slow  # its parts are tested by the four tests after `test_artifact_with_differences_is_not_published`
def test_second_export_gets_the_next_version(checkpoint, tmp_path, in_this_process):
    out = tmp_path / "artifacts"
    (out / "saved_model/1").mkdir(parents=True)
    targets.add_to_parity_report(out / "parity.json", "pairs", {"saved_model/1": {"passed": True}})
    bk.export_model(checkpoint, out, pairs=False)
    assert set(read_text_inputs(out / "saved_model/2")) == {"text"}
    assert list(json.loads((out / "parity.json").read_text())["artifacts"]) == ["saved_model/1", "saved_model/2"]
    [report] = verify(out / "saved_model/2", checkpoint).values()
    assert report["passed"]


@pytest.mark.slow  # test_checks.py tests failures of a fresh process
def test_damaged_saved_model_is_rejected(checkpoint, saved, tmp_path):
    shutil.copytree(saved("pair_classifier"), tmp_path / "1")
    variables = next((tmp_path / "1/variables").glob("*.data-*"))
    whole = variables.read_bytes()
    variables.write_bytes(whole[:9000] + bytes(256) + whole[9256:])
    with pytest.raises(ParityError, match=r"1 does not run in a fresh process: .*[Cc]hecksum"):
        verify(tmp_path / "1", checkpoint)


@pytest.mark.slow  # ONNX has a quick test, and the formats share this code
def test_artifact_with_differences_is_not_published(references, tmp_path, monkeypatch, copied):
    reference = references("pair_classifier")
    other = build("pair_classifier", reference.config)
    other.set_weights(WEIGHTS["one bias of one layer dropped"](other.get_weights()))
    bk.save(other, reference.tokenizer, tmp_path / "pairs", task=reference.task.settings())
    monkeypatch.setattr(saved_model_artifact, "replay_warmup", lambda folder: 2)
    with pytest.raises(ParityError, match=r"saved_model/1 differs from .*pairs, and nothing was published: .* by "):
        artifacts.export_model(tmp_path / "pairs", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["pairs"]


def test_verify_reads_from_the_artifact_whether_it_accepts_pairs(references, saved, tmp_path, copied):
    reference = references("pair_classifier")
    settings = {**reference.task.settings(), "has_pairs": False}
    bk.save(reference.model, reference.tokenizer, tmp_path / "singles", task=settings)
    [report] = verify(saved("pair_classifier"), tmp_path / "singles").values()
    assert report["passed"]


def test_setting_pairs_overrides_the_stored_task(checkpoint):
    stored, single = (artifacts.load_reference(checkpoint, pairs=pairs).task.has_pairs for pairs in (None, False))
    assert (stored, single) == (True, False)


def test_reports_are_added_to_an_existing_parity_report(tmp_path):
    for version in (1, 2):
        targets.add_to_parity_report(tmp_path / "parity.json", f"checkpoint {version}", {f"saved_model/{version}": {}})
    assert json.loads((tmp_path / "parity.json").read_text()) == {
        "checkpoint": "checkpoint 2",
        "artifacts": {"saved_model/1": {}, "saved_model/2": {}},
    }


@pytest.mark.slow  # test_checks.py tests failures of a fresh process
def test_artifact_that_fails_to_load_is_rejected(tmp_path):
    with pytest.raises(ParityError, match=r"nowhere does not run in a fresh process: .*nowhere"):
        query_artifact("saved_model", tmp_path / "nowhere", [("ids", {"input_ids": np.zeros((1, 2), "int32")})])


def test_only_new_empty_folders_are_removed(tmp_path):
    (tmp_path / "out/mine").mkdir(parents=True)
    with artifacts._without_empty_folders(tmp_path / "out"):
        (tmp_path / "out/tflite").mkdir()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]
    with artifacts._without_empty_folders(tmp_path / "new"):
        (tmp_path / "new/onnx").mkdir(parents=True)
    assert not (tmp_path / "new").exists()


def test_signal_that_ended_a_runtime_is_reported(tmp_path, monkeypatch):
    program = "import os, sys; print('all is well', file=sys.stderr, flush=True); os.kill(os.getpid(), 9)"
    (tmp_path / "killed.py").write_text(program)
    monkeypatch.setattr(artifact_program, "__file__", str(tmp_path / "killed.py"))
    with pytest.raises(ParityError, match=r"signal 9 ended it \(the system sends 9 if memory runs out\)"):
        query_artifact("saved_model", tmp_path, [])


def test_bad_arguments_are_rejected(references, tokenizer, tmp_path):
    with pytest.raises(InputError, match=r"the format 'tfjs' does not exist; expected saved_model"):
        bk.export_model(tmp_path, tmp_path / "out", formats=["tfjs"])
    encoder = references("encoder").model
    bk.save(encoder, None, tmp_path / "bare")
    with pytest.raises(InputError, match=r"bare has no vocabulary"):
        bk.export_model(tmp_path / "bare", tmp_path / "out")
    bk.save(encoder, tokenizer, tmp_path / "encoder")
    with pytest.raises(InputError, match=r"encoder is a BertEncoder; only a BertClassifier accepts pairs of texts"):
        bk.export_model(tmp_path / "encoder", tmp_path / "out", pairs=True)
    with pytest.raises(
        InputError, match=r"encoder contains README.md and no artifacts of bert-keras: choose another folder"
    ):
        bk.export_model(tmp_path / "encoder", tmp_path / "encoder")
    with pytest.raises(InputError, match=r"bare contains no artifact"):
        verify(tmp_path / "bare", tmp_path / "encoder")
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut/saved_model.pb").write_bytes(b"\x08\x01\x12\xff")
    bk.save(references("classifier").model, tokenizer, tmp_path / "classifier")
    with pytest.raises(InputError, match=r"cut contains no readable SavedModel"):
        verify(tmp_path / "cut", tmp_path / "classifier")
    assert not (tmp_path / "out").exists()


def test_version_numbers_are_compared_as_numbers(tmp_path):
    for name in ("9", "10", "notes", ".11.tmp"):
        (tmp_path / name).mkdir()
    assert get_next_version(tmp_path) == 11
    assert get_next_version(tmp_path / "nowhere") == 1


def test_export_is_a_package_and_bk_export_a_function():
    import bert_keras.export.artifacts

    assert bk.export_model is bert_keras.export.artifacts.export_model
    assert not callable(bk.export)


def test_arrays_survive_a_round_trip(tmp_path):
    strings = np.empty((2, 2), object)
    strings[:] = [[b"a\x00", b""], [b"\xff\xfe", "é".encode()]]
    empty = np.empty((0, 3), object)
    arrays = {(0, "text"): strings, (1, "none"): empty, (1, "ids"): np.arange(6, dtype="int32").reshape(2, 3)}
    artifact_program.write_arrays(tmp_path / "arrays.npz", arrays)
    loaded = artifact_program.read_arrays(tmp_path / "arrays.npz")
    assert list(loaded) == list(arrays)
    for key, values in arrays.items():
        assert (loaded[key].dtype, loaded[key].shape) == (values.dtype, values.shape)
        assert loaded[key].tolist() == values.tolist()


def test_sampled_positions_of_vocabulary_logits_are_compared():
    assert artifact_program.choose_compared_positions((2, 100, 30_522)) == slice(None, None, 12)
    assert artifact_program.choose_compared_positions((2, 5, 30_522)) == slice(None, None, 1)
    assert artifact_program.choose_compared_positions((2, 100, 768)) == slice(None, None, 1)


@pytest.mark.slow
def test_parity_check_compares_the_same_positions_on_both_sides(references, monkeypatch, in_this_process):
    monkeypatch.setattr(artifact_program, "MAX_WIDTH", 10)
    monkeypatch.setattr(parity_check, "build_text_function", lambda *_: None)  # only id sequences
    reference = references("masked_lm")
    signatures = {"ids": ids_graph.build_ids_function(reference.model)}
    report = FakeArtifact(signatures).report(reference, monkeypatch)
    assert report["passed"]
    num_tokens = sum(
        len(sequence.token_ids)
        for sequence in probe_inputs.DEFAULT_PROBES.sequences(reference.config, reference.tokenizer, 19)
    )
    assert 24 < report["labels"]["ids/logits"]["compared"] < num_tokens  # about eight per sequence
