"""Actors who work on one key table at the same time, each by a script of its own, in threads or in processes.

Actors hear of each other through files of a common folder, which grow: so threads and processes wait in the same way.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import lakebed
from lakebed.core.steps import Step, observe

ATTEMPTS = 5
"""How often a write is tried whose files a vacuum has taken, since its retention is next to nothing."""
PATIENCE = 0.1
"""For how long an actor stands still for others at most: they may all be standing still."""


@dataclass(frozen=True)
class Action:
    """One thing to do; what ``low`` and ``number`` mean depends on it."""

    kind: str
    low: int = 0
    number: int = 0


@dataclass(frozen=True)
class Script:
    """What one actor does, one after the other, and the step at which it lets others go first."""

    actor: int
    actions: tuple[Action, ...]
    waits_at: Step | None = None
    retain: timedelta = timedelta(0)
    cleans: bool = False
    """Whether it vacuums until the others have ended, instead of following its actions."""


@dataclass
class Log:
    """What an actor has done."""

    changed: dict[int, tuple[Action, Any]] = field(default_factory=dict)
    """By the version that a change of rows got: the change, and what it was done with."""
    tags: dict[str, int] = field(default_factory=dict)
    seen: list[tuple[int, list[Any]]] = field(default_factory=list)
    """Versions that were read, with their rows."""
    turns: int = 0
    deleted: int = 0
    error: str = ""


class Signals:
    """How far the actors have come: how often a vacuum has got somewhere, and how often an action has ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def tell(self, name: str) -> None:
        with (self._folder / name).open("ab") as file:
            file.write(b".")

    def count(self, name: str) -> int:
        file = self._folder / name
        return file.stat().st_size if file.exists() else 0

    def wait_for_another(self, name: str) -> None:
        """Until something is told once more, or for as long as patience lasts."""
        before, end = self.count(name), time.monotonic() + PATIENCE
        while self.count(name) == before and not self.count("ended") and time.monotonic() < end:
            threading.Event().wait(0.001)


class Actor:
    """Follows one script."""

    def __init__(self, table: lakebed.Table, script: Script, signals: Signals) -> None:
        self._table = table
        self._script = script
        self._signals = signals
        self._log = Log()

    def run(self) -> Log:
        """Do it all. What must not happen is told by the log."""
        try:
            with self._standing_still():
                if self._script.cleans:
                    self._clean()
                else:
                    self._follow()
        except Exception:
            self._log.error = traceback.format_exc()
        return self._log

    @contextmanager
    def _standing_still(self) -> Iterator[None]:
        """At its step the actor waits until others have got further: what is rare otherwise happens each time."""
        me = threading.get_ident()
        other = "landed" if self._script.cleans else "cleaned"

        def pause(step: Step) -> None:
            if step is self._script.waits_at and threading.get_ident() == me:
                if self._script.cleans:
                    self._signals.tell("cleaned")
                self._signals.wait_for_another(other)

        stop = observe(pause)
        try:
            yield
        finally:
            stop()

    def _clean(self) -> None:
        while not self._signals.count("ended") or not self._log.turns:
            done = self._table.vacuum(self._script.retain)
            assert not done.failed, done.failed
            self._log.turns += 1
            self._log.deleted += len(done.paths)
            self._signals.tell("cleaned")
            if not done.paths:
                self._signals.wait_for_another("landed")

    def _follow(self) -> None:
        for turn, action in enumerate(self._script.actions):
            try:
                getattr(self, f"_{action.kind}")(action, turn)
            except (lakebed.ConflictError, lakebed.NotFoundError) as error:
                self._check_allowed(action, error)
            self._signals.tell("landed")

    def _check_allowed(self, action: Action, error: lakebed.LakebedError) -> None:
        """Nothing has changed then. Upserts and maintenance may only be told that their files have gone."""
        if isinstance(error, lakebed.NotFoundError):
            assert action.kind in ("tag", "restore", "read"), f"{action}: {error}"
            assert "it has expired" in str(error)
        elif action.kind in ("upsert", "delete", "settle", "compact"):
            assert "vacuum has deleted" in str(error)

    def _change(self, action: Action, told: Any, change: Callable[[], lakebed.Commit]) -> None:
        for attempt in range(ATTEMPTS):
            try:
                self._log.changed[change().version] = (action, told)
                return
            except lakebed.ConflictError as error:
                if "vacuum has deleted" not in str(error) or attempt + 1 == ATTEMPTS:
                    raise

    def _rows(self, action: Action, turn: int) -> list[dict[str, int]]:
        value = 1000 * self._script.actor + turn
        return [{"id": key, "v": value} for key in range(action.low, action.low + action.number)]

    def _upsert(self, action: Action, turn: int) -> None:
        rows = self._rows(action, turn)
        self._change(action, rows, lambda: self._table.upsert(rows))

    def _overwrite(self, action: Action, turn: int) -> None:
        rows = self._rows(action, turn)
        self._change(action, rows, lambda: self._table.overwrite(rows))

    def _delete(self, action: Action, turn: int) -> None:
        keys = [{"id": row["id"]} for row in self._rows(action, turn)]
        self._change(action, keys, lambda: self._table.delete(keys))

    def _delete_where(self, action: Action, turn: int) -> None:
        self._change(action, None, lambda: self._table.delete(f"id < {action.low}"))

    def _settle(self, action: Action, turn: int) -> None:
        self._table.settle()

    def _compact(self, action: Action, turn: int) -> None:
        self._table.compact(full=action.low % 2 == 0)

    def _expire(self, action: Action, turn: int) -> None:
        self._table.expire(self._script.retain)

    def _retained(self, action: Action) -> int:
        """Some version that is there now."""
        versions = [commit.version for commit in self._table.history()]
        return versions[action.low % len(versions)]

    def _restore(self, action: Action, turn: int) -> None:
        version = self._retained(action)
        self._change(action, version, lambda: self._table.restore(version))

    def _tag(self, action: Action, turn: int) -> None:
        name = f"of-{self._script.actor}-{turn}"
        self._log.tags[name] = self._table.tag(name, self._retained(action)).version

    def _untag(self, action: Action, turn: int) -> None:
        if self._log.tags:
            self._table.delete_tag(self._log.tags.popitem()[0])

    def _read(self, action: Action, turn: int) -> None:
        view = self._table.at(version=self._retained(action))
        rows = [tuple(row.values()) for row in view.to_arrow().to_pylist()]
        assert view.count() == len(rows)
        self._log.seen.append((view.version, rows))


@dataclass(frozen=True)
class Order:
    """One actor's part, for a process."""

    warehouse: str
    metastore: str | None
    table: str
    script: Script
    signals: Path


def serve(pipe: Connection) -> None:
    """Follow one order after the other, until the pipe is closed."""
    while True:
        try:
            order: Order = pipe.recv()
        except EOFError:
            return
        with lakebed.connect(order.warehouse, order.metastore) as lake:
            actor = Actor(lake.table(order.table), order.script, Signals(order.signals))
            pipe.send("ready")
            pipe.recv()
            pipe.send(actor.run())
