"""Complete the model card of a folder for a repository: metadata, scores, names in its code, and artifacts."""

import dataclasses
import re
from collections.abc import Mapping, Sequence

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.huggingface.model_card import (
    CardFacts,
    MeasuredScores,
    build_metadata,
    build_score_metadata,
    format_card,
    format_metadata,
    is_default_widget,
    replace_folder,
)
from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.export.template_files import fill_template
from bert_keras.heads.known_heads import get_head
from bert_keras.hub.names import PREFIX

_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_REPOSITORY = r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)?"  # "squad" has no owner
_FORMS = {  # option: what its value looks like, and examples
    "license": (r"[a-z0-9][a-z0-9.+-]*", "an identifier of the Hub, such as apache-2.0, mit or cc-by-4.0"),
    "base_model": (_REPOSITORY, "the name of a model on the Hub, such as google-bert/bert-base-uncased"),
    "dataset": (_REPOSITORY, "the name of a data set on the Hub, such as stanfordnlp/imdb"),
    "language": (r"[a-z]{2,3}|multilingual|code", "a code of ISO 639, such as en or deu, or multilingual"),
}
_SECOND_TEXT = "It was raining."  # of a pair
_ARTIFACT_TAGS = (("onnx", "onnx"), ("onnx", "transformers.js"), ("tflite", "tflite"))  # by which people find models
_RUNTIMES = {
    "onnx": "onnxruntime, OpenVINO, transformers.js, optimum",
    "tflite": "LiteRT on phones and in browsers",
    "saved_model": "TensorFlow Serving",
}


@dataclasses.dataclass(frozen=True)
class CardOptions:
    """What only the user knows about a model, for its card.

    Attributes:
        license: identifier of its license.
        base_model: the model on the Hub that it was made from.
        datasets: the data sets on the Hub that it was trained on.
        languages: codes of its languages.

    Raises:
        InputError: a value has a form that the Hub does not accept.
    """

    license: str | None = None
    base_model: str | None = None
    datasets: Sequence[str] = ()
    languages: Sequence[str] = ()

    def __post_init__(self):
        object.__setattr__(self, "base_model", self.base_model and self.base_model.removeprefix(PREFIX))
        given = [("license", self.license), ("base_model", self.base_model)]
        given += [("dataset", name) for name in self.datasets] + [("language", code) for code in self.languages]
        for name, value in given:
            form, expected = _FORMS[name]
            if value is not None and not re.fullmatch(form, value):
                raise InputError(f"{name} is {quote(value)}; expected {expected}: correct it, or leave it out")

    def to_metadata(self) -> dict:
        """Return the keys of the metadata that were given."""
        metadata = {"license": self.license, "base_model": self.base_model, "datasets": list(self.datasets)}
        metadata["language"] = self.languages[0] if len(self.languages) == 1 else list(self.languages)
        return {name: value for name, value in metadata.items() if value}


def complete_card(
    card: str | None,
    repository: str,
    checkpoint: Checkpoint,
    options: CardOptions,
    *,
    metrics: Mapping[str, object] | None = None,
    artifacts: Sequence[str] = (),
) -> str:
    """Return the card of a repository.

    What the user wrote into the card is kept, except keys of the metadata that `options` sets.

    Args:
        card: the card of the folder; None: it has none.
        repository: "ORG/NAME".
        checkpoint: the checkpoint.
        options: what the user says about the model.
        metrics: content of the folder's `metrics.json`.
        artifacts: the artifacts that are pushed, as paths in the repository.

    Raises:
        InputError: the metadata of the card is invalid.
    """
    facts = CardFacts.of_checkpoint(checkpoint)
    metadata, body = split_card(format_card(facts) if card is None else card)
    if "bert-keras" in (metadata.get("tags") or ()) and metadata.get("library_name") == "keras":
        del metadata["library_name"]  # of release 0.1; transformers opens the folder, Keras alone does not
    defaults = build_metadata(facts.kind, facts.config.model_type)
    del defaults["widget"]  # a card without one may have lost it on purpose
    metadata = {**defaults, **metadata, **options.to_metadata()}
    metadata |= _complete_scores(metadata, facts, options, metrics, repository.split("/")[1])
    tags = metadata.get("tags")
    tags = [tags] if isinstance(tags, str) else list(tags or ())
    kinds = {name.split("/")[0] for name in artifacts}
    tags += [tag for kind, tag in _ARTIFACT_TAGS if kind in kinds]
    metadata["tags"] = list(dict.fromkeys(tags))
    if is_default_widget(metadata.get("widget")) and options.languages and "en" not in options.languages:
        del metadata["widget"]  # its texts are English
    if artifacts:
        body = body.rstrip() + "\n\n" + write_artifact_snippets(facts, artifacts, repository)
    return format_metadata(metadata) + "\n" + replace_folder(body, repository)


def split_card(card: str) -> tuple[dict, str]:
    """Return the metadata and the text of a card.

    Raises:
        InputError: the metadata is not a YAML mapping.
    """
    import yaml  # installed with huggingface_hub

    match = _FRONT_MATTER.match(card)
    if match is None:
        return {}, "\n" + card.lstrip()
    try:
        metadata = yaml.safe_load(match[1]) or {}
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"README.md has metadata that is not YAML ({reason}): correct it") from None
    if not isinstance(metadata, dict) or not all(isinstance(name, str) for name in metadata):
        raise InputError("README.md has metadata that is not a YAML mapping with strings as keys: correct it")
    return metadata, "\n" + card[match.end() :].lstrip("\r\n")


def _complete_scores(
    metadata: Mapping[str, object],
    facts: CardFacts,
    options: CardOptions,
    metrics: Mapping[str, object] | None,
    name: str,
) -> dict:
    """Return `metrics` and `model-index` with the name of the repository, from the card or from `metrics.json`."""
    index = metadata.get("model-index")
    if isinstance(index, list) and len(index) == 1 and isinstance(index[0], dict):
        results = [_name_dataset(result, options) for result in index[0].get("results") or ()]
        return {"model-index": [{**index[0], "name": name, "results": results}]}
    if index is not None or not metrics:
        return {}
    held_out = metrics.get("held_out")
    number = held_out.get("examples") if isinstance(held_out, dict) else None
    dataset = f"{number:,} held-out examples" if isinstance(number, int) else "held-out examples"
    measured = MeasuredScores({key: value for key, value in metrics.items() if key not in ("epoch", "epochs")}, dataset)
    return build_score_metadata(
        facts.kind, measured, name=name, dataset=options.datasets[0] if options.datasets else ""
    )


def _name_dataset(result: object, options: CardOptions) -> object:
    """Return a result of the model index with the data set that the user named instead of our placeholder."""
    if not options.datasets or not isinstance(result, dict) or not isinstance(result.get("dataset"), dict):
        return result
    if result["dataset"].get("type") != "held-out":
        return result
    return {**result, "dataset": {**result["dataset"], "type": options.datasets[0]}}


def write_artifact_snippets(facts: CardFacts, artifacts: Sequence[str], repository: str) -> str:
    """Return the section of a model card about the artifacts of a repository: files, and code that runs them.

    Args:
        facts: the model.
        artifacts: the paths of the artifacts in the repository.
        repository: "ORG/NAME", for commands.
    """
    head = get_head(facts.kind)
    texts = [*zip(head.inputs, head.example, strict=True), *[("second_text", _SECOND_TEXT)] * facts.has_pairs]
    # whether the pipeline of transformers.js, if there is one for the head, has the answers of the model
    has_pipeline = facts.pooling in (None, "mean", "cls") and not facts.has_pairs and facts.problem != "regression"
    quoted = ", ".join(f'"{text}"' for _, text in texts)
    onnx = sorted((name for name in artifacts if name.startswith("onnx/")), key=lambda name: "quantized" not in name)
    has_onnx = bool(onnx) and head.task is not None
    return fill_template(
        "push/artifacts.md",
        repository=repository,
        artifacts=[{"path": name, "runtime": _RUNTIMES[name.split("/")[0]]} for name in artifacts],
        onnx=onnx[0] if has_onnx else "",
        javascript=head.javascript if has_onnx and has_pipeline else "",
        dtype="q8" if has_onnx and "quantized" in onnx[0] else "fp32",
        example=f"({quoted})" if len(texts) > 1 else quoted,
        options=(
            f', {{ pooling: "{facts.pooling}", normalize: {str(facts.normalize).lower()} }}' if facts.pooling else ""
        ),
        tflite=next((name for name in artifacts if name.startswith("tflite/")), ""),
        saved_model=any(name.startswith("saved_model/") for name in artifacts),
        inputs=", ".join(f'"{name}": ["{text}"]' for name, text in texts),
    )
