"""`bk.distill`: train a small student on the outputs of a fine-tuned teacher, and write a checkpoint folder."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from bert_keras.architectures.distillation import NO_LABEL, Distiller
from bert_keras.checkpoints.building import build_model
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.kept_tokens import choose_tokens, trim_checkpoint
from bert_keras.checkpoints.loading import load_tokenizer
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.checkpoints.students import compute_principal_components
from bert_keras.config import PRESETS
from bert_keras.engines.keras_engine import KerasEngine
from bert_keras.engines.sequence_runner import SequenceRunner
from bert_keras.errors import InputError
from bert_keras.extras import check_tensorflow_backend
from bert_keras.features import IGNORED_LABEL
from bert_keras.heads.classify.task import compute_balanced_weights
from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.heads.examples.held_out import check_dev_share
from bert_keras.heads.examples.option_checks import DEV_SHARE, check_options_of_task
from bert_keras.heads.task import LabelledSequences, Task, encode_labels
from bert_keras.pipelines.batches.encoding import EncodedSequences
from bert_keras.pipelines.readers.option_spelling import Spell, spell_argument
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.publishing import check_writable_folder
from bert_keras.training.backups import BackupOptions, check_no_backup, train_to_folder
from bert_keras.training.config.finetuning_settings import Distillation
from bert_keras.training.config.settings_files import DISTILLATION_FILE, DISTILLATION_KEYS
from bert_keras.training.config.sources import upgrade_settings
from bert_keras.training.distilling.distillation_data import (
    DistillationData,
    check_task_of_teacher,
    read_distillation_data,
    read_teacher_task,
)
from bert_keras.training.distilling.student_start import start_student
from bert_keras.training.finetuned_folder import FineTuned
from bert_keras.training.finetuning import LabelTraining, digest_examples
from bert_keras.training.finetuning_to_folder import FineTuningRun, split_settings
from bert_keras.training.fitting import digest_weights
from bert_keras.training.strategies import is_chief
from bert_keras.training.tracking.tracked_training import check_verbose

_LENGTHS = ("max_sequence_length", "window_overlap")


class TeacherTraining(LabelTraining):
    """Train a student on labels and on what its teacher computes.

    The teacher's outputs for whole sequences are computed once, before the training. Hidden states and attention would
    take gigabytes; outputs for tokens would fit, but batches have no place for float labels of tokens. These are
    computed in each step.

    Args:
        teacher: the checkpoint of the teacher.
        tokenizer: the tokenizer of the student, whose vocabulary is that of the teacher or a part of it.
        data: the examples.

    Attributes:
        teacher_model: the teacher, once the model was built.
    """

    def __init__(self, teacher: Checkpoint, tokenizer: BertTokenizer, data: DistillationData):
        self._checkpoint = teacher
        self._data = data
        vocabulary = tuple(teacher.tokenizer_settings["vocabulary"])
        self._token_ids: np.ndarray | None = None  # (V,), of each token in the teacher's vocabulary, if it is another
        if tuple(tokenizer.vocabulary) != vocabulary:
            ids = {token: token_id for token_id, token in enumerate(vocabulary)}
            self._token_ids = np.array([ids[token] for token in tokenizer.vocabulary], np.int32)
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
        if self._token_ids is not None:
            ids, pad_id = self._token_ids[sequences.token_ids], int(self._token_ids[sequences.pad_id])
            sequences = dataclasses.replace(sequences, token_ids=ids, pad_id=pad_id)
        outputs = SequenceRunner(KerasEngine(self.teacher_model), is_token_level=False)(sequences)
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


@dataclasses.dataclass(frozen=True, eq=False)
class Distilled(FineTuned):
    """The result of a distillation run: a fine-tuned student, and its teacher.

    Attributes:
        teacher_scores: the scores of the teacher on the held-out examples, keyed by name.
        teacher_size: the number of parameters of the teacher.
        student: where the student's first weights are from.
    """

    command = "distill"
    title = "How it was distilled"
    settings_file = DISTILLATION_FILE
    settings_keys = DISTILLATION_KEYS

    teacher_scores: Mapping[str, float] = dataclasses.field(default_factory=dict)
    teacher_size: int = 0
    student: str = ""

    @property
    def ratio(self) -> float | None:
        """The main score of the student, divided by that of the teacher; None if that is not positive."""
        name = self.task.main_score
        theirs = self.teacher_scores[name]
        return self.scores[name] / theirs if theirs > 0 else None

    def compare(self) -> Sequence[tuple[str, int, float]]:
        """Return the name, the number of parameters and the main score of both models."""
        name = self.task.main_score
        return [
            ("teacher", self.teacher_size, self.teacher_scores[name]),
            ("student", self.model.count_params(), self.scores[name]),
        ]

    def collect_metrics(self) -> dict[str, object]:
        """Return the contents of `metrics.json`: those of a fine-tuning, and the sizes and scores of both models."""
        teacher = {"scores": dict(self.teacher_scores), "parameters": self.teacher_size}
        sizes = {"parameters": self.model.count_params(), "teacher": teacher, "ratio": self.ratio}
        return {**super().collect_metrics(), **sizes}

    def list_facts(self, start: Checkpoint, given: Mapping[str, object] | None) -> dict[str, object]:
        """Return what the model card says about the training, see `FineTuned.list_facts`; `start` is the teacher."""
        teacher = {"teacher": str(start)} if given is None else {}
        return {**teacher, **super().list_facts(start, given), "student": self.student}

    def list_remarks(self) -> list[str]:
        """Return the paragraphs of the model card after the scores."""
        name, [(_, theirs, their_score), (_, ours, score)] = self.task.main_score, self.compare()
        remarks = [
            f"The teacher has {theirs:,} parameters and {name} {their_score:.4g}; this model {ours:,} and {score:.4g}."
        ]
        if not self.data.is_dev_labelled:
            remarks.append(
                "The held-out examples have no labels: these scores compare with the answers of the teacher."
            )
        return remarks


def distill(
    teacher: str | os.PathLike | Checkpoint,
    out: str | os.PathLike | None = None,
    *,
    train: object | None = None,
    dev: object | None = None,
    unlabelled: object | None = None,
    dev_share: float = DEV_SHARE,
    on_error: str = "stop",
    overwrite: bool = False,
    backup_every: int = 0,
    resume: bool = False,
    allow_changes: bool = False,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    listeners: Sequence[Callable[[dict], None]] = (),
    tensorboard: str | os.PathLike | None = None,
    verbose: bool | str = "auto",
    strategy: tf.distribute.Strategy | None = None,
    card_facts: Mapping[str, object] | None = None,
    spell: Spell = spell_argument,
    **settings: object,
) -> Distilled:
    """Train a small student on the outputs of a fine-tuned teacher, as `bert-keras distill` does.

    Args:
        teacher: any folder that `load` reads, with a task head and a vocabulary, such as one of `finetune`. The student
            has its task, labels and lengths.
        out: checkpoint folder to write, with `distillation.toml`, `metrics.json`, `training_log.jsonl` and a model
            card; None = the student is only returned.
        train: labelled examples, in the forms of `finetune`; or `DistillationData`. May be left out with `unlabelled`.
        dev: held-out examples with labels, in the same forms. Default: a share of `train`. With neither, an embedder is
            compared with its teacher on a share of `unlabelled`; other tasks are refused.
        unlabelled: examples without labels: a path, or a list of texts, of pairs (tuples), or of lists of words.
        dev_share: fraction of `train`, or of an embedder's `unlabelled`, that is held out without `dev`.
        on_error: "stop" at bad examples with an error that lists the first ones, or "skip" them.
        overwrite: replace `out` if `distill` wrote it, and remove the backups of its training unless `resume` is set.
        backup_every, resume, allow_changes, callbacks, listeners, tensorboard, verbose, strategy: as in `finetune`.
        card_facts: what the model card lists about the training. Default: the data and the main settings.
        spell: how error messages name an option; the command line passes `spell_flag`.
        **settings: fields of `Distillation` (`num_layers`, `student`, `temperature`, `num_epochs`, ...), of
            `FileOptions` (`text_column`, ...), `max_sequence_length` and `window_overlap`.

    Returns:
        What `finetune` returns, for the student; with `teacher_scores` on the same held-out examples, `teacher_size`
        (parameters) and `ratio` (the student's main score divided by the teacher's).

    Raises:
        InputError: the teacher has no task, the student does not fit the teacher, data, settings or folders cannot be
            used, or the loss became infinite or NaN. If `out` cannot be written after the training, the message says
            where the model is.
        InterruptedTrainingError: SIGTERM arrived, and the state was written.

    Example:
        >>> examples = [(f"The with statement wraps block {n}.", "language") for n in range(8)]
        >>> examples += [(f"Open socket number {n}.", "network") for n in range(8)]
        >>> distilled = bk.distill("demo/classifier", "my/small", train=examples, num_layers=1, num_epochs=1)
        >>> distilled.model.encoder.config.num_layers, list(distilled.teacher_scores)[0]
        (1, 'accuracy')
    """
    check_tensorflow_backend("bk.distill")
    settings = upgrade_settings(settings)
    training, file_options, lengths = split_settings(settings, "distill", Distillation, _LENGTHS)
    if isinstance(training.get("student"), os.PathLike):
        training["student"] = os.fspath(training["student"])
    distillation = Distillation(**training)
    check_dev_share(dev_share)
    check_verbose(verbose)
    strategy = strategy or tf.distribute.get_strategy()
    if out is not None:
        student_folder = None if distillation.student in PRESETS else distillation.student
        given = (teacher, train, dev, unlabelled, student_folder)
        paths = [path for path in given if isinstance(path, str | os.PathLike)]
        check_writable_folder(out, "distill", overwrite=overwrite, inputs=paths)
        check_no_backup(out, resume=resume, overwrite=overwrite, spell=spell)
    teacher = read_checkpoint(teacher)
    task = read_teacher_task(teacher, **lengths)
    start_student(teacher, distillation)  # before the examples are read, which may take long
    if isinstance(train, DistillationData):
        data = train
        reads = file_options != FileOptions() or on_error != "stop" or dev_share != DEV_SHARE
        if dev is not None or unlabelled is not None or lengths or reads:
            raise InputError(
                "train is DistillationData; expected no arguments that say how to read examples: remove them"
            )
        check_task_of_teacher(data.task, task)
    else:
        check_options_of_task(settings, task.name, problem=task.problem)
        reading = {"dev_share": dev_share, "seed": distillation.seed, "on_error": on_error, "spell": spell}
        data = read_distillation_data(task, train, dev, unlabelled, file_options, **reading)
    student, description = make_student_checkpoint(teacher, data.task, distillation, data.train)
    if data.teacher is not teacher:
        data = score_teacher(data, teacher)
    method = TeacherTraining(teacher, load_tokenizer(student), data)
    from_teacher = {"teacher_scores": data.teacher_scores, "teacher_size": data.teacher_size, "student": description}
    tracking = (strategy, callbacks, listeners, tensorboard, verbose)
    run = FineTuningRun(student, data, distillation, *tracking, method=method, keys=DISTILLATION_KEYS)

    def train_all(backup: BackupOptions) -> Distilled:
        return Distilled(**vars(run.train(backup)), **from_teacher)

    def write(distilled: Distilled, folder: str | os.PathLike) -> None:
        distilled.save(folder, start=teacher, card_facts=card_facts, overwrite=overwrite)

    backup = BackupOptions(every_steps=backup_every, resume=resume, allow_changes=allow_changes, spell=spell)
    return train_to_folder(out, train_all, write, backup, overwrite=overwrite, is_chief=is_chief(strategy))
