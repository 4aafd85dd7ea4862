"""The code blocks of a model card: how each library loads the model."""

from bert_keras.architectures.known_architectures import get_architecture
from bert_keras.checkpoints.huggingface.card_metadata import THIS_FOLDER
from bert_keras.heads.known_heads import get_head

_TEXT = "The weather was a pleasant surprise."
_QUESTION, _CONTEXT = "Where was she born?", "Ada Lovelace was born in London."

_PREDICT = """\
import bert_keras as bk

predictor = bk.Predictor.from_checkpoint("this folder")
print(predictor([{example}])[0])
"""
_FILL_MASK = """\
import bert_keras as bk

model, tokenizer = bk.load("this folder"), bk.load_tokenizer("this folder")
print(bk.fill_mask(model, tokenizer, ["Paris is the [MASK] of France."], top_k=3))
"""
_ENCODE = """\
import bert_keras as bk

model, tokenizer = bk.load("this folder"), bk.load_tokenizer("this folder")
outputs = model(bk.pack(tokenizer, ["{text}"], max_sequence_length=16))
print({{name: value.shape for name, value in outputs.items()}})
"""
_PIPELINE = """\
from transformers import pipeline

answer = pipeline("{task}", model="this folder"{options})
print(answer({example}))
"""
_AUTO_MODEL = """\
from transformers import AutoTokenizer, {model_class}

tokenizer, model = AutoTokenizer.from_pretrained("this folder"), {model_class}.from_pretrained("this folder")
outputs = model(**tokenizer({example}, return_tensors="pt"))
print({{name: tuple(value.shape) for name, value in outputs.items()}})
"""
_SENTENCE_TRANSFORMERS = """\
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("this folder")
vectors = model.encode(["How is the weather?", "It is raining.", "She was born in London."])
print(model.similarity(vectors[:1], vectors[1:]))
"""


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


# The functions that `Head.snippets` names return the code for each library. They take the class of transformers that
# loads the model, the problem of a classifier, and whether it takes pairs of texts.


def show_prediction(model_class: str, problem: str | None, *, has_pairs: bool) -> dict[str, str]:
    """Return code for a model that answers texts."""
    del problem, has_pairs
    theirs = _AUTO_MODEL.format(model_class=model_class, example=f'"{_TEXT}"')
    return {"bert_keras": _PREDICT.format(example=f'"{_TEXT}"'), "transformers": theirs}


def show_encoding(model_class: str, problem: str | None, *, has_pairs: bool) -> dict[str, str]:
    """Return code for an encoder, which has no answers."""
    return show_prediction(model_class, problem, has_pairs=has_pairs) | {"bert_keras": _ENCODE.format(text=_TEXT)}


def show_classification(model_class: str, problem: str | None, *, has_pairs: bool) -> dict[str, str]:
    """Return code for a classifier of texts or pairs."""
    del model_class
    options = {"multi_label": ", top_k=None", "regression": ', function_to_apply="none"'}.get(problem, "")
    example = f'{{"text": "{_TEXT}", "text_pair": "It was raining."}}' if has_pairs else f'"{_TEXT}"'
    ours = _PREDICT.format(example=f'("{_TEXT}", "It was raining.")' if has_pairs else f'"{_TEXT}"')
    return {
        "bert_keras": ours,
        "transformers": _PIPELINE.format(task="text-classification", options=options, example=example),
    }


def show_tagging(model_class: str, problem: str | None, *, has_pairs: bool) -> dict[str, str]:
    """Return code for a tagger."""
    options = ', aggregation_strategy="simple"'
    theirs = _PIPELINE.format(task="token-classification", options=options, example=f'"{_CONTEXT}"')
    return show_prediction(model_class, problem, has_pairs=has_pairs) | {"transformers": theirs}


def show_answering(model_class: str, problem: str | None, *, has_pairs: bool) -> dict[str, str]:
    """Return code for a model that answers questions."""
    del model_class, problem, has_pairs
    example = f'"{_QUESTION}", "{_CONTEXT}"'
    theirs = _AUTO_MODEL.format(model_class="AutoModelForQuestionAnswering", example=example)
    return {"bert_keras": _PREDICT.format(example=f'("{_QUESTION}", "{_CONTEXT}")'), "transformers": theirs}


def show_masks(model_class: str, problem: str | None, *, has_pairs: bool) -> dict[str, str]:
    """Return code for a masked LM."""
    del model_class, problem, has_pairs
    theirs = _PIPELINE.format(task="fill-mask", options="", example='"Paris is the [MASK] of France."')
    return {"bert_keras": _FILL_MASK, "transformers": theirs}


def show_vectors(model_class: str, problem: str | None, *, has_pairs: bool) -> dict[str, str]:
    """Return code for an embedder, whose folder sentence-transformers opens."""
    del model_class, problem, has_pairs
    return {"bert_keras": _PREDICT.format(example=f'"{_TEXT}"'), "sentence-transformers": _SENTENCE_TRANSFORMERS}
