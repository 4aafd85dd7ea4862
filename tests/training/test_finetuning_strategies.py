"""Fine-tuning on several devices, in micro-batches or resumed gives the result of one device without interruption."""

import dataclasses
import pathlib
import shutil
import signal

import keras
import pytest

import bert_keras as bk
from bert_keras.errors import InputError, InterruptedTrainingError
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.training import run_finetuning
from bert_keras.training.backups import BackupFolder, BackupOptions
from tests.marks import slow_except
from tests.training.finetune_tiny import SETTINGS, TASKS, make_report
from tests.training.processes import finish, start

NUM_STEPS = {"classify": 24, "tag": 30, "answer": 27, "embed": 25}
TOLERANCE = 2e-6  # measured: 2.4e-7 of losses, 1.9e-7 of scores
STEPS_AN_EPOCH = 8


@pytest.fixture(scope="module")
def backups(tmp_path_factory):
    """Folder with a backup of the classification every four steps."""
    return tmp_path_factory.mktemp("kept") / "backups"


@pytest.fixture(scope="module")
def one_device(tiny_encoder, backups):
    """The classification on one device."""
    return make_report(
        "classify", tiny_encoder, backup=BackupOptions(BackupFolder(backups, num_kept=99), every_steps=4)
    )


@pytest.fixture(scope="module")
def other_tasks(tiny_encoder):
    """The other fine-tunings on one device, keyed by task."""
    return {name: make_report(name, tiny_encoder) for name in TASKS if name != "classify"}


def assert_same_training(ours: dict, theirs: dict, task: str) -> None:
    assert len(theirs["losses"]) == NUM_STEPS[task]
    assert ours["losses"] == pytest.approx(theirs["losses"], abs=TOLERANCE)
    assert ours["best"] == theirs["best"]
    ours, theirs = ([report["scores"], *report["epochs"]] for report in (ours, theirs))
    for our_scores, their_scores in zip(ours, theirs, strict=True):
        assert our_scores == pytest.approx(their_scores, abs=TOLERANCE)


def test_texts_are_learned_from_a_few_examples(one_device):
    assert one_device["losses"][-1] < 0.9 * one_device["losses"][0]


@pytest.mark.slow
def test_every_other_task_is_learned_from_a_few_examples(other_tasks):
    for task, report in other_tasks.items():
        assert report["losses"][-1] < 0.9 * report["losses"][0], task
    assert other_tasks["tag"]["scores"]["f1"] == 1.0
    assert other_tasks["answer"]["scores"]["f1"] == 100.0
    assert other_tasks["embed"]["scores"]["spearman"] > 0.5


@pytest.fixture(scope="module")
def mirrored(tiny_encoder, tmp_path_factory):
    """The fine-tunings on several devices, in one process."""
    out = tmp_path_factory.mktemp("mirrored") / "out.json"
    return finish(start("finetune_tiny.py", tiny_encoder, out, "classify:4", "tag:2:2", "answer:2", "embed:2:2"), out)


@pytest.mark.slow  # test_equal_gradients.py trains on two devices with two micro-batches too
def test_two_devices_with_two_micro_batches_fine_tune_as_one(one_device, tiny_encoder, tmp_path):
    report = finish(start("finetune_tiny.py", tiny_encoder, tmp_path / "out", "classify:2:2"), tmp_path / "out")
    assert_same_training(report["classify"], one_device, "classify")


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_devices_and_micro_batches_fine_tune_as_one_device(task, one_device, other_tasks, mirrored):
    assert_same_training(mirrored[task], {**other_tasks, "classify": one_device}[task], task)


@pytest.mark.slow
def test_micro_batches_and_gradient_checkpointing_change_nothing(one_device, tiny_encoder):
    sparing = dataclasses.replace(SETTINGS, accumulation_steps=2, gradient_checkpointing=True)
    assert_same_training(make_report("classify", tiny_encoder, sparing), one_device, "classify")


@pytest.mark.slow  # test_strategies.py trains with two workers too
def test_two_workers_fine_tune_as_one(one_device, tiny_encoder, two_workers, tmp_path):
    chief, other = two_workers("finetune_tiny.py", tiny_encoder, tmp_path / "out.json", "classify")
    report = finish(chief, tmp_path / "out.json")["classify"]
    other.communicate(timeout=60)
    assert other.returncode == 0
    assert_same_training(report, one_device, "classify")


def assert_same_end(again: dict, uninterrupted: dict, num_done: int) -> None:
    """Assert that a resumed fine-tuning ended with the same bits."""
    assert again["losses"] == uninterrupted["losses"][num_done:]
    for name in ("weights", "scores", "epochs", "best", "log"):
        assert again[name] == uninterrupted[name], name


def copy_backup(step: int, backups: pathlib.Path, folder: pathlib.Path) -> BackupFolder:
    """Return a folder with only this backup."""
    shutil.copytree(backups / f"step-{step:09}", folder / f"step-{step:09}")
    return BackupFolder(folder)


def test_a_fine_tuning_resumed_within_an_epoch_ends_with_the_same_bits(one_device, tiny_encoder, backups, tmp_path):
    step = 12
    assert step % STEPS_AN_EPOCH
    assert one_device["best"] == 0  # so the best weights come out of the backup
    backup = BackupOptions(copy_backup(step, backups, tmp_path), resume=True)
    assert_same_end(make_report("classify", tiny_encoder, backup=backup), one_device, step)


@pytest.mark.slow
def test_a_fine_tuning_resumed_between_epochs_ends_with_the_same_bits(one_device, tiny_encoder, backups, tmp_path):
    uninterrupted, step = one_device, 2 * STEPS_AN_EPOCH
    assert uninterrupted["best"] == 0  # so the best weights come out of the backup
    assert len(uninterrupted["epochs"]) == 3 < SETTINGS.num_epochs  # and patience ends both
    backup = BackupOptions(copy_backup(step, backups, tmp_path), resume=True)
    assert_same_end(make_report("classify", tiny_encoder, backup=backup), uninterrupted, step)


class StopAfter(keras.callbacks.Callback):
    """Send SIGTERM after some steps."""

    def __init__(self, num_steps: int):
        super().__init__()
        self._left = num_steps

    def on_train_batch_end(self, batch, logs=None):
        self._left -= 1
        if not self._left:
            signal.raise_signal(signal.SIGTERM)


@pytest.mark.slow
def test_a_fine_tuning_stopped_within_an_epoch_resumes_bit_for_bit(one_device, tiny_encoder, tmp_path):
    backups = BackupFolder(tmp_path / "backups")
    task, examples = TASKS["classify"]()
    with pytest.raises(InterruptedTrainingError, match="training was stopped at step 11"):
        run_finetuning(
            task,
            tiny_encoder,
            examples,
            examples[::5],
            SETTINGS,
            callbacks=[StopAfter(11)],
            backup=BackupOptions(backups),
        )
    assert backups.steps() == [11]
    again = make_report("classify", tiny_encoder, backup=BackupOptions(backups, resume=True))
    assert_same_end(again, one_device, 11)


@pytest.fixture
def encoder_like(tiny_encoder, story_tokenizer, tmp_path):
    """Function that writes the tiny encoder with another tokenizer, other weights, or another setting."""

    def make(tokenizer: BertTokenizer = story_tokenizer, shift: float = 0.0, **config) -> pathlib.Path:
        encoder = bk.load(tiny_encoder)
        changed = bk.BertEncoder(dataclasses.replace(encoder.config, **config))
        changed.set_weights([weight + shift for weight in encoder.get_weights()])
        bk.save(changed, tokenizer, tmp_path / "like", overwrite=True)
        return tmp_path / "like"

    return make


def resume(backups, folder, checkpoint, settings=SETTINGS, name="classify", allow_changes=False, **changes):
    """Resume from the backup of step 20, with changes of the task, `train` or `dev`."""
    task, examples = TASKS[name]()
    train, dev = changes.pop("train", examples), changes.pop("dev", examples[::5])
    backup = BackupOptions(copy_backup(20, backups, folder / "some"), resume=True, allow_changes=allow_changes)
    return run_finetuning(dataclasses.replace(task, **changes), checkpoint, train, dev, settings, backup=backup)


EXAMPLES = TASKS["classify"]()[1]
RELABELLED = [EXAMPLES[0]._replace(label="dog"), *EXAMPLES[1:]]
CHANGES = {
    "a setting": (
        {"settings": dataclasses.replace(SETTINGS, learning_rate=0.02)},
        r"learning_rate was 0\.01 and is 0\.02",
    ),
    "a setting of the task": ({"class_weights": "balanced"}, r"task\.class_weights was equal and is balanced"),
    "the order of the labels": (
        {"labels": ("none", "dog", "cat")},
        r"task\.labels was \['none', 'cat', 'dog'\] and is \['none', 'dog', 'cat'\]",
    ),
    "an example": ({"train": RELABELLED}, "the training examples changed"),
    "a held-out example": ({"dev": RELABELLED[::5]}, "the held-out examples changed"),
}
# the message lists every change, so it has all of them if each alone is noticed
CHANGES["everything"] = (
    {name: value for changes, _ in CHANGES.values() for name, value in changes.items()},
    "; ".join(message for _, message in CHANGES.values()),
)


@pytest.mark.parametrize("change", slow_except(CHANGES, quick=["everything"]))
def test_a_backup_of_another_fine_tuning_is_rejected_with_the_changes(
    change, one_device, tiny_encoder, backups, tmp_path
):
    changes, message = CHANGES[change]
    with pytest.raises(
        InputError, match=rf"the backup of step 20 is of another run \({message}\): resume with the sett"
    ):
        resume(backups, tmp_path, tiny_encoder, **changes)


def test_a_backup_of_another_task_is_rejected(one_device, tiny_encoder, backups, tmp_path):
    with pytest.raises(InputError, match=r"task\.name was classify and is tag"):
        resume(backups, tmp_path, tiny_encoder, name="tag")


def test_a_backup_of_another_checkpoint_is_rejected_with_all_changes(
    one_device, story_tokenizer, backups, tmp_path, encoder_like
):
    *kept, last, first = story_tokenizer.vocabulary
    other = BertTokenizer([*kept, first, last], lowercase=False)
    checkpoint = encoder_like(tokenizer=other, shift=0.001, hidden_dropout_rate=0.2)
    changes = (
        r"model\.hidden_dropout_rate was 0\.1 and is 0\.2; "
        "the vocabulary changed; the tokenizer's rules changed; the checkpoint changed"
    )
    with pytest.raises(InputError, match=rf"is of another run \({changes}\): resume"):
        resume(backups, tmp_path, checkpoint)


@pytest.mark.slow  # each of these changes alone
def test_a_backup_of_another_checkpoint_is_rejected_with_the_changes(
    one_device, story_tokenizer, backups, tmp_path, encoder_like
):
    *kept, last, first = story_tokenizer.vocabulary
    swapped, cased = BertTokenizer([*kept, first, last]), BertTokenizer([*kept, last, first], lowercase=False)
    for number, (options, message) in enumerate(
        (
            ({"tokenizer": swapped}, "the vocabulary changed"),
            ({"tokenizer": cased}, "the tokenizer's rules changed"),
            ({"shift": 0.001}, "the checkpoint changed"),
            ({"hidden_dropout_rate": 0.2}, r"model\.hidden_dropout_rate was 0\.1 and is 0\.2"),
        )
    ):
        with pytest.raises(InputError, match=rf"is of another run \({message}\): resume"):
            resume(backups, tmp_path / str(number), encoder_like(**options))


def test_a_resumed_fine_tuning_beyond_its_new_length_ends_at_once(one_device, tiny_encoder, backups, tmp_path):
    shorter = dataclasses.replace(SETTINGS, num_epochs=2)
    again = resume(backups, tmp_path, tiny_encoder, shorter, allow_changes=True)
    assert list(again.epochs) == one_device["epochs"][:2]
    assert again.scores == one_device["epochs"][0]
