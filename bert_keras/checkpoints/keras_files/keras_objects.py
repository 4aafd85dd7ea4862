"""Which objects the config of a Keras file may hold: those that take no more memory than their weights have."""

import re
from collections.abc import Iterator, Mapping

from bert_keras.checks import quote, read_field
from bert_keras.errors import InputError

_KERAS_HUB = ("keras_hub", "keras_nlp")
_KINDS = "activations|constraints|dtype_policies|initializers|losses|metrics|optimizers|random|regularizers"
_WITHOUT_WEIGHTS = re.compile(rf"keras(\.src)?\.({_KINDS})(\..*)?")  # of Keras itself
_METRICS = re.compile(r"keras(\.src)?\.metrics(\..*)?")
_METRIC_SIZES = (("num_thresholds", "num_labels"), ("num_classes", "num_classes"))  # their products are allocated
_MOST_OF_A_METRIC = 10**7  # 40 MB for each variable; AUC with Keras's 200 thresholds has 200 a label


def objects_in(value: object) -> Iterator[dict]:
    """Yield every object in a JSON value."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()


def is_metric(part: Mapping) -> bool:
    """Tell the object of a metric of Keras from others."""
    return bool(_METRICS.fullmatch(str(part.get("module"))))


def check_objects(config: object, source: str) -> None:
    """Raise `InputError` if a Keras config holds a layer or a model beside ours and KerasHub's BERT, or a huge metric.

    Keras makes every object that a config holds, a dense layer with billions of weights too, before it looks at the
    weights. Ours and KerasHub's BERT are counted, see `keras_weights.check_fits`.
    """
    for part in objects_in(config):
        if "class_name" not in part or "config" not in part:
            continue
        if not _is_counted_or_small(part):
            raise InputError(
                f"{source} holds a {quote(part['class_name'])} of {quote(part.get('module'))}; expected models of "
                "bert_keras or KerasHub's BERT, and Keras's optimizers, losses and metrics beside them: copy it again "
                "from its source"
            )
        if is_metric(part) and isinstance(part["config"], dict):
            _check_metric(part, source)


def _is_counted_or_small(part: Mapping) -> bool:
    name, module = str(part["class_name"]), str(part.get("module"))
    package, _, registered = str(part.get("registered_name", name)).rpartition(">")
    root = module.partition(".")[0]
    if root in _KERAS_HUB or package in _KERAS_HUB:
        return name.startswith("Bert") and registered.startswith("Bert")
    if root == "keras":
        return name.endswith("DTypePolicy") if module == "keras" else bool(_WITHOUT_WEIGHTS.fullmatch(module))
    return root == "bert_keras" or "build_config" not in part  # a loss or metric of the user's own has none


def _check_metric(part: Mapping, source: str) -> None:
    place = f"{source}, in {quote(part['class_name'])},"
    for names in _METRIC_SIZES:
        one, other = (read_field(part["config"], name, int, source=place, default=None) or 1 for name in names)
        if one * other > _MOST_OF_A_METRIC:
            raise InputError(
                f"{place} sets {' and '.join(dict.fromkeys(names))} so that a metric has {one * other:,} numbers; "
                f"expected {_MOST_OF_A_METRIC:,} at most: save the model without compiling it with this metric"
            )
