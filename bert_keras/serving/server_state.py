"""`ServerState`: the models, settings, limits and metrics that all requests share."""

import itertools
import secrets
from collections.abc import Callable

from bert_keras.serving.admission import Admission
from bert_keras.serving.metrics import ServerMetrics
from bert_keras.serving.models.repository import ModelRepository
from bert_keras.serving.settings import ServerSettings
from bert_keras.serving.tracing import Tracer


class ServerState:
    """The models, settings, limits and metrics that all requests share.

    Args:
        repository: the models.
        settings: the settings.
        log: called with a line for each request, if the settings ask for it, and with unexpected errors.
    """

    def __init__(self, repository: ModelRepository, settings: ServerSettings, log: Callable[[str], None]):
        self.repository, self.settings, self.log = repository, settings, log
        self.metrics = ServerMetrics()
        self.admission = Admission(settings.max_requests)
        self.tracer = None if settings.otlp_endpoint is None else Tracer(settings.otlp_endpoint)
        self.is_draining = False
        self._prefix = secrets.token_hex(4)
        self._numbers = itertools.count(1)

    @property
    def is_ready(self) -> bool:
        """Whether requests are answered."""
        return not self.is_draining and self.repository.is_ready

    def make_id(self) -> str:
        """Return a new request id."""
        return f"{self._prefix}-{next(self._numbers)}"
