"""The page of all error messages, from the sources."""

import ast
import html
import itertools
import pathlib
import re

from placeholder_names import CLOSE, OPEN, strip_placeholders
from raised_messages import RaisedMessage, find_messages

PAGE = "reference/errors.md"
_CHANGE = "give a value that is valid"  # the fix of a message that says what is valid and no more
_FIX_VERBS = ("correct", "leave", "name", "resume", "run", "send", "train", "use")
_READERS = "`finetune`, `evaluate`, `predict`, `export --eval` and their functions: CSV, TSV, JSON, CoNLL, SQuAD."
_LOADERS = "`bk.load`, `bk.save`, `convert`, `from_checkpoint`, and every command that opens a model."
# start of the path of a module: topic, and what raises its messages; the first that fits
_TOPICS = (
    ("bert_keras/cli", "Command line", "Every command checks its arguments before it starts."),
    ("pipelines/readers", "Files of examples", _READERS),
    ("pipelines/text/learned_vocabulary", "Learning a vocabulary", "`learn-vocab` and `bk.learn_vocabulary`."),
    ("pipelines/text", "Tokenizer and vocabulary", "`bk.BertTokenizer`, and every command that opens a model."),
    ("pipelines/corpus", "Raw text", "`learn-vocab`, `make-records`, and the other options that name files of texts."),
    ("pipelines/records", "Records", "`make-records`, `pretrain` and their functions."),
    ("pipelines", "Batches", "`bk.pack`, `pretrain`, `finetune` and `bk.pipelines`."),
    ("bert_keras/checkpoints", "Checkpoint folders", _LOADERS),
    ("bert_keras/hub", "Hugging Face Hub", "Names that begin with `hf://`, and `push`."),
    ("export/pushing", "Hugging Face Hub", ""),
    ("bert_keras/architectures", "Models", "The classes of the models, when they are built or called."),
    ("bert_keras/distribution", "Models", ""),
    ("bert_keras/metrics", "Scores", "`evaluate`, `finetune` and the classes of metrics."),
    (
        "bert_keras/heads",
        "Evaluation and prediction",
        "`bk.Predictor`, `predict`, `evaluate`, `fill-mask`, `finetune`.",
    ),
    ("bert_keras/engines", "Evaluation and prediction", ""),
    ("bert_keras/training", "Training", "`pretrain`, `finetune`, `distill` and their functions; settings and recipes."),
    ("export", "Export and verification", "`export`, `verify` and `bk.export_model`."),
    ("bert_keras/serving", "Server", "`serve`, and answers of the server to invalid requests."),
    ("bert_keras/analysis", "Planning and inspecting", "`plan`, `inspect` and their functions."),
    ("bert_keras/doctor", "Doctor", "`doctor`."),
    ("bert_keras", "All parts", "Files, folders, settings and optional packages."),
)
_INTRODUCTION = """# Error messages

Invalid input gives one sentence: the problem with its value; what is valid; how to fix it. A command prints it and
exits with [status 2](cli/index.md#exit-status); in Python it is a [`bk.InputError`](api/errors.md), which is a
`ValueError`. This page lists the sentences as the code has them. <var>path</var>, for example, stands for a value of
your run. Search for a few words of your message that are not values.

Not listed: messages of argparse about unknown or missing options (`bert-keras COMMAND --help` shows the valid ones),
messages of the operating system (the file and the reason, such as a full disk), and the descriptions of invalid types
that pydantic writes into messages about settings. A message that begins with the name of a file may end with another
message of this page.
"""


def make_pages(repository: pathlib.Path) -> dict[str, str | bytes]:
    """Return the page, by its path."""
    found = [message for message in find_messages(repository) if message.templates]
    lines = [_INTRODUCTION]
    topics = list(dict.fromkeys(title for _, title, _ in _TOPICS))
    found.sort(key=lambda message: (topics.index(find_topic(message.path)), message.path, message.line))
    for topic, messages in itertools.groupby(found, lambda message: find_topic(message.path)):
        area = " ".join(text for _, title, text in _TOPICS if title == topic and text)
        lines += [f"## {topic}", "", area, ""]
        for path, of_module in itertools.groupby(messages, lambda message: message.path):
            lines += [_make_section(repository, path, list(of_module)), ""]
    return {PAGE: "\n".join(lines)}


def find_topic(path: str) -> str:
    """Return the topic of a module."""
    return next(title for start, title, _ in _TOPICS if path == start or path.startswith(f"{start}/"))


def split_message(template: str) -> tuple[str, str, str]:
    """Split a message into the problem, what is valid, and the fix; "" for a part that it lacks.

    Example:
        >>> split_message("power is 0; expected a number above 0: raise it")
        ('power is 0', 'a number above 0', 'raise it')
        >>> split_message("two models can answer; name one of them")
        ('two models can answer', '', 'name one of them')
    """
    problem, _, rest = template.partition("; expected ")
    if rest:
        match = re.search(rf": (?=[a-z`{OPEN}])(?![^(\[{{]*[)\]}}])", rest)  # not inside of brackets
        return (problem, rest[: match.start()], rest[match.end() :]) if match else (problem, rest, _CHANGE)
    problem, colon, fix = template.rpartition(": ")
    words = strip_placeholders(problem)
    if colon and len(words.split()) >= 3 and re.match("[a-z]", fix):
        return problem, "", fix
    problem, semicolon, rest = template.rpartition("; ")
    if not semicolon:
        return template, "", ""
    return (problem, "", rest) if rest.split()[0] in _FIX_VERBS else (problem, rest, _CHANGE)


def render(template: str) -> str:
    """Return a part of a message as HTML with its placeholders in italics."""
    text = html.escape(template, quote=False)
    return re.sub(f"{OPEN}(.*?){CLOSE}", r"<var>\1</var>", text)


def _make_section(repository: pathlib.Path, path: str, messages: list[RaisedMessage]) -> str:
    """Return the table of a module, under its name and the first sentence of its docstring."""
    docstring = ast.get_docstring(ast.parse((repository / path).read_text(encoding="utf-8"))) or ""
    summary = " ".join(docstring.split("\n\n")[0].split())
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    module = module if module.startswith("bert_keras") else f"bert_keras.{module}"
    rows = []
    for text in dict.fromkeys(text for message in messages for text in message.templates):
        parts = [render(part) for part in split_message(text)]
        labels = ("Problem", "Valid", "Fix")
        cells = "".join(f'<td data-label="{label}">{part}</td>' for label, part in zip(labels, parts, strict=True))
        rows.append(f"<tr>{cells}</tr>")
    head = "<thead><tr><th>Problem</th><th>What is valid</th><th>How to fix it</th></tr></thead>"
    table = "\n".join([f'<div class="errors"><table>{head}<tbody>', *rows, "</tbody></table></div>"])
    return f"### `{module}` {{: #{module} }}\n\n{summary}\n\n{table}"
