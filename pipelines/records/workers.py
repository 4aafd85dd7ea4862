"""Processes that work on blocks: each has one block at a time, and answers come in the order of the blocks."""

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


def in_order(
    items: Iterable[tuple[Any, Any]], make_work: Callable[..., Work], arguments: tuple, *, num_workers: int
) -> Iterator[tuple[Any, Any]]:
    """Yields `(key, work(item))` for each `(key, item)`, in their order.

    With one worker, or one item, the work is done here. With more, each worker is a process, and at most
    `num_workers` items are out at a time, so `items` is never read far ahead.

    Args:
        items: what to work on; an item of None is handed back as None.
        make_work: `make_work(*arguments)` gives `work`; in a process of its own it is told `num_threads=1` too.
        arguments: what can pass between processes.
        num_workers: how many work side by side.

    Raises:
        InputError: a worker ended before its work did, or `work` raised one.
    """
    items = iter(items)
    first = list(itertools.islice(items, 2))
    is_alone = num_workers == 1 or len(first) < 2
    items = itertools.chain(first, items)
    del first  # an item can be large
    if is_alone:
        work = None
        for key, item in items:
            if item is not None and work is None:
                work = make_work(*arguments)
            yield key, None if item is None else work(item)
        return
    out: collections.deque[tuple[Any, Connection | None]] = collections.deque()
    idle: list[Connection] = []
    num_started = 0
    with contextlib.ExitStack() as stack:
        for key, item in items:
            worker, answered = None, []
            if item is not None:
                if not idle and num_started < num_workers:
                    idle.append(stack.enter_context(_worker(make_work, arguments)))
                    num_started += 1
                elif not idle:
                    answered.append(_answered(*out.popleft(), idle))
                worker = idle.pop()
                with contextlib.suppress(ConnectionError):  # a worker that has ended is told of when its answer is due
                    worker.send(item)
            out.append((key, worker))
            yield from answered
            while out and out[0][1] is None:
                yield out.popleft()
        while out:
            yield _answered(*out.popleft(), idle)


def _answered(key: Any, worker: Connection | None, idle: list[Connection]) -> tuple[Any, Any]:
    """Waits for the answer to an item; its worker is idle then."""
    if worker is None:
        return key, None
    try:
        answer, error = worker.recv()
    except (EOFError, ConnectionError):
        raise InputError(
            "a process that makes records ended before its work did (what it said stands above): if this is a script "
            'of yours, put its work under  if __name__ == "__main__":  or ask for num_workers=1; or free memory'
        ) from None
    if error is not None:
        raise error
    idle.append(worker)
    return key, answer


@contextlib.contextmanager
def _worker(make_work: Callable[..., Work], arguments: tuple) -> Iterator[Connection]:
    """Yields the line to a new process. Spawned, not forked: a fork of a process with threads may hang."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, make_work, arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    except BaseException:
        process.terminate()  # what it is at work on is not wanted any more
        raise
    finally:
        ours.close()  # the worker reads the end of the line, and ends
        process.join()


def _serve(connection: Connection, make_work: Callable[..., Work], arguments: tuple) -> None:
    """Works until the other end is closed, be it by a crash: the life of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to tell
    with contextlib.suppress(EOFError, ConnectionError):
        work = make_work(*arguments, num_threads=1)  # the cores have a worker each
        while True:
            item = connection.recv()
            try:
                answer = work(item), None
            except InputError as error:
                answer = None, error
            connection.send(answer)
