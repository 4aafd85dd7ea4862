"""Write tiny model folders without TensorFlow, for tests that damage them; one is read in a millisecond."""

import dataclasses
import json
import pathlib

import h5py
import numpy as np
from safetensors.numpy import save_file

from bert_keras.checkpoints.huggingface.weight_names import list_weights
from bert_keras.config import BertConfig

SIZES = {"vocab_size": 13, "hidden_size": 6, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 10}
SIZES |= {"max_position_embeddings": 17, "type_vocab_size": 2}
OURS = BertConfig(
    vocabulary_size=13, num_layers=2, num_heads=3, hidden_dim=6, intermediate_dim=10, max_sequence_length=17
)
LABELS = ["red", "green", "blue"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefg", "##a"]
TASK = {"name": "classify", "max_sequence_length": 16, "window_overlap": None, "problem": "single_label"}
TASK |= {"labels": LABELS, "has_pairs": False, "class_weights": "equal"}
CONFIG = {
    "architectures": ["BertForSequenceClassification"],
    "model_type": "bert",
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "id2label": {str(number): name for number, name in enumerate(LABELS)},
    "problem_type": "single_label_classification",
    "classifier_dropout": None,
    "bert_keras": {"format": 1, "model": "BertClassifier", "settings": {}, "position_type": "learned", "task": TASK},
    **SIZES,
}
ENCODER_CONFIG = {"architectures": ["BertModel"], "model_type": "bert", **SIZES}
TOKENIZER_CONFIG = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "strip_accents": None}
TOKENIZER_CONFIG |= {"model_max_length": 16, "additional_special_tokens": [], "tokenize_chinese_chars": True}
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
]
POOLING = {"word_embedding_dimension": 6, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}


def write_classifier(folder: pathlib.Path) -> pathlib.Path:
    """Write the folder of a fine-tuned classifier, as `save` does, but without hashes."""
    _write(folder, CONFIG, "BertClassifier")
    return folder


def write_embedder(folder: pathlib.Path) -> pathlib.Path:
    """Write a folder of sentence-transformers."""
    _write(folder, ENCODER_CONFIG, "BertEmbedder")
    write_json(folder / "modules.json", MODULES)
    (folder / "1_Pooling").mkdir()
    write_json(folder / "1_Pooling/config.json", POOLING)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 16, "do_lower_case": False})
    prompts = {"prompts": {"query": "a b", "document": ""}, "default_prompt_name": "query"}
    write_json(folder / "config_sentence_transformers.json", {**prompts, "similarity_fn_name": "cosine"})
    return folder


def write_electra(folder: pathlib.Path) -> pathlib.Path:
    """Write the folder of an ELECTRA with its generator."""
    config = {"model_type": "electra", "embedding_size": 6, **SIZES}
    ours = {"format": 1, "position_type": "learned", "settings": {}}
    discriminator = {"architectures": ["ElectraForPreTraining"], "bert_keras": {**ours, "model": "ElectraPretrainer"}}
    _write(folder, {**config, **discriminator}, "ElectraPretrainer", "electra")
    generator = {"architectures": ["ElectraForMaskedLM"], "bert_keras": {**ours, "model": "BertMaskedLM"}}
    _write(folder / "generator", {**config, **generator}, "BertMaskedLM", "electra")
    (folder / "generator/vocab.txt").unlink()
    return folder


def edit_json(path: pathlib.Path, *keys: str, **changes: object) -> None:
    """Change fields in the object under `keys` of a JSON file."""
    values = json.loads(path.read_text())
    part = values
    for key in keys:
        part = part[key]
    part.update(changes)
    write_json(path, values)


def write_json(path: pathlib.Path, value: object) -> None:
    """Write JSON, including NaN."""
    path.write_text(json.dumps(value))


def make_tensors(model: str, model_type: str = "bert") -> dict[str, np.ndarray]:
    """Return random tensors of a model, keyed by their names in transformers."""
    pooler = model in ("BertEmbedder", "BertClassifier")
    names = list_weights(model, dataclasses.replace(OURS, model_type=model_type), pooler=pooler)
    generator = np.random.default_rng(0)
    tensors = {}
    for name in names:
        value = generator.normal(0, 0.25, name.shape(OURS, len(LABELS))).astype("float32")
        prefix = f"{model_type}." if name.ours.startswith("encoder.") and model != "BertEmbedder" else ""
        tensors[prefix + name.huggingface] = np.ascontiguousarray(value.T if name.is_kernel else value)
    return tensors


def _write(folder: pathlib.Path, config: dict, model: str, model_type: str = "bert") -> None:
    folder.mkdir(parents=True)
    write_json(folder / "config.json", config)
    save_file(make_tensors(model, model_type), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    write_json(folder / "tokenizer_config.json", TOKENIZER_CONFIG)


def write_tokenizer(folder: pathlib.Path) -> pathlib.Path:
    """Write a folder as transformers 5 does: `tokenizer.json` and no `vocab.txt`."""
    write_classifier(folder)
    (folder / "vocab.txt").unlink()
    added = [{"id": number, "content": WORDS[number], "special": True, "normalized": False} for number in range(5)]
    added = [{**token, "single_word": False, "lstrip": False, "rstrip": False} for token in added]
    normalizer = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None}
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##"}
    model |= {"max_input_chars_per_word": 100, "vocab": {word: number for number, word in enumerate(WORDS)}}
    parts = {"pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": "##"}}
    head = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added}
    normalizer["lowercase"] = True
    write_json(folder / "tokenizer.json", {**head, "normalizer": normalizer, **parts, "model": model})
    return folder


def write_preset(folder: pathlib.Path) -> pathlib.Path:
    """Write files like those of a KerasHub preset, which KerasHub itself cannot load."""
    folder.mkdir()
    sizes = {"vocabulary_size": 13, "num_layers": 2, "num_heads": 3, "hidden_dim": 6, "intermediate_dim": 10}
    sizes |= {"max_sequence_length": 17, "num_segments": 2, "dropout": 0.1}
    config = {"module": "keras_hub.src.models.bert.bert_backbone", "class_name": "BertBackbone", "config": sizes}
    config["registered_name"] = "keras_hub>BertBackbone"
    write_json(folder / "metadata.json", {"keras_version": "3.12.0"})
    write_json(folder / "config.json", config)
    task = {"class_name": "BertTextClassifier", "config": {"backbone": config, "num_classes": 3}}
    write_json(folder / "task.json", task)
    with h5py.File(folder / "model.weights.h5", "w") as file:
        for number in range(30):
            file[f"layers/dense_{number}/vars/0"] = np.zeros((6, 6), "float32")
    return folder
