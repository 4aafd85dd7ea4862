"""Import TensorFlow, and train, save and load a tiny model; run by `self_test.py` in a process of its own.

Each stage appends a line of JSON to a file, so that a crash is found between two of them:

    python -m bert_keras.doctor.self_test_program FILE FOLDER STAGE [STAGE ...]

FOLDER is where a model is written; for the stage `load`, a checkpoint of any format.
"""

import json
import pathlib
import sys
import time
import warnings
from collections.abc import Iterator, Sequence

import numpy as np

from bert_keras.errors import InputError
from bert_keras.pipelines.quiet_import import import_tensorflow_quietly

_TEXTS = ("the cat sat on the mat", "a dog ran")
_WORDS = "the cat sat on mat a dog ran".split()
_TOLERANCE = 1e-5  # of a reloaded model; the same weights gave the same bits


def main(arguments: Sequence[str]) -> int:
    """Run the stages and return the exit status."""
    file, folder, *names = arguments
    warnings.simplefilter("ignore")
    stages = _load(pathlib.Path(folder)) if "load" in names else _train(pathlib.Path(folder))
    with open(file, "a", encoding="utf-8") as report:
        for name in names:
            started = time.perf_counter()
            try:
                result = {"result": next(stages)}
            except Exception as error:
                kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
                result = {"error": f"{kind}{error}"}
            line = {"stage": name, "seconds": time.perf_counter() - started, **result}
            report.write(json.dumps(line) + "\n")
            report.flush()
            if "error" in result:
                return 1
    return 0


def _import() -> Iterator[object]:
    """Import TensorFlow, then Keras; yield what they report."""
    import_tensorflow_quietly()
    import tensorflow as tf

    devices = tf.config.list_physical_devices("GPU")
    names = [tf.config.experimental.get_device_details(one).get("device_name", one.name) for one in devices]
    yield {"version": tf.__version__, "gpus": names, "is_cuda_build": tf.test.is_built_with_cuda()}
    import keras

    import bert_keras.heads.models  # noqa: F401

    yield f"keras {keras.__version__} on {keras.backend.backend()}"


def _load(folder: pathlib.Path) -> Iterator[object]:
    """Import the libraries, then load a checkpoint; yield the result of each stage."""
    yield from _import()
    import bert_keras as bk

    model = bk.load(folder)
    yield f"{type(model).__name__} with {model.count_params():,} parameters, all finite"


def _train(folder: pathlib.Path) -> Iterator[object]:
    """Import the libraries, then tokenize, train one step, predict, save and load; yield the result of each stage."""
    yield from _import()
    from keras import ops

    import bert_keras as bk
    from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS

    tokenizer = bk.BertTokenizer([*SPECIAL_TOKENS, *_WORDS])
    features = bk.pack(tokenizer, list(_TEXTS), max_sequence_length=8)
    token_ids = np.asarray(features["token_ids"])
    if token_ids[1].tolist() != [2, 10, 11, 12, 3, 0, 0, 0]:
        raise RuntimeError(f"the ids of {_TEXTS[1]!r} are {token_ids[1].tolist()}")
    yield f"{token_ids.size} token ids"

    model = _make_model(tokenizer.vocabulary_size)
    losses = model.fit(features, np.array([0, 1]), epochs=1, verbose=0).history["loss"]
    if not np.isfinite(losses).all():
        raise RuntimeError(f"the loss is {losses[0]}")
    yield f"one step, loss {losses[0]:.2f}"

    logits = ops.convert_to_numpy(model(features, training=False)["logits"])
    if not np.isfinite(logits).all():
        raise RuntimeError("the model produced NaN or infinity")
    yield f"{len(logits)} texts"

    bk.save(model, tokenizer, folder / "model")
    reloaded = ops.convert_to_numpy(bk.load(folder / "model")(features, training=False)["logits"])
    if (difference := float(np.abs(reloaded - logits).max())) > _TOLERANCE:
        raise RuntimeError(f"the reloaded model differs by {difference:.2g}")
    yield "the reloaded model gives the same answers"


def _make_model(vocabulary_size: int) -> object:
    """Return a tiny model of the first head that has classes."""
    import keras

    import bert_keras as bk
    from bert_keras.heads.known_heads import HEADS

    keras.utils.set_random_seed(0)
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 24, "max_sequence_length": 8}
    config = bk.BertConfig(vocabulary_size=vocabulary_size, **sizes)
    head = next(head for head in HEADS if head.has_num_classes)
    model = head.load("model")(bk.BertEncoder(config), 2)
    model.compile(keras.optimizers.AdamW(1e-3), jit_compile=False)
    return model


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
