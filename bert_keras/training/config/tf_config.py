"""Check `TF_CONFIG`, which lists the machines of a training. No TensorFlow here, so that commands can check early."""

import os

from bert_keras.checks import check_value, quote, read_field
from bert_keras.errors import InputError
from bert_keras.files import parse_json


def check_tf_config() -> None:
    """Raise `InputError` unless the environment variable `TF_CONFIG` lists the workers and the index of this one."""
    source, value = "TF_CONFIG", os.environ.get("TF_CONFIG")
    expected = (
        'expected {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}, '
        "with a different index on each machine: set it, or start several workers on this machine with --workers"
    )
    if value is None:
        raise InputError(f"TF_CONFIG is not set; {expected}")
    try:
        config = parse_json(value, source)
        task, cluster = (read_field(config, name, dict, source=source) for name in ("task", "cluster"))
        addresses = read_field(cluster, read_field(task, "type", str, source=source), list[str], source=source)
        index = int(task["index"])  # some cluster managers write it as a string
        check_value(index, int, name="index", source=source, minimum=0, maximum=len(addresses) - 1)
    except (ValueError, KeyError, TypeError, OverflowError):
        raise InputError(f"TF_CONFIG is {quote(value)}; {expected}") from None
