"""Open a model for a worker: an artifact in its engine, or a checkpoint in Keras, and run it until it is warm."""

import contextlib
import os
import time

from bert_keras.engines.artifact_files import Artifact
from bert_keras.engines.cores import count_cores
from bert_keras.engines.engine import FAST_SAVED_MODEL, count_threads
from bert_keras.engines.predictor import Predictor
from bert_keras.errors import InputError
from bert_keras.heads.signatures import TensorSpec
from bert_keras.serving.model_folders import KERAS, ModelSource

_WARM_UP_WORDS = (1, 4, 16, 60, 300)  # per text
_WARM_UP_SECONDS = 5.0  # at most


def open_model(source: ModelSource, artifact: Artifact | None) -> Predictor:
    """Open a model.

    Args:
        source: the model.
        artifact: what `find_model` returned for it.

    Raises:
        InputError: it is damaged.
        MissingExtraError: the engine is not installed.
    """
    if artifact is None:
        _load_tensorflow()
        return Predictor.from_checkpoint(source.path)
    if artifact.engine == "tensorflow":
        for name in FAST_SAVED_MODEL:  # this process changes no weights
            os.environ.setdefault(name, "1")
        _load_tensorflow()
    instances = _choose_instances(source, artifact.engine)
    return Predictor.from_artifact(artifact, threads=source.threads, instances=instances)


def runs_in_calling_thread(source: ModelSource, artifact: Artifact | None) -> bool:
    """Whether the engine computes in the thread that calls it, and starts no threads of its own."""
    if artifact is None or artifact.engine != "onnxruntime":
        return False
    return (source.threads or count_threads(_choose_instances(source, "onnxruntime"))) == 1


def _choose_instances(source: ModelSource, engine: str) -> int:
    """Return the number of batches at the same time: one per core, unless TensorFlow or the threads are chosen."""
    if source.instances is not None:
        return source.instances
    return 1 if engine == "tensorflow" or source.threads is not None else count_cores()


def warm_up(predictor: Predictor) -> None:
    """Answer texts of different lengths, so that the first client does not wait for what happens only once."""
    task = predictor.task
    end = time.monotonic() + _WARM_UP_SECONDS
    for num_words in _WARM_UP_WORDS:
        text = " ".join([task.warm_up_word] * num_words)
        example = task.make_example(*(text for _ in task.input_names))
        for size in (1, 4):
            with contextlib.suppress(InputError):  # too many masks for the model
                predictor.answer([example] * size)
            if time.monotonic() > end:
                return


def describe_model(predictor: Predictor, artifact: Artifact | None) -> dict[str, object]:
    """Return what the server needs to know of a model, as plain values.

    Keys: `task`, `problem`, `labels`, `input_names`, `max_sequence_length` of texts, `max_positions` of token ids,
    `prompts`, `default_prompt_name`, `dimensions` of sentence vectors and their `pooling`, `engine`, `is_quantized`,
    `instances`, `tokens_per_batch`, `vocabulary_size`, and `signatures`: the inputs and the outputs (`TensorSpec`) of
    `serving_default` and of `ids`.
    """
    task = predictor.task
    dimensions = None
    if task.makes_vectors:
        dimensions = len(predictor.answer([task.make_example("a")])[0]["embedding"])
    return {
        "task": task.name,
        "problem": task.problem,
        "labels": list(getattr(task, "labels", ())),
        "input_names": list(task.input_names),
        "max_sequence_length": task.max_sequence_length,
        "max_positions": predictor.engine.max_length or task.max_sequence_length,
        "prompts": dict(getattr(task, "prompts", {})),
        "default_prompt_name": getattr(task, "default_prompt_name", None),
        "dimensions": dimensions,
        "pooling": getattr(task, "pooling", None),
        "engine": KERAS if artifact is None else artifact.engine,
        "is_quantized": artifact is not None and "quantized" in artifact.path.name,
        "instances": predictor.engine.num_instances,
        "tokens_per_batch": predictor.engine.tokens_per_batch,
        "vocabulary_size": predictor.tokenizer.vocabulary_size,
        "signatures": {
            "serving_default": (
                [TensorSpec(name, "string", (-1,)) for name in task.input_names],
                task.describe_signature(dimensions),
            ),
            "ids": (
                [TensorSpec(name, "int32", (-1, -1)) for name in ("input_ids", "attention_mask", "token_type_ids")],
                task.describe_ids_signature(dimensions),
            ),
        },
    }


def _load_tensorflow() -> None:
    from bert_keras.pipelines.quiet_import import import_tensorflow_quietly

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import_tensorflow_quietly()
