"""The test program of a client, which reads JSON lines and writes one JSON line for each.

The first line is `{"folder": "/path", "file": null}`, answered with `{}`. Then `{"tokenize": "text"}` is answered with
`ids`, `starts`, `ends`, `wordStarts` and `wordEnds`, lists of a number for each token; `{"answer": ["text"]}` or
`{"answer": ["first", "second"]}` with the answer. The answer to a line that fails is `{"error": "message"}`. Lone
surrogates are written as escapes, such as `"\\ud800"`.
"""

import contextlib
import json
import pathlib
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence


class ClientError(Exception):
    """A client reported an error."""


class ClientProcess:
    """A running test program.

    Args:
        command: the program and its arguments.
        folder: the folder with `model.json` and the vocabulary.
        file: the name of the model file; None: the smallest one.
        is_utf16: whether ranges count UTF-16 units, as in Java and TypeScript, and not code points.

    Raises:
        ClientError: the program rejects the folder.

    Example:
        >>> # with ClientProcess(["node", "test/answer_lines.mjs"], folder) as client:
        >>> #     client.ask({"answer": ["a fine film"]})
    """

    def __init__(
        self, command: Sequence[object], folder: str | pathlib.Path, file: str | None = None, *, is_utf16: bool = True
    ):
        self.is_utf16 = is_utf16
        self._process = subprocess.Popen(
            [*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        try:
            self.ask({"folder": str(folder), "file": file})
        except BaseException:
            self.close()
            raise

    def ask(self, request: Mapping) -> dict:
        """Return the answer to a request.

        Raises:
            ClientError: the answer is an error.
        """
        (answer,) = self.ask_all([request])
        return answer

    def ask_all(self, requests: Sequence[Mapping]) -> Iterator[dict]:
        """Yield the answers to requests, which a thread sends meanwhile.

        Raises:
            ClientError: an answer is an error.
        """
        writer = threading.Thread(target=self._send, args=(requests,), daemon=True)
        writer.start()
        for _ in requests:
            line = self._process.stdout.readline()
            assert line, f"the program ended with the status {self._process.wait(30)}"
            answer = json.loads(line)
            if "error" in answer:
                raise ClientError(answer["error"])
            yield answer
        writer.join()

    def close(self) -> None:
        """End the program."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> "ClientProcess":
        return self

    def __exit__(self, error: type[BaseException] | None, *_):
        if error is not None:  # answers that nobody reads would block the program, and with it the thread that sends
            self._process.kill()
        self.close()

    def _send(self, requests: Sequence[Mapping]) -> None:
        with contextlib.suppress(BrokenPipeError, ValueError):  # the reader reports that the program ended
            for request in requests:
                self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
