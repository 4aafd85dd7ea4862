"""Decompress bodies of requests, which clients of TensorFlow Serving and Triton may compress."""

import zlib

from bert_keras.checks import quote
from bert_keras.serving.errors import Reason, ServingError

_ANY_HEADER = zlib.MAX_WBITS | 32  # of gzip or zlib


def decompress(body: bytes, encoding: str, limit: int) -> bytes:
    """Return a body without its compression, at most one byte more than a limit.

    Args:
        body: the bytes of the request.
        encoding: the value of its `Content-Encoding` header, in lower case.
        limit: number of bytes that the result may have; the rest of a larger one is left out.

    Raises:
        ServingError: the body has another compression, or is damaged.
    """
    if encoding not in ("gzip", "deflate"):
        raise ServingError(
            Reason.INVALID, f"content-encoding is {quote(encoding)}; expected gzip, deflate, or no such header"
        )
    decoder = zlib.decompressobj(_ANY_HEADER)
    try:
        content = decoder.decompress(body, limit + 1)
    except zlib.error:
        content = None
    if content is None or (len(content) <= limit and not decoder.eof):
        raise ServingError(
            Reason.INVALID, f"the body is not complete {encoding} data; expected what content-encoding says"
        )
    return content
