"""Check the API key of a request."""

import hmac

from bert_keras.serving.errors import Reason, ServingError


def check_key(given: str | None, key: str | None) -> None:
    """Raise `ServingError` unless a request may be answered.

    Args:
        given: the value of its `Authorization` header.
        key: the server's key; None: everyone may call.
    """
    if key is None:
        return
    expected = f"Bearer {key}".encode()
    if not hmac.compare_digest((given or "").encode("utf-8", "replace"), expected):
        raise ServingError(
            Reason.UNAUTHORIZED, "the API key is missing or wrong; send the header  Authorization: Bearer KEY"
        )
