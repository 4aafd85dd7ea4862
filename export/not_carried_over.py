"""The parts of a checkpoint that an artifact cannot contain, one sentence each, for the user and for `parity.json`."""

from bert_keras.checks import format_names, quote
from bert_keras.export.parity.reference import Reference
from bert_keras.tasks.sentence_embedding import SentenceEmbedding

_POOLING_OUTPUTS = {"saved_model": "the signature ids", "onnx": "the output sentence_embedding", "tflite": "the file"}


def list_not_carried_over(reference: Reference, artifact: str) -> list[str]:
    """Return a sentence for each part of the checkpoint's prompts that an artifact does not contain.

    Args:
        reference: the checkpoint.
        artifact: its path in the output folder, for example "tflite/model_float32.tflite".
    """
    task, kind = reference.task, artifact.split("/")[0]
    if not isinstance(task, SentenceEmbedding):
        return []
    prompts = [name for name, text in task.prompts.items() if text]
    if not prompts and not task.prompt_text:
        return []
    sentences = _list_missing_prompts(task, kind, prompts)
    if not task.include_prompt:
        output = _POOLING_OUTPUTS[kind]
        sentences.append(f"include_prompt: {output} pools the tokens of a prompt like those of the text")
    return sentences


def _list_missing_prompts(task: SentenceEmbedding, kind: str, prompts: list[str]) -> list[str]:
    if kind == "onnx":  # the folder lists them for sentence-transformers
        return []
    if kind == "tflite":
        return [f"the prompts {format_names(prompts)}: the file accepts ids, so add the prompt to each text yourself"]
    others = [name for name in prompts if task.prompts[name] != task.prompt_text]
    if not others:
        return []
    if task.prompt_text:
        applied = f"serving_default puts {quote(task.prompt_text)} before each text; use ids for other prompts"
    else:
        applied = "serving_default puts no prompt before a text, so add it yourself"
    return [f"the prompts {format_names(others)}: {applied}"]
