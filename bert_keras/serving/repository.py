"""`ModelRepository`: the models of the server, their versions and labels, and changes from one version to another."""

import asyncio
import dataclasses
import enum
import functools
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bert_keras.checks import format_names, quote
from bert_keras.errors import InputError
from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.model_folders import Fingerprint, FoundVersion, ModelSource, find_versions
from bert_keras.serving.served_version import ServedVersion


class State(enum.IntEnum):
    """The states of a version, with the numbers of TensorFlow Serving."""

    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


@dataclasses.dataclass(frozen=True)
class ModelSettings:
    """A model to serve.

    Attributes:
        name: its name in URLs.
        folder: see `find_versions`.
        engine: see `ModelSource`.
        quantized: whether to run the 8-bit ONNX files.
        threads: see `ModelSource`.
        instances: see `ModelSource`.
        num_versions: number of newest versions that are served at the same time.
        labels: version numbers, keyed by label. Versions with a label are served too, however old.
    """

    name: str
    folder: pathlib.Path
    engine: str | None = None
    quantized: bool = False
    threads: int | None = None
    instances: int | None = None
    num_versions: int = 1
    labels: Mapping[str, int] = dataclasses.field(default_factory=dict)


class VersionStatus(NamedTuple):
    """State of a version, and why it is not loaded.

    Attributes:
        state: its state.
        message: why it could not be loaded; "" if it could.
    """

    state: State
    message: str = ""


class _Model:
    """A model with its versions."""

    def __init__(self, settings: ModelSettings):
        self.settings = settings
        self.versions: dict[int, ServedVersion] = {}  # those that answer
        self.statuses: dict[int, VersionStatus] = {}
        self.loaded: dict[int, Fingerprint] = {}
        self.failed: dict[int, Fingerprint] = {}
        self.last_seen: dict[int, Fingerprint] = {}
        self.offset = 0  # added to the numbers of a folder without versions, each time its files change


class ModelRepository:
    """The models of the server.

    Args:
        models: the models to serve; their names differ.
        log: called with a sentence about each event.
    """

    def __init__(self, models: list[ModelSettings], log: Callable[[str], None]):
        self._models = {settings.name: _Model(settings) for settings in models}
        self._log = log
        self._draining: set[asyncio.Task] = set()

    @property
    def names(self) -> list[str]:
        """The names of the models."""
        return list(self._models)

    @property
    def is_ready(self) -> bool:
        """Whether each model has a version that answers."""
        return all(any(version.is_ready for version in model.versions.values()) for model in self._models.values())

    async def load(self) -> None:
        """Load all models.

        Raises:
            InputError: a model has no version that can be loaded.
        """
        await asyncio.gather(*(self._update(model, is_start=True) for model in self._models.values()))
        for model in self._models.values():
            if not model.versions:
                problems = [status.message for status in model.statuses.values() if status.message]
                nothing = f"{model.settings.folder} has no model; expected an output folder of export: check the path"
                raise InputError(f"{model.settings.name} cannot be loaded: {problems[0] if problems else nothing}")

    async def watch(self, seconds: float) -> None:
        """Look for new versions again and again, and change to them."""
        while True:
            await asyncio.sleep(seconds)
            for model in self._models.values():
                try:
                    await self._update(model)
                except Exception as error:  # the server must answer, whatever is wrong with a folder
                    self._log(f"{model.settings.folder} cannot be read ({type(error).__name__}: {error})")

    def get(self, name: str, version: int | None = None, label: str | None = None) -> ServedVersion:
        """Return a version of a model, by default the newest.

        Raises:
            ServingError: there is no such model, version or label, or it is not loaded.
        """
        model = self._get_model(name)
        if label is not None:
            if label not in model.settings.labels:
                known = format_names(model.settings.labels) or "no labels"
                raise ServingError(Reason.INVALID, f"{name} has no label {quote(label)}; it has {known}")
            version = model.settings.labels[label]
        if version is None and model.versions:
            return model.versions[max(model.versions)]
        if version not in model.versions:
            known = ", ".join(map(str, sorted(model.versions))) or "none"
            wanted = "a version" if version is None else f"version {version}"
            raise ServingError(Reason.NOT_FOUND, f"{name} does not serve {wanted}; loaded versions: {known}")
        return model.versions[version]

    def list_statuses(self, name: str, version: int | None = None) -> dict[int, VersionStatus]:
        """Return the status of each version that was seen, the newest first.

        Raises:
            ServingError: there is no such model or version.
        """
        statuses = self._get_model(name).statuses
        if version is not None and version not in statuses:
            raise ServingError(Reason.NOT_FOUND, f"{name} has no version {version}; known: {sorted(statuses)}")
        return {number: statuses[number] for number in sorted(statuses, reverse=True) if version in (None, number)}

    def list_versions(self) -> list[ServedVersion]:
        """Return all versions that answer."""
        return [version for model in self._models.values() for version in model.versions.values()]

    async def close(self) -> None:
        """Wait for the results of all jobs and end all worker processes."""
        for model in self._models.values():
            for number in list(model.versions):
                self._drain(model, number)
        await asyncio.gather(*self._draining)

    def _get_model(self, name: str) -> _Model:
        if name not in self._models:
            raise ServingError(
                Reason.NOT_FOUND, f"there is no model {quote(name)}; this server has {format_names(self.names, 10)}"
            )
        return self._models[name]

    async def _update(self, model: _Model, *, is_start: bool = False) -> None:
        """Load the versions that should be served, then drain those that should not."""
        found = {version.number: version for version in await self._find(model)}
        labelled = [number for number in model.settings.labels.values() if number in found]
        settled = {number for number in found if is_start or model.last_seen.get(number) == found[number].fingerprint}
        model.last_seen = {number: version.fingerprint for number, version in found.items()}
        served: set[int] = set()
        for number in sorted(found, reverse=True):  # an older version stays until a newer one answers
            if len(served - set(labelled)) >= model.settings.num_versions:
                break
            if await self._load_if_needed(model, found[number], is_settled=number in settled):
                served.add(number)
        for number in labelled:
            if number not in served and await self._load_if_needed(model, found[number], is_settled=number in settled):
                served.add(number)
        if served:
            for number in [number for number in model.versions if number not in served]:
                self._drain(model, number)

    async def _find(self, model: _Model) -> list[FoundVersion]:
        settings = model.settings
        find = functools.partial(find_versions, settings.folder, settings.engine, quantized=settings.quantized)
        versions = await asyncio.get_running_loop().run_in_executor(None, find)  # a network drive can be slow
        if len(versions) != 1 or versions[0].number != 1 or versions[0].path.name == "1":
            return versions
        version = versions[0]._replace(number=1 + model.offset)  # a folder without versions
        before = model.loaded.get(version.number, version.fingerprint)
        if before != version.fingerprint and model.last_seen.get(version.number) == version.fingerprint:
            model.offset += 1  # its files were replaced and are complete
            model.last_seen[version.number + 1] = version.fingerprint
            version = version._replace(number=version.number + 1)
        return [version]

    async def _load_if_needed(self, model: _Model, found: FoundVersion, *, is_settled: bool) -> bool:
        """Load a version unless it is loaded, failed before, or is still being written; return whether it answers."""
        number = found.number
        if number in model.versions:
            return True
        if not is_settled or model.failed.get(number) == found.fingerprint:
            return False
        settings = model.settings
        model.statuses[number] = VersionStatus(State.LOADING)
        source = ModelSource(str(found.path), settings.engine, settings.threads, settings.instances)
        version = ServedVersion(settings.name, number, source, self._log)
        try:
            await version.load()
        except (InputError, OSError) as error:
            model.failed[number] = found.fingerprint
            model.statuses[number] = VersionStatus(State.END, str(error))
            self._log(f"{settings.name} version {number} cannot be loaded: {error}")
            return False
        model.versions[number], model.loaded[number] = version, found.fingerprint
        model.statuses[number] = VersionStatus(State.AVAILABLE)
        self._log(f"{settings.name} version {number} answers, engine {version.description['engine']}")
        return True

    def _drain(self, model: _Model, number: int) -> None:
        """Take a version out of service; its process ends when its last job has a result."""
        version = model.versions.pop(number)
        model.statuses[number] = VersionStatus(State.UNLOADING)

        async def drain() -> None:
            await version.drain()
            model.statuses[number] = VersionStatus(State.END)
            self._log(f"{version.name} version {number} is unloaded")

        task: Any = asyncio.get_running_loop().create_task(drain())
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)
