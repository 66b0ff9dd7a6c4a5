"""Processes for tests that need many: each is new, but what is slow to import has been imported for all of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["worker_imports"])


@cache
def _start_server() -> None:
    """Start the process that the others are forked from; it finds modules by its environment alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        forkserver.ensure_running()


class Worker:
    """A process that runs ``main(pipe)``; ``main`` is a function of an importable module."""

    def __init__(self, main: Callable[[Connection], None]) -> None:
        _start_server()
        self.pipe, far_end = _processes.Pipe()
        self._process = _processes.Process(target=main, args=(far_end,), daemon=True)
        self._process.start()
        far_end.close()

    def send(self, message: Any) -> None:
        """Tell the process something."""
        self.pipe.send(message)

    def receive(self, timeout: float = 300) -> Any:
        """What the process says next. Raises EOFError if it is dead."""
        assert self.pipe.poll(timeout), "the process says nothing"
        return self.pipe.recv()

    def die_of(self, order: Any) -> None:
        """Give an order that is to end with kill -9."""
        self.send(order)
        assert self.exit_code() == -signal.SIGKILL, f"the process was not killed: {order}"
        self.pipe.close()

    def exit_code(self, timeout: float = 120) -> int | None:
        """How the process ended, when it has."""
        self._process.join(timeout)
        return self._process.exitcode

    def kill(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.join()
        self.pipe.close()


@contextmanager
def workers_in_waiting(main: Callable[[Connection], None]) -> Iterator[Callable[[], Worker]]:
    """A function that gives a new process; the next one is being started meanwhile."""
    waiting = deque([Worker(main)])

    def take() -> Worker:
        waiting.append(Worker(main))
        return waiting.popleft()

    yield take
    for worker in waiting:
        worker.kill()
