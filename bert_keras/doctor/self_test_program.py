"""Import TensorFlow, and train, save and load a tiny model; run by `self_test.py` in a process of its own.

Each stage appends a line of JSON to a file, so that a crash is found between two of them:

    python -m bert_keras.doctor.self_test_program FILE FOLDER STAGE [STAGE ...]

FOLDER is where a model is written; for the stage `load`, a checkpoint of any format.
"""

import functools
import json
import pathlib
import sys
import time
import warnings
from collections.abc import Callable, Sequence

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
    with open(file, "a", encoding="utf-8") as report:
        for name in names:
            started = time.perf_counter()
            try:
                result = {"result": _STAGES[name](pathlib.Path(folder))}
            except Exception as error:
                kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
                result = {"error": f"{kind}{error}"}
            line = {"stage": name, "seconds": time.perf_counter() - started, **result}
            report.write(json.dumps(line) + "\n")
            report.flush()
            if "error" in result:
                return 1
    return 0


def _import_tensorflow(_: pathlib.Path) -> dict:
    import_tensorflow_quietly()
    import tensorflow as tf

    devices = tf.config.list_physical_devices("GPU")
    names = [tf.config.experimental.get_device_details(one).get("device_name", one.name) for one in devices]
    return {"version": tf.__version__, "gpus": names, "is_cuda_build": tf.test.is_built_with_cuda()}


def _import_keras(_: pathlib.Path) -> str:
    import keras

    import bert_keras.modeling  # noqa: F401

    return f"keras {keras.__version__} on {keras.backend.backend()}"


def _tokenize(_: pathlib.Path) -> str:
    token_ids = np.asarray(_make_features()["token_ids"])
    if token_ids[1].tolist() != [2, 10, 11, 12, 3, 0, 0, 0]:
        raise RuntimeError(f"the ids of {_TEXTS[1]!r} are {token_ids[1].tolist()}")
    return f"{token_ids.size} token ids"


def _train(_: pathlib.Path) -> str:
    losses = _get_model().fit(_make_features(), np.array([0, 1]), epochs=1, verbose=0).history["loss"]
    if not np.isfinite(losses).all():
        raise RuntimeError(f"the loss is {losses[0]}")
    return f"one step, loss {losses[0]:.2f}"


def _predict(_: pathlib.Path) -> str:
    logits = _compute_logits(_get_model())
    if not np.isfinite(logits).all():
        raise RuntimeError("the model produced NaN or infinity")
    return f"{len(logits)} texts"


def _save(folder: pathlib.Path) -> str:
    import bert_keras as bk

    bk.save(_get_model(), _get_tokenizer(), folder / "model")
    difference = float(np.abs(_compute_logits(bk.load(folder / "model")) - _compute_logits(_get_model())).max())
    if difference > _TOLERANCE:
        raise RuntimeError(f"the reloaded model differs by {difference:.2g}")
    return "the reloaded model gives the same answers"


@functools.cache
def _get_tokenizer() -> object:
    import bert_keras as bk
    from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS

    return bk.BertTokenizer([*SPECIAL_TOKENS, *_WORDS])


@functools.cache
def _make_features() -> dict:
    import bert_keras as bk

    return bk.pack(_get_tokenizer(), list(_TEXTS), max_sequence_length=8)


@functools.cache
def _get_model() -> object:
    """Return a tiny model of the first head that has classes."""
    import keras

    import bert_keras as bk
    from bert_keras.heads.known_heads import HEADS

    keras.utils.set_random_seed(0)
    config = bk.BertConfig(
        vocabulary_size=_get_tokenizer().vocabulary_size,
        num_layers=1,
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=24,
        max_sequence_length=8,
    )
    head = next(head for head in HEADS if head.has_num_classes)
    model = head.load("model")(bk.BertEncoder(config), 2)
    model.compile(keras.optimizers.AdamW(1e-3), jit_compile=False)
    return model


def _compute_logits(model: Callable) -> np.ndarray:
    from keras import ops

    return ops.convert_to_numpy(model(_make_features(), training=False)["logits"])


def _load(folder: pathlib.Path) -> str:
    import bert_keras as bk

    model = bk.load(folder)
    return f"{type(model).__name__} with {model.count_params():,} parameters, all finite"


_STAGES = {
    "import TensorFlow": _import_tensorflow,
    "import Keras": _import_keras,
    "tokenize": _tokenize,
    "training step": _train,
    "prediction": _predict,
    "save and load": _save,
    "load": _load,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
