"""Processes for tests that need many: each is new, but what is slow to import has been imported for all of them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

# Not polars, and so nothing of Lakebed: polars does not survive a fork.
_SLOW_TO_IMPORT = [
    "pandas",
    "psycopg",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.fs",
    "pyarrow.parquet",
    "pyroaring",
    "pytest",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.dialects.sqlite",
    "sqlglot",
]
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(_SLOW_TO_IMPORT)


class Worker:
    """A process that runs ``main(pipe)``; ``main`` is a function of an importable module."""

    def __init__(self, main: Callable[[Connection], None]) -> None:
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

    def exit_code(self, timeout: float = 120) -> int | None:
        """How the process ended, when it has."""
        self._process.join(timeout)
        return self._process.exitcode

    def kill(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.join()
        self.pipe.close()
