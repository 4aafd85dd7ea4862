"""`Predictor`, `fill_mask` and the commands give the same results on JAX as on TensorFlow; torch is rejected."""

import dataclasses
import json
import os
import subprocess
import sys

import keras
import pytest

import bert_keras as bk

TOLERANCE = 1e-5
EXAMPLES = {
    "classifier": ["A film that works.", "no", "It is not what I wanted to see " * 3],
    "multi_label": ["A film that works.", "no"],
    "regression": ["A film that works.", "no"],
    "token_classifier": ["Alice went home.", "no"],
    "question_answerer": [("who went", "Alice went home."), ("what", "no")],
    "embedder": ["A film that works.", "no"],
}
MASKED = ["a [MASK] that works"]

# runs in a separate process, because a process has one Keras backend
SCRIPT = """
import dataclasses, json, sys
import bert_keras as bk

folder, examples, masked = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
answers, tokenizer = {}, None
for kind, inputs in examples.items():
    inputs = [tuple(example) if isinstance(example, list) else example for example in inputs]
    if tokenizer is None:
        predictor = bk.Predictor.from_checkpoint(f"{folder}/{kind}")
        tokenizer = predictor.tokenizer  # for all kinds, because tracing a new one takes seconds
    else:
        predictor = bk.Predictor(bk.load(f"{folder}/{kind}"), tokenizer)
    answers[kind] = predictor(inputs)
folder = f"{folder}/masked_lm"
fillings = bk.fill_mask(bk.load(folder), tokenizer, masked)
answers["masked_lm"] = [[[dataclasses.asdict(one) for one in mask] for mask in text] for text in fillings]
assert __import__("keras").backend.backend() == "jax"
errors = {}
for name, call in {
    "finetune": lambda: bk.finetune(folder, train=[("a", "x"), ("b", "y")]),
    "distill": lambda: bk.distill(folder, train=[("a", "x"), ("b", "y")], num_layers=1),
    "export_model": lambda: bk.export_model(folder, "out"),
    "plan": lambda: bk.plan("tiny"),
}.items():
    try:
        call()
    except bk.InputError as error:
        errors[name] = str(error)
print(json.dumps({"answers": answers, "errors": errors}))
"""


def run_on(backend: str, *command) -> subprocess.CompletedProcess:
    environment = {**os.environ, "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu"}
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Folder with a checkpoint of each task; the weights are random."""
    folder = tmp_path_factory.mktemp("checkpoints")
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    tokenizer = bk.BertTokenizer.from_vocabulary(folder / "vocab.txt")
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=len(vocabulary), initializer_range=0.1)
    keras.utils.set_random_seed(3)
    models = {
        "classifier": bk.BertClassifier(bk.BertEncoder(config), 2, labels=["good", "bad"]),
        "multi_label": bk.BertClassifier(bk.BertEncoder(config), 3, problem="multi_label", labels=["a", "b", "c"]),
        "regression": bk.BertClassifier(bk.BertEncoder(config), 1, problem="regression"),
        "token_classifier": bk.BertTokenClassifier(bk.BertEncoder(config, pooler=False), 3, labels=["O", "B-A", "I-A"]),
        "question_answerer": bk.BertQuestionAnswerer(bk.BertEncoder(config, pooler=False)),
        "embedder": bk.BertEmbedder(bk.BertEncoder(config)),
        "masked_lm": bk.BertMaskedLM(bk.BertEncoder(config, pooler=False)),
    }
    for kind, model in models.items():
        bk.save(model, tokenizer, folder / kind)
    return folder


@pytest.fixture(scope="module")
def tokenizer(checkpoints):
    """The tokenizer of all checkpoints, opened once, because tracing a new one takes seconds."""
    return bk.load_tokenizer(checkpoints / "classifier")


def assert_close(ours, theirs) -> None:
    """Check that numbers agree within the tolerance and everything else is equal."""
    if isinstance(theirs, dict):
        assert sorted(ours) == sorted(theirs)
        for name, value in theirs.items():
            assert_close(ours[name], value)
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_close(one, other)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, abs=TOLERANCE)
    else:
        assert ours == theirs


def list_fillings(folder, tokenizer) -> list:
    """Return the predictions for the masks of `MASKED` as JSON values."""
    filled = bk.fill_mask(bk.load(folder), tokenizer, MASKED)
    return [[[dataclasses.asdict(filling) for filling in mask] for mask in text] for text in filled]


@pytest.mark.slow  # tests/architectures/test_as_keras_models.py compares the outputs of two models on JAX
def test_predictor_and_fill_mask_agree_on_jax_and_other_functions_are_rejected(checkpoints, tokenizer):
    done = run_on("jax", "-c", SCRIPT, str(checkpoints), json.dumps(EXAMPLES), json.dumps(MASKED))
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    on_jax, needs = output["answers"], "needs the TensorFlow backend, and KERAS_BACKEND is 'jax': unset it"
    assert output["errors"] == {name: f"bk.{name} {needs}" for name in ("finetune", "distill", "export_model", "plan")}
    for kind, examples in EXAMPLES.items():
        answers = bk.Predictor(bk.load(checkpoints / kind), tokenizer)(examples)
        assert_close(on_jax[kind], json.loads(json.dumps(answers)))
    assert_close(on_jax["masked_lm"], list_fillings(checkpoints / "masked_lm", tokenizer))


@pytest.mark.parametrize(
    ("name", "arguments", "options"),
    [
        ("finetune", ["folder"], {"train": [("a", "x")]}),
        ("distill", ["folder"], {"train": [("a", "x")]}),
        ("export_model", ["folder", "out"], {}),
        ("plan", ["tiny"], {}),
    ],
)
def test_other_functions_are_rejected_on_jax(name, arguments, options, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(bk.InputError, match=rf"^bk\.{name} needs the TensorFlow backend, and KERAS_BACKEND is 'jax'"):
        getattr(bk, name)(*arguments, **options)


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXAMPLES)
def test_command_predict_agrees_on_jax(kind, checkpoints):
    first = EXAMPLES[kind][0]
    texts = first if isinstance(first, tuple) else (first,)
    answers = {}
    for backend in ("jax", "tensorflow"):
        done = run_on(backend, "-m", "bert_keras.cli.main", "predict", str(checkpoints / kind), *texts)
        assert done.returncode == 0, done.stderr
        answers[backend] = json.loads(done.stdout)
    assert_close(answers["jax"], answers["tensorflow"])


@pytest.mark.slow
def test_command_fill_mask_agrees_on_jax(checkpoints, tokenizer):
    folder = checkpoints / "masked_lm"
    done = run_on("jax", "-m", "bert_keras.cli.main", "fill-mask", str(folder), *MASKED, "--json")
    assert done.returncode == 0, done.stderr
    assert_close(json.loads(done.stdout)["texts"][0]["masks"], list_fillings(folder, tokenizer)[0])


@pytest.mark.slow
def test_command_evaluate_agrees_on_jax_for_a_masked_lm(checkpoints, tmp_path):
    (tmp_path / "texts.txt").write_text("a film that works\nno\n")
    scores = []
    for backend in ("jax", "tensorflow"):
        command = ["-m", "bert_keras.cli.main", "evaluate", str(checkpoints / "masked_lm"), str(tmp_path / "texts.txt")]
        done = run_on(backend, *command, "--json")
        assert done.returncode == 0, done.stderr
        scores.append(json.loads(done.stdout))
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)


def test_torch_is_rejected(checkpoints):
    done = run_on("torch", "-m", "bert_keras.cli.main", "predict", str(checkpoints / "classifier"), "a film")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "KERAS_BACKEND is 'torch'; expected tensorflow or jax" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_package_can_be_imported_on_torch():
    done = run_on("torch", "-c", "import bert_keras, keras; print(keras.backend.backend())")
    assert done.stdout.strip() == "torch", done.stderr
