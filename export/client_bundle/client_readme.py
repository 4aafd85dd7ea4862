"""README.md of a folder of TFLite files, for app teams that have never seen this project."""

import json
import re
import textwrap
from collections.abc import Mapping
from string import Template

from bert_keras.checks import format_names
from bert_keras.export.client_bundle.task_texts import TaskTexts
from bert_keras.export.template_files import fill_template
from bert_keras.export.tflite.mediapipe_metadata import OUTPUTS
from bert_keras.files import format_json
from bert_keras.heads.known_heads import get_task_head

_SIGNATURE = "serving_default"  # of the files with one length
PRECISIONS = {
    "float32": "the weights of the original model, in 32 bits",
    "float16": "weights of 16 bits: half the size of 32 bits, and nearly the same answers",
    "dynamic_int8": "weights of 8 bits: a quarter of the size of 32 bits, and usually the fastest on a CPU",
    "dynamic_int4": "weights of 4 bits in the products, 8 in the tables: the smallest; score it on your texts first",
}
_INPUTS = {  # name: values at a token, and at padding
    "input_ids": ("the id of the token: its line in `vocab.txt`, counted from 0", "$pad_id, the id of `[PAD]`"),
    "attention_mask": ("1, also at `[CLS]` and `[SEP]`", "0"),
    "token_type_ids": ("$segments", "0"),
}
_MEDIAPIPE_DIFFERENCES = (
    "It lowercases only the letters A to Z and keeps accents, so texts with other capitals or accents get other tokens "
    "than here."
)
_POSITIONS = (
    "Positions count UTF-16 units in TypeScript and Java, so that `text.slice(start, end)` works, and code points in "
    "Python and in `model.json`."
)
_WIDTH = 120
_PARAGRAPH = re.compile(r"^(?![|#\n]).+(\n(?![|#\n]|- |\d\. ).+)*", re.MULTILINE)  # or one item of a list
_MAX_ANSWER = 100  # characters of an answer in a comment


def make_readme(
    description: Mapping, *, vocabulary_size: int, in_mediapipe: bool, other_files: Mapping[str, str]
) -> str:
    """Return the README.md of a folder.

    Args:
        description: the content of its `model.json`.
        vocabulary_size: the number of tokens.
        in_mediapipe: whether MediaPipe can run the files with one length.
        other_files: what the folder contains besides the model files, keyed by name.
    """
    files = [file for file in description["files"] if _SIGNATURE in file["signatures"]]
    first = files[0]
    facts = {
        "name": description["name"],
        "first": first["path"],
        "signature": _SIGNATURE,
        "length": first["signatures"][_SIGNATURE],
        "pad_id": description["tokenizer"]["pad_id"],
        "vocabulary_size": f"{vocabulary_size:,}",
        "texts": ", ".join(json.dumps(text, ensure_ascii=False) for text in description["probes"][0]["texts"]),
        "answer": _shorten(format_json(_round(description["probes"][0]["answer"]))),
    }
    facts |= _describe_files(description, files, other_files, in_mediapipe=in_mediapipe)
    texts = _describe_task(description)
    facts |= _describe_inputs(description, texts, facts)
    facts |= _describe_outputs(description)
    facts |= {"summary": texts.summary, "decoding": texts.decoding}
    facts |= _choose_examples(description, texts, in_mediapipe=in_mediapipe)
    return _wrap(fill_template("tflite/README.md", **facts))


def _describe_files(
    description: Mapping, files: list[Mapping], other_files: Mapping[str, str], *, in_mediapipe: bool
) -> dict[str, str]:
    """Return the facts of the table of files, and the advice on choosing one."""
    rows = []
    for file in description["files"]:
        lengths = " or ".join(str(length) for length in file["signatures"].values())
        size = f"{file['bytes'] / 1e6:,.1f} MB"
        rows.append(f"`{file['path']}` | {size}, sequences of {lengths} tokens; {PRECISIONS[file['quantization']]}")
    rows += [f"`{name}` | {contents}" for name, contents in other_files.items()]
    has_lengths = len(files) < len(description["files"])
    others = ", then ".join(f"`{file['path']}`" for file in files[1:])
    large = [file["path"] for file in files if file["quantization"] in ("float32", "float16")]
    return {
        "file_rows": "\n".join(f"| {row} |" for row in rows),
        "reason": f", the smallest file; if its answers are too inexact for your texts, try {others}" if others else "",
        "or_mediapipe": ", or MediaPipe" if in_mediapipe else "",
        "large": large[0] if large else "",
        "shorter": (
            " The files ending in `_lengths.tflite` have a signature for each of their lengths: call the shortest "
            "one that fits the sequence."
            if has_lengths
            else " If your texts are short, ask for files with a smaller length (`--tflite-length`), or with several "
            "(`--tflite-lengths`)."
        ),
        "signatures": (
            f"`{_SIGNATURE}`" + "; that of a file with several lengths is `length_` and the length" * has_lengths
        ),
    }


def _describe_inputs(description: Mapping, texts: TaskTexts, facts: Mapping) -> dict[str, str]:
    """Return the facts of the section about inputs."""
    settings, inputs = description["tokenizer"], description["inputs"]
    own_tokens = [f"`{token}`" for token in settings["additional_special_tokens"] + settings["added_tokens"]]
    rules = f"WordPiece and `vocab.txt` ({facts['vocabulary_size']} tokens)."
    if settings["text_rules"] == "mediapipe":
        tokenizing = f" as MediaPipe does, with {rules}"
    else:
        casing = "is lowercased" if settings["lowercase"] else "keeps its case"
        accents = "are removed" if settings["strip_accents"] else "are kept"
        never_split = f" {format_names(own_tokens)} are tokens that are never split." if own_tokens else ""
        tokenizing = (
            f" with {rules} Text {casing}, and accents {accents}.{never_split} The settings are in `model.json` under "
            "`tokenizer`; the reference clients below implement them."
        )
    segments = (
        "0 in the first text with `[CLS]` and its `[SEP]`, 1 in the second text and its `[SEP]`" if texts.pair else "0"
    )
    rows = []
    for one in inputs:
        at_token, at_padding = (Template(text).substitute(facts, segments=segments) for text in _INPUTS[one["name"]])
        rows.append(f"| {one['index']} | `{one['name']}` | {at_token} | {at_padding} |")
    cls, sep = f"`[CLS]` (id {settings['cls_id']})", f"`[SEP]` (id {settings['sep_id']})"
    return {
        "tokenizing": texts.tokenized + tokenizing,
        "sequence": (
            f"{cls}, the tokens of the {texts.pair[0]}, {sep}, the tokens of the {texts.pair[1]}, {sep}"
            if texts.pair
            else f"{cls}, the tokens, {sep}"
        ),
        "long_texts": _describe_long_texts(description["task"] or {}, texts, facts["length"]),
        "input_type": inputs[0]["dtype"],
        "input_shape": inputs[0]["shape"],
        "input_rows": "\n".join(rows),
        "second_text": (
            f"first_length = token_ids.index({settings['sep_id']}) + 1\n"
            "segment_ids = [0] * first_length + [1] * (len(token_ids) - first_length)"
            if texts.pair
            else "segment_ids = [0] * len(token_ids)"
        ),
    }


def _describe_outputs(description: Mapping) -> dict[str, str]:
    """Return the facts of the section about outputs, and the lines of code that read them."""
    outputs = description["outputs"]
    names = [one["name"] for one in outputs]
    return {
        "output_rows": "\n".join(
            f"| {one['index']} | `{one['name']}` | {one['dtype']} {one['shape']} |" for one in outputs
        ),
        "printing": "\n".join(f'print("{name}", outputs["{name}"][0].ravel()[:8])' for name in names),
        "swift_outputs": "\n".join(
            f'let {_to_camel_case(name)} = try runner.output(named: "{name}")  // Float32' for name in names
        ),
        "cpp_outputs": "\n".join(f'const float* {name} = runner->output_tensor("{name}")->data.f;' for name in names),
    }


def _describe_long_texts(task: Mapping, texts: TaskTexts, length: int) -> str:
    """Return what happens to texts that do not fit in a sequence."""
    limit, overlap = task.get("max_sequence_length", length), task.get("window_overlap")
    at_most = f"A sequence has at most {limit} tokens"
    if overlap is None and texts.pair:
        return f"{at_most}. If the texts are longer, drop tokens at the end of the longer one until they fit."
    if overlap is None:
        return f"{at_most}, so keep the first {limit - 2} tokens of a longer text."
    if not texts.pair:
        return (
            f"{at_most}. Split a longer text into windows: each is a sequence, and consecutive windows share {overlap} "
            "tokens."
        )
    first, second = texts.pair
    cut = f" The {first} has at most {task['max_question_length']} tokens." if "max_question_length" in task else ""
    return (
        f"{at_most}.{cut} Split a longer {second} into windows: each makes a sequence with the whole {first}, and "
        f"consecutive windows share {overlap} tokens."
    )


def _describe_task(description: Mapping) -> TaskTexts:
    """Return the texts about the answers, or about the outputs of a model without a task or of a head without texts."""
    head = get_task_head(description["task"]["name"]) if description["task"] else None
    if head is not None and head.readme is not None:
        return head.load("readme")(description["task"])
    names = ", ".join(f"`{one['name']}`" for one in description["outputs"])
    return TaskTexts(
        head.use if head else f"A BERT model without a task: it computes {names} for a text.",
        "The first axis is the batch, of one sequence. Outputs with a value for each token have values at padding too: "
        "ignore them.",
        has_clients=False,
    )


def _choose_examples(description: Mapping, texts: TaskTexts, *, in_mediapipe: bool) -> dict[str, object]:
    """Return the facts about MediaPipe, and which examples the README has."""
    task = description["task"]
    has_rules = description["tokenizer"]["text_rules"] == "mediapipe"
    has_clients = texts.has_clients and not has_rules
    mediapipe_task = OUTPUTS[description["outputs"][0]["name"]] if in_mediapipe else None
    return {
        "mediapipe_rules": has_rules,
        "use": "run it in MediaPipe, which does so by itself" if in_mediapipe else "use a tokenizer with these rules",
        "no_task": task is None,
        "clients": has_clients,
        "ranges": _POSITIONS if texts.has_positions else "The answers are those of the original model.",
        "classifier": mediapipe_task == "TextClassifier",
        "embedder": mediapipe_task == "TextEmbedder",
        "no_client": task is not None and not has_clients and not in_mediapipe,
        "mediapipe_note": _describe_mediapipe(task, has_rules=has_rules) if in_mediapipe else "",
    }


def _describe_mediapipe(task: Mapping, *, has_rules: bool) -> str:
    """Return how the answers of MediaPipe differ, for a model that it can run."""
    note = "" if has_rules else _MEDIAPIPE_DIFFERENCES
    if task.get("window_overlap") is not None:
        return f"{note} It cuts long texts and has no windows."
    return f"{note} Put the prompt before each text yourself." if task.get("prompt") else note


def _round(value: object) -> object:
    if isinstance(value, dict):
        return {name: _round(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_round(one) for one in value]
    return round(value, 4) if isinstance(value, float) else value


def _shorten(line: str) -> str:
    return line if len(line) <= _MAX_ANSWER else f"{line[:_MAX_ANSWER]} ..."


def _wrap(text: str) -> str:
    """Fill the lines of paragraphs and list items; leave tables and code as they are."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _PARAGRAPH.sub(_fill_lines, part) for part in parts)


def _fill_lines(paragraph: re.Match) -> str:
    text = " ".join(paragraph[0].split())
    indent = " " * len(re.match(r"(\d\.|-) |", text)[0])
    lines = textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def _to_camel_case(name: str) -> str:
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)
