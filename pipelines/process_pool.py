"""`map_in_order`: apply a function to a stream of items in several processes, with the results in order.

The standard library's pools do not fit: `multiprocessing.Pool` waits forever for the result of a process that was
killed, and on Python 3.10 `concurrent.futures.ProcessPoolExecutor` hangs when a process dies while a block of 8 MB is
sent to it (gh-94777); the processes of both outlive a killed parent.
"""

import collections
import contextlib
import itertools
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from bert_keras.errors import InputError

Work = Callable[[Any], Any]


def map_in_order(
    items: Iterable[tuple[Any, Any]], make_work: Callable[..., Work], arguments: tuple, *, num_workers: int, task: str
) -> Iterator[tuple[Any, Any]]:
    """Yield `(key, work(item))` for each `(key, item)`, in the order of the items.

    One worker, or a single item, runs in this process. Otherwise each worker is a process with at most one item at a
    time, started when it is needed, and `items` is read at most `num_workers` items ahead.

    Args:
        items: pairs of a key, which stays in this process, and an item; the result of the item None is None.
        make_work: `make_work(*arguments, num_threads=...)` returns the function `work`. `num_threads` is 1 in a worker
            process, since each core has a worker, and None in this process.
        arguments: picklable arguments of `make_work`.
        num_workers: number of workers.
        task: what a worker does, for messages: "makes records".

    Raises:
        InputError: a worker process ended early, or `work` raised an `InputError`.
    """
    items = iter(items)
    first = list(itertools.islice(items, 2))
    is_single = len(first) < 2
    items = itertools.chain(first, items)
    del first  # an item can be large
    if num_workers == 1 or is_single:
        yield from _map_here(items, make_work, arguments)
    else:
        yield from _map_in_processes(items, make_work, arguments, num_workers, task)


def _map_here(items: Iterable[tuple[Any, Any]], make_work: Callable[..., Work], arguments: tuple) -> Iterator:
    work = None
    for key, item in items:
        if item is not None and work is None:  # making it can take seconds
            work = make_work(*arguments, num_threads=None)
        yield key, None if item is None else work(item)


def _map_in_processes(
    items: Iterable[tuple[Any, Any]], make_work: Callable[..., Work], arguments: tuple, num_workers: int, task: str
) -> Iterator[tuple[Any, Any]]:
    pending: collections.deque[tuple[Any, Connection | None]] = collections.deque()
    idle: list[Connection] = []
    with contextlib.ExitStack() as stack:
        for key, item in items:
            answered = [_receive(*pending.popleft(), idle, task)] if len(pending) == num_workers else []
            worker = None
            if item is not None:
                worker = idle.pop() if idle else stack.enter_context(_start_worker(make_work, arguments))
                with contextlib.suppress(ConnectionError):  # `_receive` reports a worker that has ended
                    worker.send(item)
            pending.append((key, worker))
            yield from answered
        while pending:
            yield _receive(*pending.popleft(), idle, task)


def _receive(key: Any, worker: Connection | None, idle: list[Connection], task: str) -> tuple[Any, Any]:
    """Wait for the result of an item, then add its worker to `idle`."""
    if worker is None:
        return key, None
    try:
        result, error = worker.recv()
    except (EOFError, ConnectionError):
        raise InputError(
            f"a process that {task} ended before its work was done (its own message is above): if this is a script of "
            'yours, put its work under  if __name__ == "__main__":  or ask for num_workers=1; or free memory'
        ) from None
    if error is not None:
        raise error
    idle.append(worker)
    return key, result


@contextlib.contextmanager
def _start_worker(make_work: Callable[..., Work], arguments: tuple) -> Iterator[Connection]:
    """Start a process and yield the connection to it. It is spawned: a fork of a process with threads may hang."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, make_work, arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    except BaseException:
        process.terminate()  # nobody waits for its current item
        raise
    finally:
        ours.close()  # the worker sees the end of the connection and exits
        process.join()


def _serve(connection: Connection, make_work: Callable[..., Work], arguments: tuple) -> None:
    """Run a worker until the other end of the connection is closed, which a crash of the parent does too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    with contextlib.suppress(EOFError, ConnectionError):
        work = make_work(*arguments, num_threads=1)
        while True:
            item = connection.recv()
            try:
                result = work(item), None
            except InputError as error:
                result = None, error
            connection.send(result)
