"""`ServingError`: why a request cannot be answered, in terms that every protocol translates."""

import enum


class Reason(enum.Enum):
    """The kinds of errors; the value is the HTTP status of protocols without a rule of their own."""

    INVALID = 400  # the request is wrong
    UNAUTHORIZED = 401
    NOT_FOUND = 404  # no such model, version or label
    EXPIRED_BODY = 408  # the client sent its request too slowly
    TOO_LARGE = 413
    UNSUPPORTED = 422  # the model does another task
    OVERLOADED = 429
    FAILED = 500
    UNAVAILABLE = 503  # the model is not loaded
    EXPIRED = 504  # the deadline passed


class ServingError(Exception):
    """An error with a sentence for the client: the problem, what is valid, and the fix.

    Args:
        reason: the kind.
        message: the sentence.
        retry_after: seconds after which the client may try again.
    """

    def __init__(self, reason: Reason, message: str, retry_after: int | None = None):
        super().__init__(message)
        self.reason = reason
        self.retry_after = retry_after
