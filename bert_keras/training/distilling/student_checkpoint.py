"""The checkpoint that a student starts from, with the tokens of the training texts if the vocabulary is trimmed."""

from collections.abc import Iterator, Sequence

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.loading import load_tokenizer
from bert_keras.pipelines.readers.questions import Question
from bert_keras.pipelines.readers.words.tagged_sentences import TaggedSentence
from bert_keras.tasks.base import Task
from bert_keras.tasks.kept_tokens import choose_tokens, trim_checkpoint
from bert_keras.training.config.distillation_settings import Distillation
from bert_keras.training.distilling.student_start import start_student


def make_student_checkpoint(
    teacher: Checkpoint, task: Task, settings: Distillation, examples: Sequence
) -> tuple[Checkpoint, str]:
    """Make the checkpoint of a student.

    Args:
        teacher: the checkpoint of the teacher.
        task: its task.
        settings: which student, see `Distillation`.
        examples: the training examples, whose tokens are kept if the vocabulary is trimmed.

    Returns:
        The checkpoint, and a description.

    Raises:
        InputError: see `start_student`.
    """
    student, description = start_student(teacher, settings)
    if settings.trim_vocabulary:
        kept = choose_tokens(load_tokenizer(student), task, _list_texts(examples), ["the training examples"])
        student = trim_checkpoint(student, kept.vocabulary)
        description += f"; {len(kept.vocabulary):,} of {teacher.config.vocabulary_size:,} tokens"
    return student, description


def _list_texts(examples: Sequence) -> Iterator[str]:
    """Yield the texts of examples of any task."""
    for example in examples:
        if isinstance(example, Question):
            yield example.question
            yield example.context
        elif isinstance(example, TaggedSentence):
            yield " ".join(example.words)
        else:
            yield example.text
            if example.second_text is not None:
                yield example.second_text
