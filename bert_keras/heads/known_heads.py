"""All heads, and the ways in which the other folders find one."""

from bert_keras.errors import InputError
from bert_keras.extras import load_plugins
from bert_keras.heads import answer, classify, embed, encoder, fill_mask, pretraining, tag
from bert_keras.heads.head import Head

HEADS: list[Head] = []
# the heads that `pretrain` trains, keyed by objective
PRETRAINED_HEADS = {
    head.objective.name: head for head in (pretraining.NEXT_SENTENCE, fill_mask.HEAD, pretraining.REPLACED_TOKENS)
}
_BY_MODEL: dict[str, Head] = {}
_BY_TASK: dict[str, Head] = {}


def register_head(head: Head) -> None:
    """Add a head, for example one of another package; see `bert_keras.extras`.

    Raises:
        InputError: another head has the same model class or the same task.
    """
    if head.model_name in _BY_MODEL or (head.task is not None and head.name in _BY_TASK):
        raise InputError(f"there is a head {head.name!r} for {head.model_name} already: choose other names")
    HEADS.append(head)
    _BY_MODEL[head.model_name] = head
    if head.objective is not None:
        PRETRAINED_HEADS[head.objective.name] = head
    if head.task is not None:
        _BY_TASK[head.name] = head


def get_head(model: str) -> Head:
    """Return the head of a model class, given the name of the class."""
    return _BY_MODEL[model]


def find_head_of_class(model: type) -> Head | None:
    """Return the head of a model class, or of the nearest class that it extends; None if no head has such a class."""
    return next((_BY_MODEL[kind.__name__] for kind in model.__mro__ if kind.__name__ in _BY_MODEL), None)


def get_task_head(task: str) -> Head:
    """Return the head of a task, given the name of the task."""
    return _BY_TASK[task]


def find_finetuned_head(model: str) -> Head | None:
    """Return the head of a model class that `finetune` trains, or None if it is another class."""
    head = _BY_MODEL.get(model)
    return head if head is not None and head.is_finetuned else None


def list_finetuned_heads() -> list[Head]:
    """Return the heads that `finetune` trains."""
    return [head for head in HEADS if head.is_finetuned]


def list_model_names(heads: list[Head]) -> str:
    """Return the names of the models of some heads, separated by commas, for messages."""
    return ", ".join(head.model_name for head in heads)


def find_model_of_peft(task_type: str | None) -> str | None:
    """Return the name of the model class for PEFT's task type, or None if no head has this type."""
    return next((head.model_name for head in HEADS if head.peft is not None and head.peft == task_type), None)


for _head in (
    classify.HEAD,
    tag.HEAD,
    answer.HEAD,
    embed.HEAD,
    fill_mask.HEAD,
    pretraining.NEXT_SENTENCE,
    pretraining.REPLACED_TOKENS,
    encoder.HEAD,
):
    register_head(_head)
load_plugins()
