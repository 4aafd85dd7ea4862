"""Choose the model of a request whose URL names none."""

from collections.abc import Collection

from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.models.repository import ModelRepository
from bert_keras.serving.models.served_version import ServedVersion


def select_version(
    repository: ModelRepository, tasks: Collection[str], name: str | None = None, version: int | None = None
) -> ServedVersion:
    """Return the newest version of the named model, or of the only one that does one of the tasks.

    Args:
        repository: the models.
        tasks: the names of the tasks that can answer the request.
        name: the model that the request names.
        version: the version that it names.

    Raises:
        ServingError: there is no such model, it does another task, or several could answer.
    """
    wanted = " or ".join(sorted(tasks))
    if name is not None:
        chosen = repository.get(name, version)
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


def _does(repository: ModelRepository, name: str, tasks: Collection[str]) -> bool:
    try:
        return repository.get(name).description["task"] in tasks
    except ServingError:  # no version of it is loaded
        return False


def _list_tasks(repository: ModelRepository) -> str:
    tasks = {version.name: version.description["task"] for version in repository.list_versions()}
    return ", ".join(f"{name} ({task})" for name, task in sorted(tasks.items())) or "none is loaded"
