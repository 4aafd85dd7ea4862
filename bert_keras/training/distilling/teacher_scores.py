"""Score a teacher on held-out examples, before its student is trained."""

import dataclasses

from bert_keras.checkpoints.building import build_model
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.loading import load_tokenizer
from bert_keras.tasks.engines.keras_engine import KerasEngine
from bert_keras.tasks.examples.distillation_data import DistillationData
from bert_keras.tasks.sequence_runner import SequenceRunner


def score_teacher(data: DistillationData, teacher: Checkpoint) -> DistillationData:
    """Return the data of a distillation with the scores of the teacher.

    The teacher computes in float32. If the held-out pairs of an embedder have no labels, its cosines become their
    scores.

    Args:
        data: the data.
        teacher: the checkpoint of the teacher.

    Raises:
        InputError: the teacher outputs NaN or infinity.
    """
    task = data.task.with_length(min(data.task.max_sequence_length, teacher.config.max_sequence_length))
    model, dev = build_model(teacher), data.dev
    sequences = task.encode(load_tokenizer(teacher), dev)
    outputs = SequenceRunner(KerasEngine(model), is_token_level=task.is_token_level)(sequences)
    answers = task.decode(sequences, outputs, dev)
    if not data.is_dev_labelled:
        dev = [
            pair._replace(label=answer["cosine"] * task.highest_score)
            for pair, answer in zip(dev, answers, strict=True)
        ]
    calibrated = task.calibrate(answers, dev)
    scores = calibrated.score(calibrated.apply_calibration(answers), dev)
    size = model.count_params()
    return dataclasses.replace(data, dev=dev, teacher=teacher, teacher_scores=scores, teacher_size=size)


def get_identity(data: DistillationData) -> list:
    """Return the held-out examples as they were read.

    Cosines of the teacher depend on the number of threads, so a training that is resumed does not compare them.
    """
    return list(data.dev) if data.is_dev_labelled else [pair._replace(label=None) for pair in data.dev]
