"""Check the objects in the config of a Keras file: only those that cannot need more memory than their weights."""

import re
from collections.abc import Iterator, Mapping

from bert_keras.checks import quote, read_field
from bert_keras.errors import InputError

_KERAS_HUB = ("keras_hub", "keras_nlp")
_KINDS = "activations|constraints|dtype_policies|initializers|losses|metrics|optimizers|random|regularizers"
_WITHOUT_WEIGHTS = re.compile(rf"keras(\.src)?\.({_KINDS})(\..*)?")  # modules of Keras
_METRICS = re.compile(r"keras(\.src)?\.metrics(\..*)?")
# pairs of arguments whose product is the size of a metric's variables
_METRIC_SIZES = (("num_thresholds", "num_labels"), ("num_classes", "num_classes"))
_MAX_METRIC_SIZE = 10**7  # 40 MB per variable; AUC with Keras's 200 thresholds has 200 numbers per label


def iterate_objects(value: object) -> Iterator[dict]:
    """Yield all JSON objects in a JSON value."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
        waiting += item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()


def is_metric(part: Mapping) -> bool:
    """Whether an object is a Keras metric."""
    return bool(_METRICS.fullmatch(str(part.get("module"))))


def check_objects(config: object, source: str) -> None:
    """Raise `InputError` if a Keras config has a third-party layer or model, or a huge metric.

    Keras builds all objects of a config before it reads the weights, even a dense layer with billions of parameters.
    For our models and KerasHub's BERT, `keras_weights.check_fits` counts the parameters.
    """
    for part in iterate_objects(config):
        if "class_name" not in part or "config" not in part:
            continue
        if not _is_allowed(part):
            raise InputError(
                f"{source} holds a {quote(part['class_name'])} of {quote(part.get('module'))}; expected models of "
                "bert_keras or KerasHub's BERT, and optimizers, losses and metrics of Keras: copy it again from its "
                "source"
            )
        if is_metric(part) and isinstance(part["config"], dict):
            _check_metric(part, source)


def _is_allowed(part: Mapping) -> bool:
    """Whether an object has no parameters, or `check_fits` counts them."""
    name, module = str(part["class_name"]), str(part.get("module"))
    package, _, registered = str(part.get("registered_name", name)).rpartition(">")
    root = module.partition(".")[0]
    if root in _KERAS_HUB or package in _KERAS_HUB:
        return name.startswith("Bert") and registered.startswith("Bert")
    if root == "keras":
        return name.endswith("DTypePolicy") if module == "keras" else bool(_WITHOUT_WEIGHTS.fullmatch(module))
    return root == "bert_keras" or "build_config" not in part  # a user's loss or metric has no build_config


def _check_metric(part: Mapping, source: str) -> None:
    """Raise `InputError` if a metric has more than 10 million numbers."""
    place = f"{source}, in {quote(part['class_name'])},"
    for names in _METRIC_SIZES:
        one, other = (read_field(part["config"], name, int, source=place, default=None) or 1 for name in names)
        if one * other > _MAX_METRIC_SIZE:
            raise InputError(
                f"{place} sets {' and '.join(dict.fromkeys(names))} so that the metric has {one * other:,} numbers; "
                f"expected {_MAX_METRIC_SIZE:,} at most: save the model without this metric"
            )
