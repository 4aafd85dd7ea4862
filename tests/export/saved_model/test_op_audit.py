"""The op audit lists every op and attribute of a SavedModel that an older TensorFlow Serving does not support."""

import re

import pytest
import tensorflow as tf
import tensorflow_text as tf_text
from tensorflow.core.framework import op_def_pb2, types_pb2
from tensorflow.core.protobuf import saved_model_pb2

from bert_keras.errors import InputError, ParityError
from bert_keras.export.saved_model import op_audit, serving_releases
from bert_keras.export.saved_model.op_audit import audit_saved_model
from tests.export.saved_model.make_serving_ops import find_first_releases, list_facts
from tests.marks import slow_except

RELEASES = [f"2.{minor}" for minor in range(13, 22)]
KINDS = ("windowed_classifier", "masked_lm", "null_answerer")  # they contain 107 of the 109 ops of all 13 kinds


def save(folder, function, *specs, **settings):
    """Save a function as the only signature of a SavedModel."""
    module = tf.Module()
    module.function = tf.function(function, **settings).get_concrete_function(*specs)
    tf.saved_model.save(module, str(folder), signatures=module.function)
    return folder


def rewrite(folder, change):
    """Modify the protocol buffer in the file of a SavedModel."""
    path = folder / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    change(saved)
    path.write_bytes(saved.SerializeToString())


MATRIX = tf.TensorSpec([None, None], tf.float32, name="x")
INDICES = tf.TensorSpec([None, 1], tf.int32, name="indices")
STRINGS = tf.TensorSpec([None], tf.string, name="x")


def spectrum(x):
    lengths = tf.shape(x)
    return {"y": tf.math.real(tf.raw_ops.FFTND(input=tf.cast(x, tf.complex64), fft_length=lengths, axes=[0, 1]))}


def lenient_gather(x, indices):
    return {"y": tf.raw_ops.GatherNd(params=x, indices=indices, bad_indices_policy="IGNORE")}


def gather_with_policy(x, indices):
    return {"y": tf.raw_ops.GatherNd(params=x, indices=indices, bad_indices_policy="")}


def half_range(x):
    return {"y": tf.range(tf.cast(tf.size(x), tf.half))}


def trim(x):
    words = tf.strings.split(x)
    return {"y": tf_text.RoundRobinTrimmer(3).trim([words, words])[0].to_tensor()}


@pytest.mark.parametrize(
    "kind", slow_except([*KINDS, "token_classifier", "pair_classifier"], quick=["pair_classifier"])
)
def test_exported_models_run_on_the_oldest_server(kind, saved):
    audit = audit_saved_model(saved(kind))
    assert audit["min_serving"] == serving_releases.OLDEST_SERVING == "2.13"
    assert audit["tensorflow"] == tf.__version__
    assert audit["ops"]["FastWordpieceTokenizeWithOffsets"] in (1, 2)  # one per text input
    assert audit["ops"]["MatMul"] > 20
    assert not [op for op in audit["ops"] if op.startswith("__inference")]  # no function calls
    assert audit["ignored_attributes"] == ["VarHandleOp.debug_name"]


@pytest.mark.parametrize(
    ("function", "specs", "fact", "since"),
    [
        (spectrum, [MATRIX], "FFTND", "2.15"),
        (lenient_gather, [MATRIX, INDICES], "GatherNd.bad_indices_policy", "2.17"),
        (half_range, [MATRIX], "Range.Tidx=half", "2.18"),
    ],
)
def test_newer_op_attribute_or_type_is_rejected_for_older_releases(function, specs, fact, since, tmp_path):
    save(tmp_path, function, *specs)
    for release in RELEASES[:-1]:
        if RELEASES.index(release) >= RELEASES.index(since):
            assert audit_saved_model(tmp_path, release)["min_serving"] == release
            continue
        sentence = rf"Serving {release} cannot run .*, which uses {re.escape(fact)} \(known since {since}\): export wi"
        with pytest.raises(ParityError, match=sentence):
            audit_saved_model(tmp_path, release)


def test_all_unknown_ops_and_attributes_are_listed(tmp_path):
    def both(x, indices):
        return {"y": lenient_gather(x, indices)["y"], "z": spectrum(x)["y"]}

    save(tmp_path, both, MATRIX, INDICES)
    with pytest.raises(
        ParityError, match=r"FFTND \(known since 2.15\), GatherNd.bad_indices_policy \(known since 2.17"
    ):
        audit_saved_model(tmp_path)


def test_tensorflow_text_op_missing_from_servers_is_rejected(tmp_path):
    save(tmp_path, trim, STRINGS)
    for release in ("2.13", "2.20"):
        with pytest.raises(ParityError, match=r"which uses TFText>RoundRobinTrim \(known since 2.21\)"):
            audit_saved_model(tmp_path, release)


def test_newer_attribute_with_its_default_value_is_accepted(tmp_path):
    save(tmp_path, gather_with_policy, MATRIX, INDICES)

    def write_defaults(saved):
        for function in saved.meta_graphs[0].graph_def.library.function:
            for node in function.node_def:
                if node.op == "GatherNd":
                    assert "bad_indices_policy" not in node.attr  # TensorFlow removes it
                    node.attr["bad_indices_policy"].s = b""

    rewrite(tmp_path, write_defaults)
    assert audit_saved_model(tmp_path)["ops"]["GatherNd"] == 1


def test_functions_compiled_with_xla_are_rejected_for_every_release(tmp_path):
    save(tmp_path, lambda x: {"y": x * 2}, MATRIX, jit_compile=True)
    with pytest.raises(ParityError, match=r"which uses jit_compile \(for example in \S+; no server contains XLA"):
        audit_saved_model(tmp_path, "2.20")


def test_graph_for_newer_versions_is_rejected(tmp_path):
    save(tmp_path, lambda x: {"y": x * 2}, MATRIX)
    assert audit_saved_model(tmp_path)["graph_version"] == tf.version.GRAPH_DEF_VERSION

    def require_newer_version(saved):
        saved.meta_graphs[0].graph_def.versions.min_consumer = 1500

    rewrite(tmp_path, require_newer_version)
    assert audit_saved_model(tmp_path, "2.14")
    with pytest.raises(ParityError, match=r"which uses GraphDef 1500 \(2.13 supports 1482\)"):
        audit_saved_model(tmp_path)


def test_op_of_another_library_is_rejected(tmp_path):
    save(tmp_path, lambda x: {"y": x * 2}, MATRIX)

    def add_node(saved):
        saved.meta_graphs[0].graph_def.node.add(name="mine", op="MyOwnOp")

    rewrite(tmp_path, add_node)
    with pytest.raises(ParityError, match=r"uses MyOwnOp \(not an op of TensorFlow or tensorflow-text\)"):
        audit_saved_model(tmp_path)


@pytest.mark.parametrize("release", ["2.12", "2.21", "2", "latest", "3.13"])
def test_release_missing_from_the_table_is_rejected(release, tmp_path):
    with pytest.raises(InputError, match=rf"Serving {release} is not in the table of ops; expected 2.13 to 2.20"):
        audit_saved_model(tmp_path, release)


def test_patch_release_counts_as_its_minor_release(tmp_path):
    assert audit_saved_model(save(tmp_path, lambda x: {"y": x}, MATRIX), "2.14.1")["min_serving"] == "2.14"


def test_folder_without_a_saved_model_is_rejected(tmp_path):
    with pytest.raises(InputError, match=r"contains no readable SavedModel .*No such file"):
        audit_saved_model(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"not a message")
    with pytest.raises(InputError, match="contains no readable SavedModel"):
        audit_saved_model(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(InputError, match="contains 0 graphs with the tag 'serve'; expected one"):
        audit_saved_model(tmp_path)


def test_table_ends_with_the_installed_tensorflow():
    """If this fails, run make_serving_ops.py: a newer TensorFlow may write ops that are missing from the table."""
    assert list(serving_releases.read_graph_versions()) == RELEASES
    assert ".".join(tf.__version__.split(".")[:2]) == RELEASES[-1]
    assert serving_releases.read_graph_versions()[RELEASES[-1]] == tf.version.GRAPH_DEF_VERSION


def test_every_line_of_the_table_refers_to_a_registered_op():
    types = dict(types_pb2.DataType.items())
    known = op_audit.find_registered_ops(
        {re.split(r"[.=]", fact)[0] for fact in serving_releases.read_first_releases()}
    )
    for fact in serving_releases.read_first_releases():
        owner, _, value = fact.partition("=")
        op, _, attribute = owner.partition(".")
        definition = known.get(op)
        assert definition is not None, fact
        assert not attribute or attribute in {one.name for one in definition.attr}, fact
        assert not value or value == "priority_merge" or f"DT_{value.upper()}" in types, fact


def test_first_release_follows_the_last_gap():
    facts = {"2.13": {"Old", "Lost"}, "2.14": {"Old", "New"}, "2.15": {"Old", "Lost"}}
    facts["2.16"] = facts["2.17"] = {"Old", "Lost", "New", "Changed 2:1"}
    found = find_first_releases(facts, list(facts))
    assert list(found) == [("2.16", "Changed"), ("2.16", "New")]


def test_types_without_a_kernel_are_not_listed():
    op = op_def_pb2.OpDef(name="Op")
    op.input_arg.add(name="x", type_attr="T")
    declared = op.attr.add(name="T", type="type")
    declared.allowed_values.list.type.extend([types_pb2.DT_HALF, types_pb2.DT_FLOAT])
    assert list(list_facts(op, {"T": {types_pb2.DT_FLOAT, types_pb2.DT_INT8}})) == ["Op 1:0", "Op.T", "Op.T=float"]
    assert set(list_facts(op, {})) == {"Op 1:0", "Op.T", "Op.T=float", "Op.T=half"}
