"""Threads that stay: writers use the same few again and again.

Arrow's allocator has memory for each thread, which it fetches from the system, zeroed, for every new one: threads that
are made for a small write cost it more than what they do in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")

_MOST = 64
"""Threads of all callers together. There are only as many as have been busy at the same time."""


class Crew:
    """Tasks of one caller on the threads of the process; leaving the context waits for all of them.

    A task must not wait for another one: that might be queued behind it.
    """

    def __init__(self) -> None:
        self._asked: list[Future[Any]] = []

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        wait(self._asked)

    def submit(self, work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Future[Result]:
        """Have it done by another thread. How many tasks there are at a time is the caller's business."""
        future = _threads.submit(work, *args, **kwargs)
        self._asked.append(future)
        return future


def _new_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_MOST, "lakebed-crew")


def _after_fork() -> None:
    global _threads  # noqa: PLW0603 - threads do not survive a fork
    _threads = _new_threads()


_threads = _new_threads()
os.register_at_fork(after_in_child=_after_fork)
