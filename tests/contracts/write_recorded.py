"""Write the files of `recorded_0_2/` into the current folder; it ran with version 0.2.0 (commit 467e40b).

    mkdir recorded_0_2 && cd recorded_0_2 && python ../write_recorded.py

`artifacts/deploy`, `artifacts/tflite/README.md` and the pictures were removed afterwards.
"""

import contextlib
import json
import pathlib

import keras
import numpy as np

import bert_keras as bk

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "good", "bad", "film", "play"]
SIZES = {"vocabulary_size": len(WORDS), "num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 12}
IDS = np.array([[2, 13, 15, 3, 0], [2, 14, 16, 5, 3]], "int32")
OPTIONS = {"train": "train.tsv", "dev": "train.tsv", "batch_size": 4, "max_sequence_length": 12, "verbose": False}


class Stop(keras.callbacks.Callback):
    """Interrupts a training after its second step."""

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Interrupt the training."""
        if batch == 1:
            raise KeyboardInterrupt


def make_models() -> dict[str, keras.Model]:
    """Return a model of each class."""
    config = bk.BertConfig(**SIZES, max_sequence_length=20)
    narrow = bk.BertConfig(**SIZES, max_sequence_length=20, embedding_dim=6)
    generator = bk.BertConfig(len(WORDS), 1, 1, 4, 8, max_sequence_length=20, embedding_dim=6)

    def encoder() -> bk.BertEncoder:
        return bk.BertEncoder(config, pooler=False)

    return {
        "encoder": bk.BertEncoder(config),
        "pretrainer": bk.BertPretrainer(bk.BertEncoder(config)),
        "masked_lm": bk.BertMaskedLM(encoder()),
        "tagger": bk.BertTokenClassifier(encoder(), 3, labels=["O", "B-X", "I-X"]),
        "answerer": bk.BertQuestionAnswerer(encoder()),
        "embedder": bk.BertEmbedder(encoder(), prompts={"query": "a "}),
        "electra": bk.ElectraPretrainer(bk.BertEncoder(narrow, pooler=False), generator_config=generator),
        "electra_classifier": bk.BertClassifier(encoder(), 2, labels=["no", "yes"]),
    }


def compute(model: keras.Model) -> dict[str, list]:
    """Return the outputs of a model for `IDS`."""
    outputs = model({"token_ids": IDS, "padding_mask": (IDS != 0).astype("int32")}, training=False)
    return {name: np.asarray(value).tolist() for name, value in outputs.items()}


def main() -> None:
    """Write all files."""
    keras.utils.set_random_seed(7)
    rng, expected = np.random.default_rng(0), {}
    models, tokenizer = make_models(), bk.BertTokenizer(vocabulary=WORDS, lowercase=True)
    for name, model in models.items():
        for variable in model.trainable_variables:
            variable.assign(np.asarray(variable) + rng.normal(0, 0.2, variable.shape))
        bk.save(model, tokenizer, name)
        expected[name] = compute(model)
    for name in ("electra_classifier", "embedder", "electra"):
        models[name].save(f"{name}.keras")
    rows = [
        f"{word} {thing}\t{label}" for word, label in (("good", "yes"), ("bad", "no")) for thing in ("film", "play")
    ]
    pathlib.Path("train.tsv").write_text("\n".join(["text\tlabel", *rows * 3]) + "\n")
    bk.finetune("encoder", "classifier", num_epochs=1, **OPTIONS)
    expected["classifier"] = compute(bk.load("classifier"))
    with contextlib.suppress(KeyboardInterrupt):
        bk.finetune("encoder", "stopped", num_epochs=2, callbacks=[Stop()], backup_every=1, **OPTIONS)
    expected["resumed"] = compute(bk.finetune("encoder", num_epochs=2, **OPTIONS).model)
    bk.export_model("classifier", "artifacts", ["onnx", "tflite"], quantizations=["float32"])
    [answer] = bk.Predictor.from_artifact("artifacts")(["good film"])
    expected["artifact"] = [np.asarray(answer["probabilities"]).tolist()]
    pathlib.Path("expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    main()
