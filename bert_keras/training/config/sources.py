"""Read, validate and merge the sources of a run's settings: recipe, TOML file, options. No TensorFlow here."""

import copy
import dataclasses
import os
import pathlib
import re
import sys
from collections.abc import Mapping, Sequence

from bert_keras.checks import quote
from bert_keras.config import RENAMED_TASK_SETTINGS
from bert_keras.errors import InputError
from bert_keras.heads.known_heads import PRETRAINED_HEADS
from bert_keras.training.config.settings import find_faults, join_faults, list_fields
from bert_keras.training.config.tables import RECIPES, SIZE_FIELDS, START_OPTIMIZER, PhaseSettings, RunSettings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MAX_BYTES = 64 * 2**10  # 50 times the largest recipe
_MAX_KEY_PARTS = 32
# the time of Python's parser is quadratic in the parts of a key: 12 s for a file of 64 kB with one key
_KEY_PART = r"""(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*\.[ \t]*"""
# it matches only where TOML allows keys: a search at every position took 14.8 s for 32,700 times \"
_LONG_KEY = re.compile(rf"(?m)(?:^|[\[{{,])[ \t]*(?:{_KEY_PART}){{{_MAX_KEY_PARTS}}}")
_TABLES = {field.name: field.type for field in dataclasses.fields(RunSettings) if dataclasses.is_dataclass(field.type)}
# the settings of a recipe's model that `start_from` leaves valid
_KEPT_FROM_RECIPE = ("objective", "dtype_policy", "pretraining_dropout")
# keys and values of release 0.1, accepted in this release too
_OLD_KEYS = {"warmup_rate": "warmup_ratio", **RENAMED_TASK_SETTINGS}
OLD_VALUES = {("mask_unit", "piece"): "token"}
# settings of the records that all folders of a run share
_SHARED_BY_RECORDS = ("sentence_objective", "short_sequence_rate", "keep_documents_apart", "packed", "duplicates")


def read_toml(path: pathlib.Path) -> dict:
    """Read a TOML file of at most 64 KiB.

    Raises:
        InputError: the file cannot be read, is too large, or is not TOML in UTF-8.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise InputError(
                f"{path} has more than {_MAX_BYTES:,} bytes; expected a file of settings: choose another file"
            )
        text = content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error}); expected a TOML file: check the path") from None
    try:
        return parse_toml(text)
    except ValueError as error:
        raise InputError(f"{path} is not TOML ({error}); expected one setting per line: correct it") from None


def parse_toml(text: str) -> dict:
    """Parse TOML.

    Raises:
        ValueError: the text is not TOML, or has extremely long keys or numbers.
    """
    if _LONG_KEY.search(text):
        raise ValueError(f"a key has more than {_MAX_KEY_PARTS} parts")
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:  # a number of more than 4,300 digits raises a plain ValueError
        raise ValueError(quote(str(error))[1:-1]) from None


def get_recipe_path(name: str) -> pathlib.Path:
    """Return the TOML file of a recipe, for reading or copying.

    Raises:
        InputError: there is no recipe with that name.
    """
    if name not in RECIPES:
        raise InputError(f"there is no recipe {quote(name)}; expected one of {', '.join(RECIPES)}")
    return pathlib.Path(__file__).with_name(f"recipe_{name.replace('-', '_')}.toml")


def known_keys() -> list[str]:
    """Return every dotted key that the TOML file of a run may contain."""
    tables = {**_TABLES, "phases": PhaseSettings}
    return [
        *list_fields(RunSettings),
        *(f"{name}.{key}" for name, table in tables.items() for key in list_fields(table)),
    ]


def parse_assignments(assignments: Sequence[str]) -> dict[str, object]:
    """Parse "key=value" strings into settings with dotted keys; a value is TOML, or else plain text.

    Raises:
        InputError: an assignment has no "=", or more than one value.

    Example:
        >>> parse_assignments(["optimizer.beta_2=0.98", "records.packed=true", "model.preset=mini"])
        {'optimizer.beta_2': 0.98, 'records.packed': True, 'model.preset': 'mini'}
    """
    settings = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise InputError(
                f"--set {quote(assignment)} has no value; expected KEY=VALUE, such as optimizer.beta_2=0.98"
            )
        try:
            parsed = parse_toml(f"value = {value}")
        except ValueError:
            parsed = {"value": value.strip()}
        if len(parsed) > 1:
            raise InputError(
                f"--set {quote(assignment)} has more than one value; expected KEY=VALUE: repeat --set for each setting"
            )
        settings[key.strip()] = parsed["value"]
    return settings


def infer_settings(manifests: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Infer settings of a run from its records, by dotted keys, for `Pretraining.resolve(defaults=...)`.

    The sentence objective of the records chooses the objective: the first one that reads pairs of sentences, or that
    does not if the records have none.

    Args:
        manifests: the manifests of the run's records folders, in the order of its phases.

    Raises:
        InputError: the folders were made with different settings other than the length.
    """
    first, *others = manifests
    for other in others:
        if different := [name for name in _SHARED_BY_RECORDS if other[name] != first[name]]:
            raise InputError(
                f"the records folders were made with different {', '.join(different)}; expected equal settings except "
                "the length: make them again with the same options"
            )
    settings = {f"records.{name}": first[name] for name in _SHARED_BY_RECORDS}
    settings["records.max_sequence_lengths"] = [manifest["max_sequence_length"] for manifest in manifests]
    has_pairs = first["sentence_objective"] != "none"
    name = next(name for name, head in PRETRAINED_HEADS.items() if head.objective.reads_pairs == has_pairs)
    return settings | {"model.objective": name}


def upgrade_settings(values: Mapping[str, object]) -> dict[str, object]:
    """Replace keys and values of an older release in nested settings by today's."""
    upgraded = {}
    for name, value in values.items():
        name = _OLD_KEYS[name] if name in _OLD_KEYS and _OLD_KEYS[name] not in values else name
        is_old = isinstance(value, str) and (name, value) in OLD_VALUES
        value = upgrade_settings(value) if isinstance(value, Mapping) else value
        upgraded[name] = OLD_VALUES[name, value] if is_old else value
    return upgraded


def read_sources(
    file: str | os.PathLike | None,
    recipe: str | None,
    overrides: Mapping[str, object],
    defaults: Mapping[str, object],
) -> list[tuple[str, dict]]:
    """Read the sources of a run: defaults, recipe, file, overrides; each overrides those before it.

    A run with `start_from` ignores the recipe's model, because the checkpoint determines it.

    Returns:
        A name for messages and the settings of each source, as nested tables that are not validated yet.

    Raises:
        InputError: a file cannot be read.
    """
    sources = [] if file is None else [(str(file), upgrade_settings(read_toml(pathlib.Path(file))))]
    options = upgrade_settings(_nest({**overrides, "recipe": recipe or overrides.get("recipe")}))
    sources += [("the options", options)] if options else []
    recipes = [values["recipe"] for _, values in sources if "recipe" in values]
    models = [values["model"] for _, values in sources if isinstance(values.get("model"), Mapping)]
    has_start = any("start_from" in model for model in models)
    if recipes and recipes[-1] in RECIPES:  # an unknown name is reported with the other faults
        values = read_toml(get_recipe_path(recipes[-1]))
        if has_start:
            values["model"] = {name: values["model"][name] for name in _KEPT_FROM_RECIPE if name in values["model"]}
        sources.insert(0, (f"recipe {recipes[-1]!r}", values))
    if has_start:
        sources.insert(0, ("--start-from", {"optimizer": START_OPTIMIZER}))
    return [("the records", _nest(defaults)), *sources] if defaults else sources


def merge_sources(sources: Sequence[tuple[str, dict]]) -> dict[str, object]:
    """Validate every source and merge them; later ones override earlier ones.

    Raises:
        InputError: values are invalid; the message lists the faults of all sources, each with its source and key.
    """
    keys = known_keys()
    faults = [f"{name}: {fault}" for name, values in sources for fault in find_faults(RunSettings, values, keys)]
    if faults:
        raise InputError(join_faults(faults))
    merged: dict[str, object] = {}
    for _, values in sources:
        merged = _merge(merged, values)
    return merged


def _nest(settings: Mapping[str, object]) -> dict:
    """Convert {"a.b": c} to {"a": {"b": c}}, without values that are None; later values win.

    Raises:
        InputError: a key has both a value and keys inside it.
    """
    nested: dict = {}
    for key, value in settings.items():
        if value is None:
            continue
        table, _, name = key.rpartition(".")
        table, value = (table, {name: value}) if table else (name, value)
        before = nested.get(table)
        if before is not None and isinstance(value, Mapping) != isinstance(before, Mapping):
            plain, inner = (value, before) if isinstance(before, Mapping) else (before, value)
            inner_key = f"{table}.{next(iter(inner), name)}"
            raise InputError(
                f"the options set {quote(table)[1:-1]} to {quote(plain)} and also set {quote(inner_key)[1:-1]}; "
                "expected only one of the two: leave one out"
            )
        nested[table] = {**before, **value} if isinstance(before, Mapping) else value
    return nested


def _merge(lower: dict, upper: dict) -> dict:
    """Merge two valid sources; the upper one wins and removes the lower settings that it replaces as a group."""
    merged = copy.deepcopy(lower)
    if "preset" in upper.get("model", {}):
        for name in SIZE_FIELDS:
            merged.get("model", {}).pop(name, None)
    if upper.get("budget"):
        merged.pop("budget", None)
    if "max_sequence_lengths" in upper.get("records", {}):
        merged.pop("phases", None)
    for name, value in upper.items():
        merged[name] = {**merged.get(name, {}), **value} if name in _TABLES else value
    return merged
