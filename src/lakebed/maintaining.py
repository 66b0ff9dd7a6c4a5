"""All maintenance of a warehouse in one call, as a job or as a loop beside writers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from lakebed.core.errors import LakebedError, NotFoundError
from lakebed.core.instant import to_duration_ms
from lakebed.core.properties import PROPERTIES
from lakebed.records import Maintenance, Vacuumed
from lakebed.table import Table

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Maintained:
    """What maintenance did to one table."""

    table: str
    settled: Maintenance | None = None
    compacted: Maintenance | None = None
    vacuumed: Vacuumed | None = None
    error: LakebedError | None = None
    """Why it went no further; what came before it is done, and the next pass tries again."""


class Tables(Protocol):
    """A warehouse, as far as maintenance knows it."""

    def namespaces(self) -> list[str]:
        """All namespaces."""

    def tables(self, namespace: str = "default") -> list[str]:
        """The full names of the tables of a namespace."""

    def table(self, name: str) -> Table:
        """A table."""


class Maintaining:
    """A warehouse that looks after its tables."""

    def maintain(
        self: Tables,
        tables: Sequence[str] | None = None,
        *,
        retain: str | int | timedelta | None = None,
        every: str | int | timedelta | None = None,
        stop: threading.Event | None = None,
    ) -> list[Maintained]:
        """Settle, compact, expire and vacuum tables (all by default), each where its properties say that it pays.

        What is older than ``retain`` expires; by default each table's property ``retain`` says how old that is.
        Versions that a killed writer has committed, but not published, enter the open log.

        Writers and readers go on meanwhile. What goes wrong with one table does not keep the others from their turn:
        it is logged, and told by the result. ``every`` (like ``"1 minute"``) makes passes until ``stop`` is set, and
        returns what the last one did; run it in a thread.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("n", "n BIGINT")
        >>> for n in range(6):
        ...     _ = t.append([{"n": n}])
        >>> [(done.table, done.compacted.buckets, done.error) for done in lake.maintain()]
        [('default.n', 1, None)]
        >>> t.files().num_rows
        1
        """
        done = _pass(self, tables, retain)
        if every is None:
            return done
        pause, ended = to_duration_ms(every) / 1000, stop or threading.Event()
        while not ended.wait(pause):
            done = _pass(self, tables, retain)
        return done


def _pass(lake: Tables, tables: Sequence[str] | None, retain: str | int | timedelta | None) -> list[Maintained]:
    names = [name for space in lake.namespaces() for name in lake.tables(space)] if tables is None else tables
    return [_maintained(lake, name, retain) for name in names]


def _maintained(lake: Tables, name: str, retain: str | int | timedelta | None) -> Maintained:
    settled = compacted = None
    try:
        table = lake.table(name)
        name = table.name
        table.publish()
        settled = table.settle()
        compacted = table.compact()
        kept = table.properties.get("retain", PROPERTIES["retain"].default) if retain is None else retain
        return Maintained(name, settled, compacted, table.vacuum(kept))
    except NotFoundError as error:
        _log.info("table %s went away before its maintenance: %s", name, error)
        return Maintained(name, settled, compacted, error=error)
    except LakebedError as error:
        _log.warning("maintenance of table %s is left to the next pass: %s", name, error)
        return Maintained(name, settled, compacted, error=error)
