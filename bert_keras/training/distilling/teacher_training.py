"""`TeacherTraining`: fine-tune a student on the outputs of its teacher; the checkpoint and the scores that it needs."""

import dataclasses
from collections.abc import Sequence

import keras
import numpy as np

from bert_keras.checkpoints.building import build_model
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.loading import load_tokenizer
from bert_keras.checkpoints.students import compute_principal_components
from bert_keras.features import IGNORED_LABEL
from bert_keras.modeling.distillation import NO_LABEL, Distiller
from bert_keras.pipelines.batches.encoding import EncodedSequences
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.tasks.base import LabelledSequences, Task, encode_labels
from bert_keras.tasks.engines.keras_engine import KerasEngine
from bert_keras.tasks.examples.distillation_data import DistillationData
from bert_keras.tasks.kept_tokens import choose_tokens, trim_checkpoint
from bert_keras.tasks.sequence_runner import SequenceRunner
from bert_keras.tasks.text_classification import compute_balanced_weights
from bert_keras.training.config.finetuning_settings import Distillation
from bert_keras.training.distilling.student_start import start_student
from bert_keras.training.finetuning import LabelTraining, digest_examples
from bert_keras.training.resuming import digest_weights


class TeacherTraining(LabelTraining):
    """Train a student on labels and on what its teacher computes.

    The teacher's outputs for whole sequences are computed once, before the training. Hidden states and attention would
    take gigabytes; outputs for tokens would fit, but batches have no place for float labels of tokens. These are
    computed in each step.

    Args:
        teacher: the checkpoint of the teacher.
        tokenizer: the tokenizer of the student, whose vocabulary is that of the teacher or a part of it.
        data: the examples.
        settings: the settings of the run.

    Attributes:
        teacher_model: the teacher, once the model was built.
    """

    def __init__(self, teacher: Checkpoint, tokenizer: BertTokenizer, data: DistillationData, settings: Distillation):
        self._checkpoint = teacher
        self._data = data
        self._settings = settings
        self._token_ids = find_teacher_ids(tokenizer, teacher)
        self._width = 0  # of the student's sentence vectors
        self.teacher_model: keras.Model | None = None

    def build_model(self, task: Task, checkpoint: Checkpoint, settings: Distillation) -> Distiller:
        """Build student and teacher."""
        student = super().build_model(task, checkpoint, settings)
        self._width = student.compute_output_shape().get("embedding", (None, 0))[-1]
        self.teacher_model = build_model(self._checkpoint)
        compares_layers = settings.hidden_weight > 0 or settings.attention_weight > 0
        return Distiller(
            student,
            self.teacher_model if compares_layers or task.is_token_level else None,
            temperature=settings.temperature,
            label_weight=settings.label_weight if self._data.num_labelled else 0.0,
            hidden_weight=settings.hidden_weight,
            attention_weight=settings.attention_weight,
            teacher_ids=self._token_ids,
        )

    def get_result(self, model: Distiller) -> keras.Model:
        """Return the student."""
        return model.student

    def add_labels(self, task: Task, sequences: EncodedSequences, examples: Sequence) -> LabelledSequences:
        """Add the labels, and the outputs of the teacher unless they are computed in each step."""
        labelled = add_known_labels(task, sequences, examples, self._data.num_labelled)
        if task.is_token_level:
            return labelled
        outputs = self._compute_outputs(sequences)
        if task.makes_vectors:
            outputs = {"embedding": fit_width(outputs["embedding"], self._width, normalize=task.normalize)}
        teacher_outputs = {f"teacher_{name}": values for name, values in outputs.items()}
        return dataclasses.replace(labelled, labels={"labels": labelled.labels, **teacher_outputs})

    def loss(self, task: Task) -> str:
        """Return the losses of the `Distiller`."""
        return "auto"

    def identify(self) -> dict[str, object]:
        """Return the digests of the teacher's weights and of the held-out examples as they were read."""
        held_out = list(self._data.dev)
        if not self._data.is_dev_labelled:  # the teacher's cosines depend on the number of threads
            held_out = [pair._replace(label=None) for pair in held_out]
        digest = digest_examples(held_out)
        return {"the teacher": digest_weights(self.teacher_model), "the held-out examples": digest}

    def _compute_outputs(self, sequences: EncodedSequences) -> dict[str, np.ndarray]:
        if self._token_ids is not None:
            sequences = dataclasses.replace(
                sequences,
                token_ids=self._token_ids[sequences.token_ids],
                pad_id=int(self._token_ids[sequences.pad_id]),
            )
        return SequenceRunner(KerasEngine(self.teacher_model), is_token_level=False)(sequences)


def make_student_checkpoint(
    teacher: Checkpoint, task: Task, settings: Distillation, examples: Sequence
) -> tuple[Checkpoint, str]:
    """Return the checkpoint of a student, and a description; a trimmed vocabulary has the tokens of the examples.

    Raises:
        InputError: see `start_student`.
    """
    student, description = start_student(teacher, settings)
    if settings.trim_vocabulary:
        texts = (text for example in examples for text in task.list_texts(example))
        kept = choose_tokens(load_tokenizer(student), task, texts, ["the training examples"])
        student = trim_checkpoint(student, kept.vocabulary)
        description += f"; {len(kept.vocabulary):,} of {teacher.config.vocabulary_size:,} tokens"
    return student, description


def score_teacher(data: DistillationData, teacher: Checkpoint) -> DistillationData:
    """Return the data of a distillation with the scores of the teacher.

    The teacher computes in float32. If the held-out pairs of an embedder have no labels, its cosines become their
    scores.

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


def add_known_labels(
    task: Task, sequences: EncodedSequences, examples: Sequence, num_labelled: int
) -> LabelledSequences:
    """Add the labels of the first `num_labelled` examples, and mark those of the others as unknown.

    Args:
        task: the task; `class_weights` count and weight labelled examples only.
        sequences: all examples, encoded.
        examples: all examples.
        num_labelled: number of labelled examples.
    """
    if num_labelled == len(examples):
        return task.add_labels(sequences, examples)
    if getattr(task, "class_weights", None) == "balanced":
        equal = dataclasses.replace(task, class_weights="equal")
        labelled = add_known_labels(equal, sequences, examples, num_labelled)
        weights = np.ones(len(examples))
        targets = encode_labels([example.label for example in examples[:num_labelled]], task.labels)
        weights[:num_labelled] = compute_balanced_weights(targets, len(task.labels))
        weights = weights[sequences.examples] * (1.0 if labelled.weights is None else labelled.weights)
        return dataclasses.replace(labelled, weights=weights.astype(np.float32))
    unlabelled = [task.fill_label(example) for example in examples[num_labelled:]]
    labelled = task.add_labels(sequences, [*examples[:num_labelled], *unlabelled])
    is_unknown = sequences.examples >= num_labelled * labelled.group_size
    if labelled.token_labels is not None:
        of_token = np.repeat(is_unknown, sequences.lengths) & (labelled.token_labels != IGNORED_LABEL)
        return dataclasses.replace(labelled, token_labels=_mark_unknown(labelled.token_labels, of_token))
    labels = keras.tree.map_structure(lambda values: _mark_unknown(values, is_unknown), labelled.labels)
    return dataclasses.replace(labelled, labels=labels)


def _mark_unknown(labels: np.ndarray, is_unknown: np.ndarray) -> np.ndarray:
    labels = labels.copy()
    labels[is_unknown] = np.nan if np.issubdtype(labels.dtype, np.floating) else NO_LABEL
    return labels


def find_teacher_ids(tokenizer: BertTokenizer, teacher: Checkpoint) -> np.ndarray | None:
    """Return the id `(V,)` of each token in the vocabulary of the teacher; None: the vocabularies are equal."""
    vocabulary = tuple(teacher.tokenizer_settings["vocabulary"])
    if tuple(tokenizer.vocabulary) == vocabulary:
        return None
    ids = {token: token_id for token_id, token in enumerate(vocabulary)}
    return np.array([ids[token] for token in tokenizer.vocabulary], np.int32)


def fit_width(vectors: np.ndarray, width: int, *, normalize: bool) -> np.ndarray:
    """Return vectors `(N, D)` with another width that keep their dot products as well as possible.

    Narrower vectors are projections on the principal components, as in sentence-transformers' examples of
    distillation; wider ones have zeros at the end.

    Args:
        vectors: the vectors.
        width: the width of the result.
        normalize: whether the vectors have length 1, and should have it again.
    """
    if vectors.shape[1] == width:
        return vectors
    fitted = vectors.astype(np.float64) @ compute_principal_components(vectors, width, centred=False)
    if normalize:
        fitted /= np.maximum(np.linalg.norm(fitted, axis=1, keepdims=True), 1e-12)
    return fitted.astype(np.float32)
