"""Write the tiny model folders that the snippets of `docs/migration/` open; the pages name them as a user would.

    python -m tests.docs.migration_folders FOLDER

All weights are random numbers of a seed, so that outputs recorded in another environment belong to the same models.
"""

import json
import pathlib
import shutil
import sys

import keras
import numpy as np

import bert_keras as bk

SENTENCES = (
    "a fine film",
    "a waste of time",
    "the actors are fine and the story is not",
    "who wrote it ?",
    "it was written by jane austen in bath",
    "ann lives in rome",
)
WORDS = sorted({word for sentence in SENTENCES for word in sentence.split()} | {"play", "##ing", "##s", ".", ","})
LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
VOCABULARY += [word for word in WORDS if word not in VOCABULARY]
SIZES = {"num_layers": 2, "num_heads": 5, "hidden_dim": 30, "intermediate_dim": 44, "max_sequence_length": 48}
NO_DROPOUT = {"hidden_dropout_rate": 0.0, "attention_dropout_rate": 0.0}  # so that two trainings can be equal
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
GOOGLE_FOLDER = "uncased_L-2_H-30_A-5"


def make_config(**changes: object) -> bk.BertConfig:
    return bk.BertConfig(vocabulary_size=len(VOCABULARY), **{**SIZES, **NO_DROPOUT, **changes})


def perturb(model: keras.Model, seed: int) -> None:
    """Draw all weights again, biases and layer norms too; a wider token table makes texts differ more."""
    rng = np.random.default_rng(seed)
    for weight in sorted(model.weights, key=lambda weight: weight.path):
        center = 1.0 if weight.path.endswith("gamma") else 0.0
        scale = 1.0 if "token" in weight.path and "embeddings" in weight.path else 0.25
        weight.assign(rng.normal(center, scale, weight.shape).astype("float32"))


def write_huggingface_folders(root: pathlib.Path) -> None:
    """Write `bert-base`, `reviews`, `entities`, `answers` and `sentences`."""
    tokenizer = bk.BertTokenizer(VOCABULARY, lowercase=True)
    models = {
        "bert-base": lambda: bk.BertPretrainer(bk.BertEncoder(make_config())),
        "reviews": lambda: bk.BertClassifier(bk.BertEncoder(make_config()), 2, labels=("negative", "positive")),
        "entities": lambda: bk.BertTokenClassifier(bk.BertEncoder(make_config(), pooler=False), 5, labels=TAGS),
        "answers": lambda: bk.BertQuestionAnswerer(bk.BertEncoder(make_config(), pooler=False)),
        "sentences": lambda: bk.BertEmbedder(
            bk.BertEncoder(make_config(), pooler=False),
            prompts={"query": "who wrote it ? "},
            similarity="cosine",
        ),
    }
    for seed, (name, make) in enumerate(models.items()):
        model = make()
        perturb(model, seed)
        bk.save(model, tokenizer, root / name, max_sequence_length=32)


def write_google_folders(root: pathlib.Path) -> None:
    """Write TF1 checkpoints with Google's names: a pretrained one, `reviews_tf1` and `squad_tf1`."""
    config = make_config(hidden_act="gelu_tanh")
    models = {
        f"{GOOGLE_FOLDER}/bert_model.ckpt": lambda: bk.BertPretrainer(bk.BertEncoder(config)),
        "reviews_tf1/model.ckpt": lambda: bk.BertClassifier(bk.BertEncoder(config), 2),
        "squad_tf1/model.ckpt": lambda: bk.BertQuestionAnswerer(bk.BertEncoder(config, pooler=False)),
    }
    for seed, (path, make) in enumerate(models.items(), 10):
        model = make()
        perturb(model, seed)
        (root / path).parent.mkdir()
        _write_tf1_checkpoint(model, root / path)
        _write_google_config(root / path)
    shutil.copy(root / GOOGLE_FOLDER / "bert_config.json", root)
    shutil.copy(root / GOOGLE_FOLDER / "vocab.txt", root)


def _write_google_config(path: pathlib.Path) -> None:
    sizes = {"hidden_size": 30, "num_hidden_layers": 2, "num_attention_heads": 5, "intermediate_size": 44}
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.02}
    lengths = {"max_position_embeddings": 48, "type_vocab_size": 2, "vocab_size": len(VOCABULARY)}
    config = {"hidden_act": "gelu", **sizes, **rates, **lengths}
    path.with_name("bert_config.json").write_text(json.dumps(config, indent=2))
    path.with_name("vocab.txt").write_text("".join(f"{token}\n" for token in VOCABULARY))


def _write_tf1_checkpoint(model: bk.BertEncoder, path: pathlib.Path) -> None:
    import tensorflow as tf

    weights = dict(_name_google_weights(model))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, value in weights.items():
            tf.compat.v1.get_variable(name, initializer=value)
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, str(path), write_meta_graph=False)
    path.with_name("checkpoint").unlink()


def _name_google_weights(model: bk.BertEncoder):
    from bert_keras.checkpoints.building import get_variables
    from bert_keras.checkpoints.huggingface.weight_names import list_weights

    variables = get_variables(model)
    for weight in list_weights(type(model).__name__, model.encoder.config, pooler=model.encoder.pooler is not None):
        value = np.asarray(variables[weight.ours])
        yield weight.google, value.T if weight.google.endswith("output_weights") else value


def write_keras_hub_presets(root: pathlib.Path) -> None:
    """Write KerasHub's `bert_preset` (a backbone) and `reviews_preset` (a classifier)."""
    import keras_hub

    sizes = {"num_segments": 2, "vocabulary_size": len(VOCABULARY), "dropout": 0.0, **SIZES}
    tokenizer = keras_hub.models.BertTokenizer(vocabulary=VOCABULARY, lowercase=True)
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(tokenizer, sequence_length=16)
    backbone = keras_hub.models.BertBackbone(**sizes)
    perturb(backbone, 20)
    classifier = keras_hub.models.BertTextClassifier(backbone, num_classes=2, preprocessor=preprocessor, dropout=0.0)
    perturb(classifier, 21)
    classifier.save_to_preset(root / "reviews_preset")
    backbone.save_to_preset(root / "bert_preset")
    tokenizer.save_to_preset(root / "bert_preset")


def write_data(root: pathlib.Path) -> None:
    """Write the data files of the pages."""
    (root / "sample_text.txt").write_text(
        "\n\n".join("\n".join(SENTENCES[n:] + SENTENCES[:n]) for n in range(6)) + "\n"
    )
    (root / "texts.txt").write_text("\n".join(SENTENCES) + "\n")
    (root / "cola").mkdir()
    labelled = [("a fine film", 1), ("the story is fine", 1), ("a waste of time", 0), ("the actors are not fine", 0)]
    lines = [f"x\t{label}\t\t{text}\n" for text, label in labelled * 4]
    (root / "cola/train.tsv").write_text("".join(lines))
    (root / "cola/dev.tsv").write_text("".join(lines[:4]))
    tests = [f"{number}\t{text}\n" for number, text in enumerate(SENTENCES)]
    (root / "cola/test.tsv").write_text("id\tsentence\n" + "".join(tests))
    paragraphs = []
    for number, first in enumerate(SENTENCES[:3]):
        context = f"{first} {SENTENCES[4]}"
        answers = [{"text": "jane austen", "answer_start": context.index("jane")}]
        question = {"id": f"q{number}", "question": "who wrote it ?", "answers": answers}
        paragraphs.append({"context": context, "qas": [question]})
    squad = json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]})
    (root / "train-v1.1.json").write_text(squad)
    (root / "dev-v1.1.json").write_text(squad)


def write_folders(root: pathlib.Path) -> None:
    """Write everything into the new folder `root`."""
    root.mkdir()
    write_huggingface_folders(root)
    write_google_folders(root)
    write_keras_hub_presets(root)
    write_data(root)


if __name__ == "__main__":
    write_folders(pathlib.Path(sys.argv[1]))
