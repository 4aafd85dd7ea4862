"""What an artifact does not carry of its checkpoint: a sentence for each thing, for the user and `parity.json`."""

from bert_keras.checks import format_names, quote
from bert_keras.export.parity.reference import Reference
from bert_keras.tasks.sentence_embedding import SentenceEmbedding


def list_left_out(reference: Reference, artifact: str) -> list[str]:
    """Returns what an artifact does not carry of the checkpoint's prompts.

    Args:
        reference: the checkpoint.
        artifact: its path in the folder of artifacts, "tflite/model_float32.tflite" for example.
    """
    task, kind = reference.task, artifact.split("/")[0]
    if not isinstance(task, SentenceEmbedding):
        return []
    prompts = [name for name, text in task.prompts.items() if text]
    if not prompts and not task.prompt_text:
        return []
    left = _prompts_left_out(task, kind, prompts)
    if not task.include_prompt:
        pools = {"saved_model": "the signature ids", "onnx": "the output sentence_embedding"}.get(kind, "the file")
        left.append(f"include_prompt: {pools} pools the tokens of a prompt like those of the text")
    return left


def _prompts_left_out(task: SentenceEmbedding, kind: str, prompts: list[str]) -> list[str]:
    if kind == "onnx":  # the folder names them for sentence-transformers
        return []
    if kind == "tflite":
        return [f"the prompts {format_names(prompts)}: the file takes ids, so put a prompt before each text yourself"]
    others = [name for name in prompts if task.prompts[name] != task.prompt_text]
    if not others:
        return []
    if task.prompt_text:
        applied = f"serving_default puts {quote(task.prompt_text)} before each text; use ids for other prompts"
    else:
        applied = "serving_default puts nothing before a text, so put a prompt there yourself"
    return [f"the prompts {format_names(others)}: {applied}"]
