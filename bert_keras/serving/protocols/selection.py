"""Find the model that a request names, or choose one."""

from collections.abc import Collection

from bert_keras.checks import quote
from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.http.endpoint import Call
from bert_keras.serving.models.repository import ModelRepository
from bert_keras.serving.models.served_version import ServedVersion

_MAX_DIGITS = 19  # of a 64-bit number


def select_version(repository: ModelRepository, tasks: Collection[str], name: str | None = None) -> ServedVersion:
    """Return the newest version of the named model, or of the only one that does one of the tasks.

    Args:
        repository: the models.
        tasks: the names of the tasks that can answer the request.
        name: the model that the request names.

    Raises:
        ServingError: there is no such model, it does another task, or several could answer.
    """
    wanted = " or ".join(sorted(tasks))
    if name is not None:
        chosen = repository.get(name)
        if chosen.description["task"] not in tasks:
            raise ServingError(
                Reason.UNSUPPORTED,
                f"{name} does the task {chosen.description['task']}, and this endpoint needs {wanted}: call another",
            )
        return chosen
    fitting = [repository.get(one) for one in repository.names if _does(repository, one, tasks)]
    if not fitting:
        raise ServingError(
            Reason.UNSUPPORTED,
            f"this server has no model for the task {wanted}; its models: {_list_tasks(repository)}",
        )
    if len(fitting) > 1:
        names = ", ".join(sorted(version.name for version in fitting))
        raise ServingError(Reason.INVALID, f"several models can answer, {names}; name one of them in `model`")
    return fitting[0]


def find_version(call: Call) -> ServedVersion:
    """Return the version that a URL names, by default the newest.

    Raises:
        ServingError: there is no such model, version or label.
    """
    parameters = call.parameters
    return call.repository.get(parameters["name"], read_version(parameters.get("version")), parameters.get("label"))


def read_version(text: str | None) -> int | None:
    """Return the number of a version; None for none.

    Raises:
        ServingError: it is not a number.
    """
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < _MAX_DIGITS):
        raise ServingError(Reason.INVALID, f"the version is {quote(text)}; expected a number, or none for the newest")
    return int(text)


def _does(repository: ModelRepository, name: str, tasks: Collection[str]) -> bool:
    try:
        return repository.get(name).description["task"] in tasks
    except ServingError:  # no version of it is loaded
        return False


def _list_tasks(repository: ModelRepository) -> str:
    tasks = {version.name: version.description["task"] for version in repository.list_versions()}
    return ", ".join(f"{name} ({task})" for name, task in sorted(tasks.items())) or "none is loaded"
