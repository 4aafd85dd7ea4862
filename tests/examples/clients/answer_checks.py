"""Compare a client's answers with those of `Predictor`."""

import json
import math
import pathlib
from collections.abc import Mapping, Sequence

import bert_keras as bk

from .client_process import ClientProcess
from .text_units import find_places, replace_surrogates

_PLACES = ("start", "end")


def check_answers(
    client: ClientProcess,
    predictor: bk.Predictor,
    examples: Sequence[str | tuple[str, str]],
    *,
    tolerance: float = 1e-4,
) -> None:
    """Check that all labels, ranges and texts are equal, and all numbers are close.

    Args:
        client: the client.
        predictor: the predictor of the same model, with the same task.
        examples: texts, or pairs of texts. Those with a lone surrogate are compared with the text that has U+FFFD in
            its place.
        tolerance: largest difference of a number, relative to numbers above 1.
    """
    examples = [(one,) if isinstance(one, str) else one for one in examples]
    answers = predictor([tuple(map(replace_surrogates, texts)) for texts in examples])
    for texts, expected, got in zip(
        examples, answers, client.ask_all([{"answer": texts} for texts in examples]), strict=True
    ):
        expected.pop("id", None)  # of questions in a file
        units = find_places(texts[-1], is_utf16=client.is_utf16)
        problem = _find_difference(got, expected, units, tolerance)
        assert problem is None, f"{problem}; the texts are {texts!a}, the answer is {got}, expected {expected}"


def _find_difference(got: object, expected: object, units: Sequence[int], tolerance: float) -> str | None:
    """Return the first difference of two JSON values."""
    if isinstance(expected, Mapping):
        if not isinstance(got, Mapping) or set(got) != set(expected):
            return f"the keys differ: {list(got)}, expected {list(expected)}"
        expected = {
            name: int(units[value]) if name in _PLACES and value is not None else value
            for name, value in expected.items()
        }
        pairs = [(name, got[name], value) for name, value in expected.items()]
    elif isinstance(expected, list):
        if not isinstance(got, list) or len(got) != len(expected):
            return f"{got!r:.200} has another length than {expected!r:.200}"
        pairs = [(index, *pair) for index, pair in enumerate(zip(got, expected, strict=True))]
    else:
        return None if _is_close(got, expected, tolerance) else f"{got!r:.200} is not {expected!r:.200}"
    problems = ((name, _find_difference(*pair, units, tolerance)) for name, *pair in pairs)
    return next((f"{name}: {problem}" for name, problem in problems if problem), None)


def _is_close(got: object, expected: object, tolerance: float) -> bool:
    if isinstance(expected, str):
        return isinstance(got, str) and replace_surrogates(got) == expected
    if isinstance(expected, float):
        return isinstance(got, int | float) and math.isclose(got, expected, rel_tol=tolerance, abs_tol=tolerance)
    return got == expected and type(got) is type(expected)


def check_probes(client: ClientProcess, path: pathlib.Path, *, tolerance: float = 1e-4) -> None:
    """Check that a client gives the answers of the probes in `model.json`.

    Args:
        client: the client, with a float32 file.
        path: the path of `model.json`.
        tolerance: as in `check_answers`.
    """
    probes = json.loads(path.read_text("utf-8"))["probes"]
    assert len(probes) >= 3
    for probe, got in zip(probes, client.ask_all([{"answer": probe["texts"]} for probe in probes]), strict=True):
        expected = probe["answer"]
        if "embedding_start" in expected:
            got["embedding_start"] = got["embedding"][: len(expected["embedding_start"])]
        units = find_places(probe["texts"][-1], is_utf16=client.is_utf16)
        problem = _find_difference({name: got.get(name) for name in expected}, expected, units, tolerance)
        assert problem is None, f"{problem}; the probe is {probe}, the answer is {got}"
