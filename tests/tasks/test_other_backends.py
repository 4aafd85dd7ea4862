"""`Predictor` on JAX answers as on TensorFlow, and other backends are refused."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

import bert_keras as bk

TOLERANCE = 1e-5
EXAMPLES = {
    "classifier": ["A film that works.", "no", "It is not what I wanted to see " * 3],
    "token_classifier": ["Alice went home.", "no"],
    "question_answerer": [("who went", "Alice went home."), ("what", "no")],
    "embedder": ["A film that works.", "no"],
}

# runs in a process of its own, because a process has one Keras backend
SCRIPT = """
import json, sys
import numpy as np
import bert_keras as bk

folder, examples = sys.argv[1], json.loads(sys.argv[2])
answers = {}
for kind, of_kind in examples.items():
    given = [tuple(example) if isinstance(example, list) else example for example in of_kind]
    answers[kind] = bk.Predictor.from_checkpoint(f"{folder}/{kind}")(given)
assert __import__("keras").backend.backend() == "jax"
print(json.dumps(answers, default=lambda value: np.asarray(value).tolist()))
"""


def run_on(backend: str, *command) -> subprocess.CompletedProcess:
    environment = {**os.environ, "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu"}
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """A folder with a checkpoint of each task, its weights drawn at random."""
    folder = tmp_path_factory.mktemp("checkpoints")
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    tokenizer = bk.BertTokenizer.from_vocabulary(folder / "vocab.txt")
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=len(vocabulary), initializer_range=0.1)
    keras.utils.set_random_seed(3)
    models = {
        "classifier": bk.BertClassifier(bk.BertEncoder(config), 2, labels=["good", "bad"]),
        "token_classifier": bk.BertTokenClassifier(bk.BertEncoder(config, pooler=False), 3, labels=["O", "B-A", "I-A"]),
        "question_answerer": bk.BertQuestionAnswerer(bk.BertEncoder(config, pooler=False)),
        "embedder": bk.BertEmbedder(bk.BertEncoder(config)),
    }
    for kind, model in models.items():
        bk.save(model, tokenizer, folder / kind)
    return folder


def assert_alike(ours, theirs) -> None:
    """Compare answers: numbers within the tolerance, everything else exactly."""
    if isinstance(theirs, dict):
        assert sorted(ours) == sorted(theirs)
        for name, value in theirs.items():
            assert_alike(ours[name], value)
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_alike(one, other)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, abs=TOLERANCE)
    else:
        assert ours == theirs


def test_a_predictor_on_jax_answers_as_on_tensorflow(checkpoints):
    done = run_on("jax", "-c", SCRIPT, str(checkpoints), json.dumps(EXAMPLES))
    assert done.returncode == 0, done.stderr
    on_jax = json.loads(done.stdout)
    for kind, examples in EXAMPLES.items():
        here = bk.Predictor.from_checkpoint(checkpoints / kind)(examples)
        assert_alike(on_jax[kind], json.loads(json.dumps(here, default=lambda value: np.asarray(value).tolist())))


def test_torch_is_refused(checkpoints):
    done = run_on("torch", "-m", "bert_keras.cli.main", "predict", str(checkpoints / "classifier"), "a film")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Keras's backend is torch; bert_keras runs on tensorflow and jax" in done.stderr
    assert "Traceback" not in done.stderr


def test_keras_on_torch_can_still_be_imported_beside_us():
    done = run_on("torch", "-c", "import bert_keras, keras; print(keras.backend.backend())")
    assert done.stdout.strip() == "torch", done.stderr
