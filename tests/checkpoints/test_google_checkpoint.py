"""Google's TF1 checkpoints against transformers with the same numbers.

The folder is written as google-research/bert leaves it: `bert_config.json`, `vocab.txt` and
`bert_model.ckpt.*`, with the optimizer's variables next to the weights. Its code computes "gelu"
with tanh (transformers calls that "gelu_new") and stores kernels as [in, out].
"""

import json

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.checkpoints.reading import read_checkpoint

TOLERANCE = 2e-5  # measured: 4.7e-6
GOOGLE_CONFIG = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 30,
    "initializer_range": 0.02,
    "intermediate_size": 44,
    "max_position_embeddings": 17,
    "num_attention_heads": 5,
    "num_hidden_layers": 3,
    "type_vocab_size": 2,
    "vocab_size": 97,
}
OUTPUTS = {"mlm_logits": "prediction_logits", "next_sentence_logits": "seq_relationship_logits"}


def google_shapes() -> dict:
    """The shape of every weight of google-research/bert `modeling.py` and `run_pretraining.py`, keyed by name."""
    hidden, inner = 30, 44
    shapes = {
        "bert/embeddings/word_embeddings": (97, hidden),
        "bert/embeddings/token_type_embeddings": (2, hidden),
        "bert/embeddings/position_embeddings": (17, hidden),
        **norm("bert/embeddings/LayerNorm"),
        **dense("bert/pooler/dense", hidden, hidden),
        **dense("cls/predictions/transform/dense", hidden, hidden),
        **norm("cls/predictions/transform/LayerNorm"),
        "cls/predictions/output_bias": (97,),
        "cls/seq_relationship/output_weights": (2, hidden),
        "cls/seq_relationship/output_bias": (2,),
    }
    for layer in (f"bert/encoder/layer_{i}" for i in range(3)):
        for part in ("self/query", "self/key", "self/value", "output/dense"):
            shapes |= dense(f"{layer}/attention/{part}", hidden, hidden)
        shapes |= norm(f"{layer}/attention/output/LayerNorm") | norm(f"{layer}/output/LayerNorm")
        shapes |= dense(f"{layer}/intermediate/dense", hidden, inner) | dense(f"{layer}/output/dense", inner, hidden)
    return shapes


def dense(name: str, rows: int, columns: int) -> dict:
    return {f"{name}/kernel": (rows, columns), f"{name}/bias": (columns,)}


def norm(name: str) -> dict:
    return {f"{name}/gamma": (30,), f"{name}/beta": (30,)}


@pytest.fixture(scope="module")
def google_weights():
    """A random array for each weight."""
    rng = np.random.default_rng(11)
    return {
        name: rng.normal(1.0 if name.endswith("gamma") else 0.0, 0.25, shape).astype("float32")
        for name, shape in google_shapes().items()
    }


@pytest.fixture
def google_folder(google_weights, tmp_path):
    """A folder like those that Google published."""
    write_google_folder(tmp_path / "google", google_weights)
    return tmp_path / "google"


def write_google_folder(folder, weights: dict, **config) -> None:
    import tensorflow as tf

    folder.mkdir()
    tensors = dict(weights)
    for name, value in weights.items():  # the slots of Adam must be skipped and not loaded as weights
        tensors[f"{name}/adam_m"], tensors[f"{name}/adam_v"] = -value, value**2
    tensors["global_step"] = np.int64(1000)
    names = list(tensors)
    tf.raw_ops.SaveV2(
        prefix=str(folder / "bert_model.ckpt"),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.constant(tensors[name]) for name in names],
    )
    (folder / "bert_config.json").write_text(json.dumps({**GOOGLE_CONFIG, **config}))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{i}" for i in range(92))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")


@pytest.fixture
def twin(google_weights, make_twin):
    """transformers' `BertForPreTraining` with the same weights, copied by the names of its own parameters."""
    import torch

    twin = make_twin("BertForPreTraining", hidden_act="gelu_new")
    for name, parameter in twin.named_parameters():
        value = google_weights[google_name(name)]
        is_kernel = google_name(name).endswith("kernel")
        parameter.data = torch.tensor(value.T.copy() if is_kernel else value)
    twin.tie_weights()
    return twin


def google_name(torch_name: str) -> str:
    """Return the name in Google's checkpoint of a parameter of transformers' `BertForPreTraining`."""
    if torch_name == "cls.predictions.bias":
        return "cls/predictions/output_bias"
    if torch_name.startswith("cls.seq_relationship"):
        return "cls/seq_relationship/output_" + {"weight": "weights", "bias": "bias"}[torch_name.split(".")[-1]]
    name, _, kind = torch_name.rpartition(".")
    name = name.replace("layer.", "layer_").replace(".", "/")
    if name.endswith("_embeddings"):
        return name
    kinds = {"weight": "gamma", "bias": "beta"} if name.endswith("LayerNorm") else {"weight": "kernel", "bias": "bias"}
    return f"{name}/{kinds[kind]}"


def test_the_twin_uses_every_weight_once(twin, google_weights):
    taken = [google_name(name) for name, _ in twin.named_parameters()]
    assert sorted(taken) == sorted(google_weights)


def test_a_google_checkpoint_computes_the_same_as_the_twin(google_folder, twin, make_batch, run, run_twin):
    model = bk.load(google_folder)
    assert type(model).__name__ == "BertPretrainer"
    ours, theirs = run(model, make_batch()), run_twin(twin, make_batch())
    for our_name, their_name in OUTPUTS.items():
        assert ours[our_name].shape == theirs[their_name].shape
        np.testing.assert_allclose(ours[our_name], theirs[their_name], rtol=0, atol=TOLERANCE, err_msg=our_name)


@pytest.mark.parametrize(
    ("prefix", "class_name", "our_class"),
    [
        ("", "BertForSequenceClassification", "BertClassifier"),  # run_classifier.py
        ("cls/squad/", "BertForQuestionAnswering", "BertQuestionAnswerer"),  # run_squad.py
    ],
)
def test_heads_of_googles_fine_tuning_scripts_load(
    prefix, class_name, our_class, google_weights, make_twin, make_batch, run, run_twin, tmp_path
):
    import torch

    rng = np.random.default_rng(12)
    weights = {name: value for name, value in google_weights.items() if name.startswith("bert/")}
    weights[f"{prefix}output_weights"] = rng.normal(0, 0.25, (2, 30)).astype("float32")
    weights[f"{prefix}output_bias"] = rng.normal(0, 0.25, (2,)).astype("float32")
    write_google_folder(tmp_path / "google", weights)

    twin = make_twin(class_name, hidden_act="gelu_new", num_labels=2)
    for name, parameter in twin.named_parameters():
        if name.startswith("bert."):
            value = weights[google_name(name)]
            parameter.data = torch.tensor(value.T.copy() if google_name(name).endswith("kernel") else value)
        else:
            parameter.data = torch.tensor(weights[f"{prefix}output_{'bias' if name.endswith('bias') else 'weights'}"])

    model = bk.load(tmp_path / "google")
    assert type(model).__name__ == our_class
    theirs = run_twin(twin, make_batch())
    for name, value in run(model, make_batch()).items():
        np.testing.assert_allclose(value, theirs[name], rtol=0, atol=TOLERANCE, err_msg=name)


def test_googles_gelu_is_the_tanh_approximation(google_folder):
    assert bk.load(google_folder).encoder.config.hidden_act == "gelu_tanh"


def test_transformers_loads_a_converted_google_checkpoint(
    google_folder, twin, make_batch, run_twin, open_twin, tmp_path
):
    bk.convert(google_folder, tmp_path / "converted", to="huggingface")
    converted = open_twin(tmp_path / "converted", "BertForPreTraining")
    ours, theirs = run_twin(converted, make_batch()), run_twin(twin, make_batch())
    for name in OUTPUTS.values():
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)  # same weights, same code


def test_a_weight_of_another_shape_is_reported_with_both_shapes(google_weights, tmp_path):
    write_google_folder(tmp_path / "google", google_weights, intermediate_size=48)
    with pytest.raises(bk.InputError, match=r"44.*48|48.*44"):
        bk.load(tmp_path / "google")


def test_a_missing_weight_is_reported(google_weights, tmp_path):
    name = "bert/encoder/layer_1/attention/self/key/bias"
    write_google_folder(tmp_path / "google", {key: value for key, value in google_weights.items() if key != name})
    with pytest.raises(bk.InputError, match=name):
        bk.load(tmp_path / "google")


@pytest.mark.parametrize(
    "name", ["bert/encoder/layer_1/adapter/kernel", "bert/embeddings/extra_embeddings", "bert/embeddings/adam_m"]
)
def test_an_unexpected_variable_of_the_encoder_is_reported(name, google_weights, tmp_path):
    write_google_folder(tmp_path / "google", {**google_weights, name: np.ones((30, 30), "float32")})
    with pytest.raises(bk.InputError, match=f"variables that BERT's encoder does not have, {name}: the checkpoint"):
        bk.load(tmp_path / "google")


def test_variables_of_another_head_are_listed(google_weights, tmp_path):
    head = {"cls/squad/output_weights": np.ones((2, 30), "float32"), "crf_loss/transitions": np.ones((3, 3), "float32")}
    write_google_folder(tmp_path / "google", {**google_weights, **head})
    checkpoint = read_checkpoint(tmp_path / "google")
    left = "tensors that BertPretrainer does not have: cls/squad/output_weights, crf_loss/transitions"
    assert checkpoint.not_carried_over == [left]


@pytest.mark.parametrize("slots", [("Adam", "Adam_1"), ("lamb_m", "lamb_v"), ("AdamWeightDecayOptimizer", "Momentum")])
def test_optimizer_variables_are_not_listed(slots, google_weights, tmp_path):
    state = {f"{name}/{slot}": value for name, value in google_weights.items() for slot in slots}
    state |= {"beta1_power": np.float32(0.5), "training/beta2_power": np.float32(0.5)}
    write_google_folder(tmp_path / "google", {**google_weights, **state})
    assert read_checkpoint(tmp_path / "google").not_carried_over == []


def test_an_object_based_checkpoint_is_refused(google_folder):
    import tensorflow as tf

    for path in google_folder.glob("bert_model.ckpt*"):
        path.unlink()
    tf.train.Checkpoint(table=tf.Variable(np.ones((97, 30), "float32"))).write(str(google_folder / "bert_model.ckpt"))
    with pytest.raises(
        bk.InputError, match=r"ckpt\.index is an object-based TensorFlow 2 checkpoint; expected a name-based one"
    ):
        bk.load(google_folder)


def test_a_missing_checkpoint_file_is_reported(google_folder):
    (google_folder / "bert_model.ckpt.data-00000-of-00001").unlink()
    with pytest.raises(bk.InputError, match=r"bert_model\.ckpt"):
        bk.load(google_folder)
