"""Leases of readers: a version stays readable, with all its files, for as long as somebody reads it.

One thread of the process renews the leases and ends them. A reader's own thread may not: garbage collection, which
ends a stream that was dropped, can come upon a thread that is inside the metastore itself.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from functools import lru_cache
from queue import Empty, SimpleQueue
from typing import TypeVar

from lakebed.core.actions import now_ms
from lakebed.core.errors import LakebedError, MetastoreError
from lakebed.engine.draft import Handle
from lakebed.metastore import Metastore

LEASE_MS = 10 * 60 * 1000
"""For how long a version is kept for a reader that does not say any more that it is there."""
RENEW_SECONDS = 180.0
PROMISED_MS = 60 * 60 * 1000
"""For how long a version is kept for a reader that is lazy: it may begin at any time, and nobody sees it end."""

Item = TypeVar("Item")
_log = logging.getLogger(__name__)


class Lease:
    """A running reader's claim on a version, which the metastore has noted."""

    def __init__(self, metastore: Metastore, holder: str) -> None:
        self._metastore = metastore
        self._holder = holder
        self._process = os.getpid()
        self._keeper = _process.keeper()
        self._keeper.begin(self)

    def end(self) -> None:
        """Say that the reader has finished; safe anywhere, also while garbage is collected, and more than once."""
        # What a forked process has inherited is its parent's.
        if self._process == os.getpid():
            self._keeper.end(self)

    def renew(self) -> None:
        """Tell the metastore that the reader is still there."""
        try:
            if not self._metastore.renew(self._holder, now_ms() + LEASE_MS):
                _log.warning("a lease of a running reader has run out: its version may have expired")
        except LakebedError as error:
            _log.warning("a lease of a running reader could not be renewed: %s", error)

    def release(self) -> None:
        """Tell the metastore that the reader has finished. If it cannot be told, the lease runs out by itself."""
        try:
            self._metastore.release(self._holder)
        except LakebedError as error:
            _log.info("a lease could not be ended and will run out: %s", error)


def take(handle: Handle, version: int) -> Lease | None:
    """Keep a version readable until the lease ends; None, and a warning once, if the metastore cannot be written.

    Raises NotFoundError, saying which versions are left, if the version has expired.
    """
    return take_all(handle, [version])


def take_all(handle: Handle, versions: Collection[int]) -> Lease | None:
    """The same for several versions, with one lease."""
    holder = f"reader-{uuid.uuid4()}"
    try:
        handle.metastore.lease_all(handle.table_id, versions, holder, now_ms() + LEASE_MS)
    except MetastoreError as error:
        _warn_once(str(handle.metastore), str(error))
        return None
    return Lease(handle.metastore, holder)


def promise(handle: Handle, version: int) -> None:
    """Keep a version readable for a while, for a reader that nobody sees finish. Raises NotFoundError as ``take``."""
    promise_all(handle, [version])


def promise_all(handle: Handle, versions: Collection[int]) -> None:
    """The same for several versions, as one."""
    now = now_ms()
    claims = {(str(handle.metastore), handle.table_id, version): version for version in versions}
    new = {claim: version for claim, version in claims.items() if _promised.get(claim, 0) <= now + PROMISED_MS // 2}
    if not new:
        return
    try:
        handle.metastore.lease_all(handle.table_id, list(new.values()), f"frame-{uuid.uuid4()}", now + PROMISED_MS)
    except MetastoreError as error:
        _warn_once(str(handle.metastore), str(error))
        return
    for old in [old for old, until in _promised.items() if until < now]:
        del _promised[old]
    _promised.update(dict.fromkeys(new, now + PROMISED_MS))


_promised: dict[tuple[str, str, int], int] = {}
"""Until when this process has kept versions readable."""


@contextmanager
def held(lease: Lease | None) -> Iterator[None]:
    """The lease ends with the block."""
    try:
        yield
    finally:
        if lease is not None:
            lease.end()


def stream(items: Iterator[Item], lease: Lease | None) -> Iterator[Item]:
    """The items; the lease ends with them, or when nobody can ask for more."""
    if lease is None:
        return items
    streamed = _stream(items, lease)
    # A generator that has not been begun ends without its last words.
    next(streamed)
    return streamed


def _stream(items: Iterator[Item], lease: Lease) -> Generator[Item, None, None]:
    try:
        yield None  # type: ignore[misc]
        yield from items
    finally:
        lease.end()


def end_pending(seconds: float | None = None) -> None:
    """Wait until the metastore knows of every reader of this process that has finished, or until time is over."""
    _process.catch_up(seconds)


@lru_cache(maxsize=64)
def _warn_once(metastore: str, reason: str) -> None:
    _log.warning("%s: readers cannot lease versions, so vacuum may take files from under them: %s", metastore, reason)


class _Keeper:
    """The thread that renews and ends the leases of this process, one after the other."""

    def __init__(self) -> None:
        self._due: dict[Lease, float] = {}
        # Unlike other queues, it may be used while garbage is collected.
        self._work: SimpleQueue[Callable[[], object]] = SimpleQueue()
        threading.Thread(target=self._run, name="lakebed-leases", daemon=True).start()

    def begin(self, lease: Lease) -> None:
        """Renew a lease from time to time."""
        due = time.monotonic() + RENEW_SECONDS
        self._work.put(lambda: self._due.setdefault(lease, due))

    def end(self, lease: Lease) -> None:
        """End a lease soon."""
        self._work.put(lambda: self._end(lease))

    def catch_up(self, seconds: float | None) -> None:
        """Wait until all that was asked for has been done."""
        done = threading.Event()
        self._work.put(done.set)
        done.wait(seconds)

    def _run(self) -> None:
        while True:
            try:
                self._next()()
            except Exception:
                # Nobody waits for the outcome, and the other leases must not run out for it.
                _log.exception("a lease could not be kept")

    def _next(self) -> Callable[[], object]:
        first = min(self._due.values(), default=None)
        wait = None if first is None else first - time.monotonic()
        try:
            return self._work.get(timeout=wait) if wait is None or wait > 0 else self._renew
        except Empty:
            return self._renew

    def _end(self, lease: Lease) -> None:
        if self._due.pop(lease, None) is not None:
            lease.release()

    def _renew(self) -> None:
        now = time.monotonic()
        for lease in [lease for lease, due in self._due.items() if due <= now]:
            lease.renew()
            self._due[lease] = time.monotonic() + RENEW_SECONDS


class _ThisProcess:
    """Has one keeper, once it is needed."""

    def __init__(self) -> None:
        self._keeper: _Keeper | None = None
        self._starting = threading.Lock()

    def keeper(self) -> _Keeper:
        """The keeper of this process."""
        with self._starting:
            if self._keeper is None:
                self._keeper = _Keeper()
            return self._keeper

    def catch_up(self, seconds: float | None) -> None:
        """Wait for the keeper, if there is one."""
        with self._starting:
            keeper = self._keeper
        if keeper is not None:
            keeper.catch_up(seconds)

    def forget(self) -> None:
        """A forked process has none of its parent's threads."""
        self._starting = threading.Lock()
        self._keeper = None


_process = _ThisProcess()
os.register_at_fork(after_in_child=_process.forget)
