"""Reading ahead: a bounded number of items is made in the background while the caller works."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterable
from typing import TypeVar

Item = TypeVar("Item")
_POLL_SECONDS = 0.1


class _Failure:
    def __init__(self, error: BaseException) -> None:
        self.error = error


_END = object()


def prefetch(items: Iterable[Item], ahead: int) -> Generator[Item, None, None]:
    """The items in their order, up to ``ahead`` of them made in advance by one thread.

    Closing the iterator stops the thread; an error of ``items`` is raised where it would have been.

    >>> list(prefetch(range(3), ahead=2))
    [0, 1, 2]
    """
    if ahead <= 0:
        yield from items
        return
    ready: queue.Queue[object] = queue.Queue(maxsize=ahead)
    stopped = threading.Event()

    def offer(item: object) -> bool:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=_POLL_SECONDS)
                return True
            except queue.Full:
                continue
        return False

    def produce() -> None:
        try:
            for item in items:
                if not offer(item):
                    return
        except BaseException as error:
            offer(_Failure(error))
        else:
            offer(_END)

    thread = threading.Thread(target=produce, name="lakebed-prefetch", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not _END:
            if isinstance(item, _Failure):
                raise item.error
            yield item  # type: ignore[misc]
    finally:
        stopped.set()
        thread.join()
