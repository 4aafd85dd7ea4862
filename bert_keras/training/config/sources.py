"""The layers that a run's settings are put together from: recipe, file, flags. No TensorFlow here."""

import copy
import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.training.config.settings import Settings, choice, listed, read_table, text, unknown_keys, whole
from bert_keras.training.config.tables import (
    SIZE_FIELDS,
    START_OPTIMIZER,
    BatchesSettings,
    BudgetSettings,
    EvaluationSettings,
    ModelSettings,
    OptimizerSettings,
    PhaseSettings,
    RecordsSettings,
    SpeedSettings,
)
from bert_keras.training.config.toml_files import parse_toml, read_toml

RECIPES = ("bert", "roberta", "electra-small", "24h", "cramming")
TABLES: dict[str, type[Settings]] = {
    "model": ModelSettings,
    "records": RecordsSettings,
    "batches": BatchesSettings,
    "optimizer": OptimizerSettings,
    "budget": BudgetSettings,
    "evaluation": EvaluationSettings,
    "speed": SpeedSettings,
}

_KEPT_OF_A_RECIPE = ("objective", "dtype_policy")  # of its model, where a run starts from a checkpoint


@dataclasses.dataclass(frozen=True)
class TopLevel(Settings):
    """What stands above the tables: see `recipes.Pretraining`."""

    recipe: str | None = choice(None, RECIPES)
    source: str = text("")
    seed: int = whole(0, minimum=0, maximum=2**31 - 1)


def recipe_path(name: str) -> pathlib.Path:
    """Returns the TOML file of a recipe, to be read or copied; raises `InputError` if there is none of that name."""
    if name not in RECIPES:
        raise InputError(f"there is no recipe {quote(name)}; expected one of {', '.join(RECIPES)}")
    return pathlib.Path(__file__).with_name(f"recipe_{name.replace('-', '_')}.toml")


def known_keys() -> list[str]:
    """Returns every dotted key that a run's file may hold; those of `[[phases]]` stand as one."""
    top = [field.name for field in dataclasses.fields(TopLevel)]
    return [*top, "phases", *(f"{name}.{field.name}" for name in TABLES for field in dataclasses.fields(TABLES[name]))]


def parse_assignments(assignments: Sequence[str]) -> dict[str, object]:
    """Returns settings from "key=value" strings, by dotted keys; a value is TOML, or else text as it stands.

    Raises:
        InputError: one has no "=", or more than one value.

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
                f"--set {quote(assignment)} holds more than one value; expected KEY=VALUE: repeat --set for each "
                "setting"
            )
        settings[key.strip()] = parsed["value"]
    return settings


def raw_layers(
    file: str | os.PathLike | None,
    recipe: str | None,
    overrides: Mapping[str, object],
    defaults: Mapping[str, object],
) -> list[tuple[str, dict]]:
    """Returns (where it stands, unchecked settings) of each layer, the weakest first; `defaults` are the weakest.

    Of a run that starts from a checkpoint, the recipe's model is left out: the checkpoint decides it.

    Raises:
        InputError: a file cannot be read.
    """
    layers = [] if file is None else [(str(file), read_toml(pathlib.Path(file)))]
    flags = _nested({**overrides, "recipe": recipe or overrides.get("recipe")})
    layers += [("the flags", flags)] if flags else []
    named = [raw["recipe"] for _, raw in layers if "recipe" in raw]
    starts = any("start_from" in raw["model"] for _, raw in layers if isinstance(raw.get("model"), Mapping))
    if named and named[-1] in RECIPES:  # another name is told with all other faults
        recipe = read_toml(recipe_path(named[-1]))
        if starts:
            recipe["model"] = {name: recipe["model"][name] for name in _KEPT_OF_A_RECIPE if name in recipe["model"]}
        layers.insert(0, (f"recipe {named[-1]!r}", recipe))
    if starts:
        layers.insert(0, ("--start-from", {"optimizer": START_OPTIMIZER}))
    return [("the records", _nested(defaults)), *layers] if defaults else layers


def merged_layers(layers: list[tuple[str, dict]]) -> dict:
    """Checks every layer and puts them on each other.

    Raises:
        InputError: all faults of all layers, each with its layer and key.
    """
    values, faults = {}, []
    for origin, raw in layers:
        layer, wrong = _read_layer(raw)
        faults += [f"{origin}: {fault}" for fault in wrong]
        values = _merged(values, layer)
    if faults:
        raise InputError(listed(faults))
    return values


def _nested(overrides: Mapping[str, object]) -> dict:
    """Return {"a.b": c} as {"a": {"b": c}}, without what is None; a later value wins.

    Raises:
        InputError: a key has a value, and so has a key in it.
    """
    nested: dict = {}
    for key, value in overrides.items():
        table, _, name = key.rpartition(".")
        if value is None:
            continue
        table, value = (table, {name: value}) if table else (name, value)
        before = nested.get(table)
        if isinstance(value, Mapping) != isinstance(before, Mapping) and before is not None:
            plain, inside = (value, before) if isinstance(before, Mapping) else (before, value)
            raise InputError(
                f"the flags set {quote(table)[1:-1]} to {quote(plain)}, and "
                f"{quote(f'{table}.{next(iter(inside), name)}')[1:-1]} "
                "in it as well; expected one of the two: leave one out"
            )
        nested[table] = {**before, **value} if isinstance(before, Mapping) else value
    return nested


def _read_layer(raw: Mapping[str, object]) -> tuple[dict, list[str]]:
    """Checks one layer: its values, table by table, and its faults."""
    keys, faults, values = known_keys(), [], {}
    top = {name: value for name, value in raw.items() if name not in TABLES and name != "phases"}
    for name in [name for name, value in top.items() if isinstance(value, Mapping)]:
        faults += unknown_keys([f"{name}.{key}" for key in top.pop(name)], keys)
    parts = {"": (TopLevel, top)} | {name: (TABLES[name], raw[name]) for name in TABLES if name in raw}
    for name, (table, given) in parts.items():
        read, wrong = read_table(table, given, f"{name}." if name else "", keys)
        values |= {name: read} if name else read
        faults += wrong
    if "phases" in raw:
        values["phases"], wrong = _read_phases(raw["phases"])
        faults += wrong
    return values, faults


def _read_phases(raw: object) -> tuple[list[dict], list[str]]:
    if not isinstance(raw, list | tuple):
        return [], [f"phases is {quote(raw)}, expected a list of tables: write [[phases]]"]
    keys = [f"phases.{field.name}" for field in dataclasses.fields(PhaseSettings)]
    read = [read_table(PhaseSettings, phase, "phases.", keys) for phase in raw]
    faults = [f"phase {number}: {fault}" for number, (_, wrong) in enumerate(read, 1) for fault in wrong]
    return [values for values, _ in read], faults


def _merged(lower: dict, upper: dict) -> dict:
    """Returns the settings of both layers; the upper one wins, and takes back what it contradicts."""
    merged = copy.deepcopy(lower)
    if "preset" in upper.get("model", {}):
        for name in SIZE_FIELDS:
            merged.get("model", {}).pop(name, None)
    if upper.get("budget"):
        merged.pop("budget", None)
    if "max_sequence_lengths" in upper.get("records", {}):
        merged.pop("phases", None)
    for name, value in upper.items():
        merged[name] = {**merged.get(name, {}), **value} if name in TABLES else value
    return merged
