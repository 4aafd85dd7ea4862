"""Many commands in one process, which loads TensorFlow once: a server that runs them, and the client in its place.

Started as `python -m tests.cli.one_process SOCKET` it serves. As `python tests/cli/one_process.py SOCKET WORDS` it
sends a command of `bert-keras` with the caller's folder, standard input, output and error, and ends with its exit
status; `-c CODE` sends Python code instead. Commands run one after the other, so two of them cannot be in one pipe.
"""

import json
import os
import socket
import sys

_HEADER_BYTES = 1 << 16


def call(path: str, words: list[str]) -> int:
    """Has the server run a command, and returns its exit status."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        header = json.dumps({"words": words, "folder": os.getcwd()}).encode()
        socket.send_fds(connection, [header], [0, 1, 2])
        return int(connection.recv(16) or 1)


def serve(path: str) -> None:
    """Runs what clients send until one sends the word `stop`."""
    own = [os.dup(number) for number in (0, 1, 2)]
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        while True:
            connection, _ = server.accept()
            with connection:
                header, given, _, _ = socket.recv_fds(connection, _HEADER_BYTES, 3)
                request = json.loads(header)
                if request["words"] == ["stop"]:
                    return
                os.chdir(request["folder"])
                _redirect(given)
                status = _run(request["words"])
                _redirect(own)
                for number in given:
                    os.close(number)
                connection.send(str(status).encode())


def _redirect(numbers: list[int]) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    for place, number in enumerate(numbers):
        os.dup2(number, place)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115, what the last one buffered is gone


def _run(words: list[str]) -> int:
    import traceback

    from bert_keras.cli.main import main

    try:
        if words[0] != "-c":
            return main(words)
        exec(compile(words[1], "block", "exec"), {"__name__": "__main__"})
    except SystemExit as stopped:
        return stopped.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) == 2:
        serve(sys.argv[1])
    else:
        sys.exit(call(sys.argv[1], sys.argv[2:]))
