"""Sentences of `tflite/README.md` about the answers of each head, from the settings of its task in `model.json`."""

from collections.abc import Mapping
from typing import NamedTuple

from bert_keras.checks import format_names, quote

_WINDOW_AVERAGES = {
    "single_label": "average the logarithms of their probabilities, and apply softmax",
    "multi_label": "average log(p / (1 - p)) for each label, and apply the sigmoid",
    "regression": "average their numbers",
}
_MOST_CONTEXT = (
    "A token that is in several windows counts in the one where it has the most context: the smaller of the numbers of "
    "the text's tokens before and after it in the window, plus 0.01 times the number of the text's tokens in the "
    "window; the first of equal ones."
)


class TaskTexts(NamedTuple):
    """What the README says about a task.

    Attributes:
        summary: what the model does.
        decoding: how the outputs become an answer.
        tokenized: what is tokenized and how the text changes before; it follows "Tokenize".
        pair: the names of the two texts of a sequence, or None if a sequence has one text.
        has_positions: whether answers contain positions of characters.
        has_clients: whether the reference clients decode the outputs.
    """

    summary: str
    decoding: str
    tokenized: str = " the text"
    pair: tuple[str, str] | None = None
    has_positions: bool = False
    has_clients: bool = True


def describe_classes(task: Mapping) -> TaskTexts:
    """Describe the labels or the number of a text or a pair of texts."""
    problem, text, number = task["problem"], "a pair of texts" if task["has_pairs"] else "a text", len(task["labels"])
    summary = {
        "single_label": f"A classifier: it gives {text} one of {number:,} labels.",
        "multi_label": f"A classifier: it gives {text} any number of {number:,} labels.",
        "regression": f"It computes a number for {text}.",
    }[problem]
    decoding = {
        "single_label": (
            "`probabilities` has a number for each label, in the order of `labels.txt`. The label with the highest one "
            "is the answer."
        ),
        "multi_label": (
            "`probabilities` has a number for each label, in the order of `labels.txt`. All labels with "
            f"{task['threshold']} or more are the answer."
        ),
        "regression": "`scores` has one number, the answer.",
    }[problem]
    if task["window_overlap"] is not None:
        decoding += f" Of several windows, {_WINDOW_AVERAGES[problem]}."
    return TaskTexts(summary, decoding, pair=("first text", "second text") if task["has_pairs"] else None)


def describe_tags(task: Mapping) -> TaskTexts:
    """Describe the tags of the words of a text."""
    kinds = sorted({label[2:] for label in task["labels"] if label[2:]})
    summary = f"A tagger: it finds entities in a text ({format_names([f'`{kind}`' for kind in kinds])})."
    decoding = (
        "`logits` has a row for each token and a column for each label, in the order of `labels.txt`. The label of a "
        "word is the column with the highest value in the row of the word's first token; softmax makes it a "
        "probability."
    )
    if task["window_overlap"] is not None:
        decoding += f" {_MOST_CONTEXT}"
    if task["scheme"] == "none":
        summary = f"A tagger: it gives each word of a text one of {len(task['labels']):,} labels."
    else:
        decoding += (
            " An entity is a word with a label B-X and the words after it with the label I-X; its probability is the "
            "mean of its words'."
        )
    tokenized = (
        " words: split the text at white space, where each punctuation mark and each Chinese character is a word too; "
        "join the words by one space, and tokenize the result"
    )
    return TaskTexts(summary, decoding, tokenized, has_positions=True)


def describe_spans(task: Mapping) -> TaskTexts:
    """Describe the answer to a question."""
    decoding = (
        "`start_logits` and `end_logits` have a number for each token. The score of a range of context tokens is the "
        "start logit of its first token plus the end logit of its last one. The answer is the range with the highest "
        f"score, of at most {task['max_answer_length']} tokens, extended to whole words; only the {task['num_logits']} "
        f"highest starts and ends of each window count. {_MOST_CONTEXT} Only the first token of a range needs to be "
        "in its best window."
    )
    if task["allows_null"]:
        decoding += (
            " A question may have no answer: the score of none is the start plus the end logit of `[CLS]`, the lowest "
            f"of all windows. There is no answer if it exceeds the best score by more than {task['null_threshold']:g}."
        )
    return TaskTexts(
        "It finds the answer to a question in a text, the context.",
        decoding,
        " the question and the context",
        pair=("question", "context"),
        has_positions=True,
    )


def describe_vectors(task: Mapping) -> TaskTexts:
    """Describe the vector of a text."""
    prompt = f", after the prompt {quote(task['prompt'])} (`prompt` in `model.json`)," if task["prompt"] else ""
    return TaskTexts(
        "It computes a vector for a text; the vectors of texts with similar meanings have a high cosine.",
        "`sentence_embedding` is the vector. Compare two texts by the cosine of their vectors.",
        f" the text{prompt}",
    )
