"""Sentences of `tflite/README.md` that depend on the task: what it answers, and how outputs become answers."""

from collections.abc import Mapping, Sequence

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


def has_pairs(task: Mapping | None) -> bool:
    """Return whether a sequence has two texts."""
    return task is not None and (task["name"] == "answer" or task.get("has_pairs", False))


def name_texts(task: Mapping | None) -> tuple[str, str]:
    """Return what the two texts of a pair are called."""
    is_question = task is not None and task["name"] == "answer"
    return ("question", "context") if is_question else ("first text", "second text")


def summarize_task(task: Mapping | None, outputs: Sequence[str]) -> str:
    """Return a sentence that says what the model does."""
    if task is None:
        return f"A BERT model without a task: it computes {', '.join(f'`{name}`' for name in outputs)} for a text."
    if task["name"] == "classify":
        text, number = "a pair of texts" if task["has_pairs"] else "a text", len(task["labels"])
        return {
            "single_label": f"A classifier: it gives {text} one of {number:,} labels.",
            "multi_label": f"A classifier: it gives {text} any number of {number:,} labels.",
            "regression": f"It computes a number for {text}.",
        }[task["problem"]]
    if task["name"] == "tag":
        if task["scheme"] == "none":
            return f"A tagger: it gives each word of a text one of {len(task['labels']):,} labels."
        kinds = sorted({label[2:] for label in task["labels"] if label[2:]})
        return f"A tagger: it finds entities in a text ({format_names([f'`{kind}`' for kind in kinds])})."
    if task["name"] == "answer":
        return "It finds the answer to a question in a text, the context."
    return "It computes a vector for a text; the vectors of texts with similar meanings have a high cosine."


def describe_text_before(task: Mapping | None) -> str:
    """Return what happens to a text before it is tokenized: the start of step 1, after "Tokenize"."""
    if task is not None and task["name"] == "tag":
        return (
            " words: split the text at white space, where each punctuation mark and each Chinese character is a word "
            "too; join the words by one space, and tokenize the result"
        )
    if task is not None and task.get("prompt"):
        return f" the text, after the prompt {quote(task['prompt'])} (`prompt` in `model.json`),"
    return " the question and the context" if task is not None and task["name"] == "answer" else " the text"


def describe_long_texts(task: Mapping | None, length: int) -> str:
    """Return what happens to texts that do not fit in a sequence."""
    limit = length if task is None else task["max_sequence_length"]
    overlap = None if task is None else task.get("window_overlap")
    is_pair, (first, second) = has_pairs(task), name_texts(task)
    if overlap is None and is_pair:
        return (
            f"A sequence has at most {limit} tokens. If the texts are longer, drop tokens at the end of the longer one "
            "until they fit."
        )
    if overlap is None:
        return f"A sequence has at most {limit} tokens, so keep the first {limit - 2} tokens of a longer text."
    if not is_pair:
        return (
            f"A sequence has at most {limit} tokens. Split a longer text into windows: each is a sequence, and "
            f"consecutive windows share {overlap} tokens."
        )
    cut = f"The {first} has at most {task['max_question_length']} tokens. " if "max_question_length" in task else ""
    return (
        f"A sequence has at most {limit} tokens. {cut}Split a longer {second} into windows: each makes a "
        f"   sequence with the whole {first}, and consecutive windows share {overlap} tokens."
    )


def describe_decoding(task: Mapping | None) -> str:
    """Return how the outputs become an answer."""
    if task is None:
        return (
            "The first axis is the batch, of one sequence. Outputs with a value for each token have values at padding "
            "too: ignore them."
        )
    return {
        "classify": _describe_classes,
        "tag": _describe_tags,
        "answer": _describe_answers,
        "embed": _describe_vector,
    }[task["name"]](task)


def _describe_classes(task: Mapping) -> str:
    problem = task["problem"]
    text = {
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
    if task["window_overlap"] is None:
        return text
    return f"{text} Of several windows, {_WINDOW_AVERAGES[problem]}."


def _describe_tags(task: Mapping) -> str:
    text = (
        "`logits` has a row for each token and a column for each label, in the order of `labels.txt`. The label of a "
        "word is the column with the highest value in the row of the word's first token; softmax makes it a "
        "probability."
    )
    if task["window_overlap"] is not None:
        text += f" {_MOST_CONTEXT}"
    if task["scheme"] == "none":
        return text
    return (
        f"{text} An entity is a word with a label B-X and the words after it with the label I-X; its probability "
        "is the mean of its words'."
    )


def _describe_answers(task: Mapping) -> str:
    text = (
        "`start_logits` and `end_logits` have a number for each token. The score of a range of context tokens is the "
        "start logit of its first token plus the end logit of its last one. The answer is the range with the highest "
        f"score, of at most {task['max_answer_length']} tokens, extended to whole words; only the {task['num_logits']} "
        f"highest starts and ends of each window count. {_MOST_CONTEXT} Only the first token of a range needs to be "
        "in its best window."
    )
    if task["allows_null"]:
        text += (
            " A question may have no answer: the score of none is the start plus the end logit of `[CLS]`, the lowest "
            f"of all windows. There is no answer if it exceeds the best score by more than {task['null_threshold']:g}."
        )
    return text


def _describe_vector(task: Mapping) -> str:
    del task
    return "`sentence_embedding` is the vector. Compare two texts by the cosine of their vectors."


def describe_ranges(task: Mapping) -> str:
    """Return how clients count the positions in an answer."""
    if task["name"] not in ("tag", "answer"):
        return "The answers are those of the original model."
    return (
        "Positions count UTF-16 units in TypeScript and Java, so that `text.slice(start, end)` works, and code points "
        "in Python and in `model.json`."
    )


def describe_mediapipe_limits(task: Mapping) -> str:
    """Return how answers of MediaPipe differ because of the task."""
    if task.get("window_overlap") is not None:
        return " It cuts long texts and has no windows."
    return " Put the prompt before each text yourself." if task.get("prompt") else ""
