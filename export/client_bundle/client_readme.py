"""README.md of a folder of TFLite files, for app teams that have never seen this project."""

import json
import re
import textwrap
from collections.abc import Mapping

from bert_keras.checks import format_names, quote
from bert_keras.export.template_files import fill_template
from bert_keras.export.tflite.mediapipe_metadata import OUTPUTS
from bert_keras.files import format_json
from bert_keras.heads.known_heads import get_task_head

_SIGNATURE = "serving_default"  # of the files with one length
_WIDTH = 120
_PARAGRAPH = re.compile(r"^(?![|#\n]).+(\n(?![|#\n]|- |\d\. ).+)*", re.MULTILINE)  # or one item of a list
_PART = re.compile(r"^%part (\w+)\n(.*?)(?=^%part|\Z)", re.DOTALL | re.MULTILINE)
_MAX_ANSWER = 100  # characters of an answer in a comment


def make_readme(description: Mapping, *, vocabulary_size: int, in_mediapipe: bool, has_labels: bool) -> str:
    """Return the README.md of a folder.

    Args:
        description: the content of its `model.json`.
        vocabulary_size: the number of tokens.
        in_mediapipe: whether MediaPipe can run the files with one length.
        has_labels: whether the folder contains `labels.txt`.
    """
    files, settings, probe = description["files"], description["tokenizer"], description["probes"][0]
    first, *others = (file for file in files if _SIGNATURE in file["signatures"])
    length, task, parts = first["signatures"][_SIGNATURE], description["task"] or {}, _describe_task(description)
    large = [file["path"] for file in (first, *others) if file["quantization"] in ("float32", "float16")]
    limit, has_rules = task.get("max_sequence_length", length), settings["text_rules"] == "mediapipe"
    own_tokens = settings["additional_special_tokens"] + settings["added_tokens"]
    has_clients = bool(task) and get_task_head(task["name"]).readme is not None and not has_rules
    answer = format_json(_round(probe["answer"]))
    facts = {
        **settings,
        **parts,
        "name": description["name"],
        "path": first["path"],
        "signature": _SIGNATURE,
        "length": length,
        "vocabulary_size": f"{vocabulary_size:,}",
        "texts": ", ".join(json.dumps(text, ensure_ascii=False) for text in probe["texts"]),
        "answer": answer if len(answer) <= _MAX_ANSWER else f"{answer[:_MAX_ANSWER]} ...",
        "files": [
            {
                **file,
                "megabytes": f"{file['bytes'] / 1e6:,.1f}",
                "lengths": " or ".join(map(str, file["signatures"].values())),
            }
            for file in files
        ],
        "has_labels": has_labels,
        "others": ", then ".join(f"`{file['path']}`" for file in others),
        "large": large[0] if large else "",
        "has_lengths": 1 + len(others) < len(files),
        "own_tokens": format_names([f"`{token}`" for token in own_tokens]),
        "limit": limit,
        "room": limit - 2,
        "max_question_length": task.get("max_question_length"),
        "window_overlap": task.get("window_overlap"),
        "has_windows": task.get("window_overlap") is not None,
        "prompt": task.get("prompt"),
        "input_type": description["inputs"][0]["dtype"],
        "input_shape": description["inputs"][0]["shape"],
        "inputs": description["inputs"],
        "outputs": [
            {**one, "camel_name": re.sub(r"_(\w)", lambda match: match[1].upper(), one["name"])}
            for one in description["outputs"]
        ],
        "mediapipe_rules": has_rules,
        "in_mediapipe": in_mediapipe,
        "classifier": OUTPUTS.get(description["outputs"][0]["name"]) == "TextClassifier",
        "no_task": not task,
        "clients": has_clients,
        "no_client": bool(task) and not has_clients and not in_mediapipe,
    }
    return _wrap(_join_lines(fill_template("tflite/README.md", **facts)))


def _describe_task(description: Mapping) -> dict[str, str]:
    """Return the texts of the README about a task, or about a model without a task or a head without a template.

    They are `summary`, what the model does; `decoding`, how the outputs become an answer; `tokenized`, what follows
    "Tokenize"; `first` and `second`, the texts of a pair, or ""; and `positions`, which of them answers contain, or "".
    """
    task = description["task"] or {}
    head, labels = get_task_head(task["name"]) if task else None, task.get("labels") or ()
    facts = {name: f"{value:g}" if isinstance(value, float) else value for name, value in task.items()} | {
        "has_windows": task.get("window_overlap") is not None,
        "num_labels": f"{len(labels):,}",
        "kinds": format_names([f"`{kind}`" for kind in sorted({label[2:] for label in labels if label[2:]})]),
        "quoted_prompt": quote(task.get("prompt")),
        "most_context": fill_template("tflite/most_context.md"),
        "use": head.use if head else "",
        "output_names": ", ".join(f"`{one['name']}`" for one in description["outputs"]),
    }
    template = head.readme if head and head.readme else "tflite/outputs.md"
    parts = _PART.findall(_join_lines(fill_template(template, **facts)))
    return dict.fromkeys(("first", "second", "positions"), "") | {name: " ".join(text.split()) for name, text in parts}


def _round(value: object) -> object:
    if isinstance(value, dict):
        return {name: _round(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_round(one) for one in value]
    return round(value, 4) if isinstance(value, float) else value


def _join_lines(text: str) -> str:
    r"""Join each line that ends with \ to the next one."""
    return text.replace("\\\n", "")


def _wrap(text: str) -> str:
    """Fill the lines of paragraphs and list items; leave tables and code as they are."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _PARAGRAPH.sub(_fill_lines, part) for part in parts)


def _fill_lines(paragraph: re.Match) -> str:
    text = " ".join(paragraph[0].split())
    indent = " " * len(re.match(r"(\d\.|-) |", text)[0])
    lines = textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)
