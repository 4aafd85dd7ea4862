"""The code blocks of a model card: how each library loads the model. Their texts are in `card/`."""

import pathlib
from collections.abc import Callable

from bert_keras.architectures.known_architectures import get_architecture
from bert_keras.heads.known_heads import get_head

# the name of the model in the code of a card; `push` replaces it by that of the repository
THIS_FOLDER = "this folder"
_TEXT = '"The weather was a pleasant surprise."'
_QUESTION, _CONTEXT = '"Where was she born?"', '"Ada Lovelace was born in London."'
_PAIR = '"It was raining."'
_MASKED = '"Paris is the [MASK] of France."'


def write_snippets(kind: str, model_type: str, *, problem: str | None = None, has_pairs: bool = False) -> str:
    """Return the section of a card with code for each library that loads the folder.

    Args:
        kind: the class of the model.
        model_type: the architecture.
        problem: the problem of a classifier.
        has_pairs: whether a classifier takes pairs of texts.
    """
    ending = get_architecture(model_type).endings.get(kind)
    model_class = "AutoModel" if ending is None else f"AutoModel{ending}"
    blocks = get_head(kind).load("snippets")(model_class, problem, has_pairs=has_pairs)
    return "\n".join(f"With {library}:\n\n```python\n{code}```\n" for library, code in blocks.items()).rstrip()


def replace_folder(text: str, repository: str) -> str:
    """Replace the placeholder of the folder in a card's code by the name of a repository."""
    lines = []
    for line in text.split("\n"):
        name = f"hf://{repository}" if "bk." in line or "bert-keras" in line else repository
        lines.append(line.replace(f'"{THIS_FOLDER}"', f'"{name}"'))
    return "\n".join(lines)


def _fill(name: str, **values: str) -> str:
    text = pathlib.Path(__file__).with_name("card").joinpath(f"{name}.txt").read_text(encoding="utf-8")
    return text.format(**values)


def _make(ours: str, theirs: str, library: str = "transformers", **values: str) -> Callable[..., dict[str, str]]:
    """Return a function for `Head.snippets`, from the names of two texts and the values in them.

    Such functions return the code for each library. They take the class of transformers that loads the model, the
    problem of a classifier, and whether it takes pairs of texts.
    """

    def show(model_class: str, problem: str | None, *, has_pairs: bool) -> dict[str, str]:
        del problem, has_pairs
        given = {"model_class": model_class, "options": "", "example": _TEXT, "our_example": _TEXT, **values}
        return {"bert_keras": _fill(ours, **given | {"example": given["our_example"]}), library: _fill(theirs, **given)}

    return show


show_prediction = _make("predict", "auto_model")  # of a model that answers texts
show_encoding = _make("encode", "auto_model")  # of an encoder, which has no answers
show_masks = _make("fill_mask", "pipeline", task="fill-mask", example=_MASKED)
show_vectors = _make("predict", "sentence_transformers", "sentence-transformers")
show_tagging = _make(
    "predict", "pipeline", task="token-classification", options=', aggregation_strategy="simple"', example=_CONTEXT
)
show_answering = _make(
    "predict",
    "auto_model",
    model_class="AutoModelForQuestionAnswering",
    example=f"{_QUESTION}, {_CONTEXT}",
    our_example=f"({_QUESTION}, {_CONTEXT})",
)


def show_classification(model_class: str, problem: str | None, *, has_pairs: bool) -> dict[str, str]:
    """Return code for a classifier of texts or pairs."""
    del model_class
    options = {"multi_label": ", top_k=None", "regression": ', function_to_apply="none"'}.get(problem, "")
    theirs = f'{{"text": {_TEXT}, "text_pair": {_PAIR}}}' if has_pairs else _TEXT
    return {
        "bert_keras": _fill("predict", example=f"({_TEXT}, {_PAIR})" if has_pairs else _TEXT),
        "transformers": _fill("pipeline", task="text-classification", options=options, example=theirs),
    }
