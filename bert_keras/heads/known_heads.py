"""All heads, and the ways in which the other folders find one."""

from bert_keras.heads import answer, classify, embed, encoder, fill_mask, pretraining, tag
from bert_keras.heads.head import Head

HEADS = (
    classify.HEAD,
    tag.HEAD,
    answer.HEAD,
    embed.HEAD,
    fill_mask.HEAD,
    pretraining.NEXT_SENTENCE,
    pretraining.REPLACED_TOKENS,
    encoder.HEAD,
)
# the heads that `pretrain` trains, keyed by objective
PRETRAINED_HEADS = {
    head.objective.name: head for head in (pretraining.NEXT_SENTENCE, fill_mask.HEAD, pretraining.REPLACED_TOKENS)
}
_BY_MODEL = {head.model_name: head for head in HEADS}
_BY_TASK = {head.name: head for head in HEADS if head.task is not None}


def get_head(model: str) -> Head:
    """Return the head of a model class, given the name of the class."""
    return _BY_MODEL[model]


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
