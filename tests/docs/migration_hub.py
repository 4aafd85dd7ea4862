"""The tiny TF Hub model of `docs/migration/tf_hub.md`: the real one for recording, and its variables for the test."""

import pathlib

import numpy as np

SIZES = {"hidden_size": 30, "num_hidden_layers": 2, "num_attention_heads": 5, "intermediate_size": 44}
SIZES |= {"max_position_embeddings": 128, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def draw_weights(shapes: dict[str, list[int]]) -> dict[str, np.ndarray]:
    """Return random weights, keyed by name; those of the token table are larger, so that texts differ more."""
    rng = np.random.default_rng(30)
    weights = {}
    for name, shape in sorted(shapes.items()):
        center, scale = float("gamma" in name), 1.0 if "word_embeddings" in name else 0.25
        weights[name] = rng.normal(center, scale, shape).astype("float32")
    return weights


def export_hub_folders(root: pathlib.Path) -> dict[str, list[int]]:
    """Write `bert_hub` and `bert_hub_preprocess` with tf-models-official; return the shapes of the variables."""
    from official.legacy.bert import configs
    from official.nlp.tools import export_tfhub_lib

    vocabulary = root / "vocab.txt"
    config = configs.BertConfig(vocab_size=len(vocabulary.read_text().splitlines()), **SIZES)
    model, encoder = export_tfhub_lib._create_model(bert_config=config, with_mlm=False)
    shapes = {variable.name: list(variable.shape) for variable in encoder.variables}
    for variable, (_, value) in zip(
        sorted(encoder.variables, key=lambda variable: variable.name), sorted(draw_weights(shapes).items()), strict=True
    ):
        variable.assign(value)
    model.save(root / "bert_hub", include_optimizer=False, save_format="tf")
    export_tfhub_lib.export_preprocessing(
        str(root / "bert_hub_preprocess"),
        vocab_file=str(vocabulary),
        do_lower_case=True,
        tokenize_with_offsets=False,
        default_seq_length=128,
    )
    return shapes


def write_hub_variables(root: pathlib.Path, shapes: dict[str, list[int]]) -> None:
    """Write the variables of `bert_hub` and the vocabulary of `bert_hub_preprocess`, without graphs."""
    import tensorflow as tf

    model = tf.__internal__.tracking.AutoTrackable()
    model.variables = [tf.Variable(value, name=name.partition(":")[0]) for name, value in draw_weights(shapes).items()]
    tf.saved_model.save(model, str(root / "bert_hub"))
    assets = root / "bert_hub_preprocess/assets"
    assets.mkdir(parents=True)
    (assets / "vocab.txt").write_text((root / "vocab.txt").read_text())
