"""`bk.finetune`: fine-tune on examples from files or memory, and write a checkpoint folder."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence

import keras
import tensorflow as tf

from bert_keras.checkpoints.adapters.adapter_files import check_rank, select_layers
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.errors import InputError
from bert_keras.extras import check_tensorflow_backend
from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.heads.examples.held_out import check_dev_share
from bert_keras.heads.examples.option_checks import DEV_SHARE, check_keyword_arguments, check_options_of_task
from bert_keras.pipelines.readers.option_spelling import Spell, spell_argument
from bert_keras.publishing import check_writable_folder
from bert_keras.training.backups import NO_BACKUP, BackupOptions, check_no_backup, train_to_folder
from bert_keras.training.config.finetuning_settings import FineTuning
from bert_keras.training.config.settings import list_fields
from bert_keras.training.config.settings_files import FINETUNING_KEYS, resolve_settings
from bert_keras.training.config.sources import upgrade_settings
from bert_keras.training.finetuned_folder import FineTuned
from bert_keras.training.finetuning import LabelTraining, run_finetuning
from bert_keras.training.search.searched_finetuning import (
    Search,
    SearchSpace,
    check_no_trials,
    get_search_folder,
    make_search_space,
    remove_trials,
)
from bert_keras.training.search.settings_search import identify_search, search_settings
from bert_keras.training.strategies import is_chief
from bert_keras.training.tracking.tracked_training import check_verbose, format_answers, track_training
from bert_keras.training.training_data import (
    TASK_SETTINGS,
    TrainingData,
    check_task_name,
    read_training_data_for_checkpoint,
)


def finetune(
    checkpoint: str | os.PathLike | Checkpoint,
    out: str | os.PathLike | None = None,
    *,
    train: object,
    dev: object | None = None,
    task: str = "classify",
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
    search: int | Search | None = None,
    strategy: tf.distribute.Strategy | None = None,
    card_facts: Mapping[str, object] | None = None,
    spell: Spell = spell_argument,
    **settings: object,
) -> FineTuned:
    """Fine-tune a checkpoint on labelled examples, as `bert-keras finetune` does.

    Args:
        checkpoint: any folder that `load` reads, with a vocabulary.
        out: checkpoint folder to write, with `finetuning.toml`, `metrics.json`, `training_log.jsonl` and a model card;
            None = the model is only returned.
        train: the training examples: a path; a list of dicts such as `{"text": ..., "label": ...}`; a list of (text,
            label) pairs; a data frame; or `TrainingData` with held-out examples and a task, without the arguments that
            say how to read examples.
        dev: held-out examples, in the same forms. Default: a share of `train`.
        task: "classify", "tag", "answer" or "embed".
        dev_share: fraction of `train` that is held out without `dev`, in the same proportion for each class.
        on_error: "stop" at bad examples with an error that lists the first ones, or "skip" them.
        overwrite: replace `out` if `finetune` wrote it, and remove the backups of its training unless `resume` is set.
        backup_every: steps between backups, which are written next to `out`; 0 = only when SIGTERM arrives. A search
            records each finished trial instead.
        resume: resume from the newest backup, if there is one.
        allow_changes: resume although settings or examples differ from those of the backup.
        callbacks: passed to `model.fit`.
        listeners: functions that are called with each line of the training log, a dict.
        tensorboard: folder for TensorBoard: curves of training and held-out data, settings, and examples.
        verbose: True = show the progress on standard error; False = do not; "auto" = show a moving bar in notebooks
            and terminals, and nothing in logs.
        search: number of trials with different learning rates, batch sizes and regularization, of which the best is
            returned; the arguments that you give are not varied. Trials in the lower half after epoch 1, 2, 4, ... stop
            early. None = one training with the given settings. Needs the extra `search`.
        strategy: any `tf.distribute` strategy. Default: one device.
        card_facts: what the model card lists about the training. Default: the data and the main settings.
        spell: how error messages name an option; the command line passes `spell_flag`.
        **settings: fields of `FineTuning` (`num_epochs`, `learning_rate`, `batch_size`, `seed`, ...), of `FileOptions`
            (`text_column`, `label_column`, `delimiter`, ...) and of the task (`problem`, `max_sequence_length`, ...).

    Returns:
        The `model` with the weights of its best epoch, `scores`, `epochs`, and `data`: the examples, how they were held
        out, how many were skipped, and warnings about them. With `search`, `trials` has the results of all trials and
        `settings` those of the best.

    Raises:
        InputError: data, settings or folders cannot be used, or the loss became infinite or NaN. If `out` cannot be
            written after the training, the model is written next to it or to the system's temporary folder, and the
            message says where.
        InterruptedTrainingError: SIGTERM arrived, and the state was written.

    Example:
        >>> reviews = [(f"a fine film, number {n}", "good") for n in range(10)]
        >>> reviews += [(f"a waste of time, number {n}", "bad") for n in range(10)]
        >>> tuned = bk.finetune("demo/pretrained", "my/reviews", train=reviews, num_epochs=1)
        >>> list(tuned.scores), len(tuned.data.dev)
        (['accuracy', 'macro_f1', 'micro_f1', 'matthews', 'loss'], 2)
    """
    check_tensorflow_backend("bk.finetune")
    settings = upgrade_settings(settings)
    training, file_options, task_settings = split_settings(settings, "finetune", FineTuning, (*TASK_SETTINGS, "prompt"))
    check_task_name(task)
    check_options_of_task(settings, task, problem=settings.get("problem"))
    fine_tuning = FineTuning(**training)
    check_dev_share(dev_share)
    check_verbose(verbose)
    strategy = strategy or tf.distribute.get_strategy()
    if search is not None:
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):  # each would choose trials of its own
            raise InputError(
                "a search runs on one machine, and the strategy has several workers: search with one device or "
                "MirroredStrategy, then train with the settings of the best trial"
            )
        if not isinstance(search, Search):  # the settings that the caller gave stay as they are
            search = Search(search, fixed=sorted(settings.keys() & set(list_fields(FineTuning))))
    if out is not None:
        paths = [path for path in (checkpoint, train, dev) if isinstance(path, str | os.PathLike)]
        check_writable_folder(out, "finetune", overwrite=overwrite, inputs=paths)
        found = {"resume": resume, "overwrite": overwrite, "spell": spell}
        check_no_backup(out, **found)
        check_no_trials(out, has_search=search is not None, **found)
    checkpoint = read_checkpoint(checkpoint)
    if fine_tuning.lora_rank is not None:
        check_rank(fine_tuning.lora_rank, checkpoint)
    if isinstance(train, TrainingData):
        if dev is not None or task_settings or file_options != FileOptions():
            raise InputError("train is TrainingData; expected no arguments that say how to read examples: remove them")
        data = train
    else:
        reading = {"dev_share": dev_share, "seed": fine_tuning.seed, "on_error": on_error, "spell": spell}
        data = read_training_data_for_checkpoint(checkpoint, task, train, dev, file_options, **reading, **task_settings)
    if fine_tuning.lora_rank is not None:  # so that no search starts that cannot train
        select_layers(data.task.head.model_name, checkpoint, fine_tuning.frozen_blocks or 0)
    space = None
    if search is not None:
        space = make_search_space(
            fine_tuning,
            hidden_dim=checkpoint.config.hidden_dim,
            num_sequences=len(data.train),
            fixed=search.fixed,
            batch_multiple=strategy.num_replicas_in_sync * fine_tuning.accumulation_steps,
        )
    run = FineTuningRun(
        checkpoint, data, fine_tuning, strategy, callbacks, listeners, tensorboard, verbose, search, space
    )

    def write(tuned: FineTuned, folder: str | os.PathLike) -> None:
        tuned.save(folder, start=checkpoint, card_facts=card_facts, overwrite=overwrite)

    trials = None if out is None else get_search_folder(out)

    def train_all(backup: BackupOptions) -> FineTuned:
        if overwrite and not resume:
            remove_trials(trials)
        return run.train(backup, trials)

    backup = BackupOptions(every_steps=backup_every, resume=resume, allow_changes=allow_changes, spell=spell)
    tuned = train_to_folder(out, train_all, write, backup, overwrite=overwrite, is_chief=is_chief(strategy))
    remove_trials(trials)
    return tuned


@dataclasses.dataclass(frozen=True)
class FineTuningRun:
    """What `finetune` trains: once, or once for each trial of a search; see `finetune` for the fields.

    Attributes:
        method: see `run_finetuning`.
        keys: the settings that TensorBoard shows.
    """

    checkpoint: Checkpoint
    data: TrainingData
    settings: FineTuning
    strategy: tf.distribute.Strategy
    callbacks: Sequence[keras.callbacks.Callback]
    listeners: Sequence[Callable[[dict], None]]
    tensorboard: str | os.PathLike | None
    verbose: bool | str
    search: Search | None = None
    space: SearchSpace | None = None
    method: LabelTraining | None = None
    keys: Sequence[str] = FINETUNING_KEYS

    def train(self, backup: BackupOptions, trials: pathlib.Path | None = None) -> FineTuned:
        """Train, and return the model; trials of a search are recorded in the folder `trials`."""
        if self.search is None:
            return self.train_once(self.settings, self.tensorboard, backup=backup)

        def train_trial(settings: FineTuning, number: int, callback: keras.callbacks.Callback) -> FineTuned:
            folder = None if self.tensorboard is None else os.path.join(self.tensorboard, f"trial-{number:03}")
            return self.train_once(settings, folder, callback)

        return search_settings(
            train_trial,
            self.search,
            self.space,
            folder=trials,
            backup=backup,
            main_score=self.data.task.main_score,
            identity={} if trials is None else identify_search(self.space, self.checkpoint, self.data),
        )

    def train_once(
        self,
        settings: FineTuning,
        tensorboard: str | os.PathLike | None,
        *more: keras.callbacks.Callback,
        backup: BackupOptions = NO_BACKUP,
    ) -> FineTuned:
        """Train with some settings, and show it: a progress bar, and curves, scores and examples in TensorBoard."""
        shown = {"tensorboard": tensorboard, "verbose": self.verbose, "is_chief": is_chief(self.strategy)}
        with track_training(self.callbacks, self.listeners, **shown) as (callbacks, listeners, log):
            if log is not None:
                log.write_settings(resolve_settings(self.data.reading, self.data.task, settings, self.keys))
            tuned = run_finetuning(
                self.data.task,
                self.checkpoint,
                self.data.train,
                self.data.dev,
                settings,
                callbacks=[*callbacks, *more],
                listeners=listeners,
                strategy=self.strategy,
                backup=backup,
                method=self.method,
            )
            if log is not None:
                log.write_scores(tuned.scores)
                log.write_text("held-out examples", format_answers(tuned.task, self.data.dev, tuned.answers))
        return dataclasses.replace(tuned, data=self.data)


def split_settings(
    settings: Mapping[str, object], function: str, training: type, others: Sequence[str]
) -> tuple[dict[str, object], FileOptions, dict[str, object]]:
    """Split keyword arguments into the settings of the training, of the files and of the task.

    Args:
        settings: the keyword arguments.
        function: name of the function that they were given to, for the message.
        training: class of the settings of the training.
        others: names of the settings of the task.

    Raises:
        InputError: a setting is unknown.
    """
    groups = (list_fields(training), list_fields(FileOptions), tuple(others))
    check_keyword_arguments(settings, sum(groups, ()), function)
    first, files, last = ({name: value for name, value in settings.items() if name in group} for group in groups)
    return first, FileOptions(**files), last
