"""The options of reads of changes: ``readStream.format("lakebed")``, and ``read`` with a ``start``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from lakebed.config import Config
from lakebed.core.change_rows import APPEND, EARLIEST, MODES, ON_EXPIRED
from lakebed.core.errors import OptionError
from lakebed.core.options import normalise
from lakebed.engine.changes.span import Bound
from lakebed.spark.addressed import (
    PATH,
    choice,
    connected,
    connection_options,
    location_in,
    no_warehouse,
    opened,
    sorted_out,
    table_in,
)
from lakebed.spark.read_options import names_in
from lakebed.table import Table

LIMITS = ("max-versions-per-trigger", "max-files-per-trigger", "max-bytes-per-trigger")
OWN = (
    PATH,
    "start",
    "end",
    "mode",
    "change-columns",
    "on-expired",
    "columns",
    "where",
    "consumer",
    "consumer-retain",
    *LIMITS,
)
_TELLING = {normalise(name).replace("_", "") for name in OWN} - {PATH, "columns", "where"}


def of_changes(given: Mapping[str, str]) -> bool:
    """Whether options ask for changes, and not for the rows of a version.

    >>> of_changes({"path": "t"}), of_changes({"path": "t", "changeColumns": "true"})
    (False, True)
    """
    return any(normalise(name).replace("_", "") in _TELLING for name in given)


@dataclass(frozen=True)
class ChangeOptions:
    """What a reader of changes asked for."""

    path: str
    start: Bound = EARLIEST
    end: Bound | None = None
    mode: str = APPEND
    described: bool = False
    """Whether rows have the columns of changes."""
    on_expired: str = "error"
    columns: tuple[str, ...] | None = None
    where: str | None = None
    limits: tuple[int | None, int | None, int | None] = (None, None, None)
    """Versions, files and bytes of a micro-batch."""
    consumer: str | None = None
    """Under which name the table keeps how far the stream has come."""
    consumer_retain: str = "7 days"
    connection: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> ChangeOptions:
        """The options as Spark passes them on. Raises OptionError for one that is unknown, wrong or missing.

        >>> ChangeOptions.parse({"path": "t", "start": "3", "maxFilesPerTrigger": "10", "mode": "all"})
        ChangeOptions(path='t', start=3, end=None, mode='all', described=True, ..., limits=(None, 10, None), ...)
        """
        own, connection = sorted_out(given, OWN)
        if not own.get(PATH):
            raise OptionError("format('lakebed') was not told which table to read", fix="load('shop.orders')")
        mode = choice(own, "mode", MODES, APPEND)
        told = choice(own, "change-columns", ("true", "false"), "false" if mode == APPEND else "true")
        return cls(
            path=own[PATH],
            start=_bound(own.get("start", EARLIEST)),
            end=None if "end" not in own else _bound(own["end"]),
            mode=mode,
            described=told == "true",
            on_expired=choice(own, "on-expired", ON_EXPIRED, "error"),
            columns=names_in(own.get("columns")),
            where=own.get("where"),
            limits=(_limit(own, LIMITS[0]), _limit(own, LIMITS[1]), _limit(own, LIMITS[2])),
            consumer=own.get("consumer"),
            consumer_retain=own.get("consumer-retain", cls.consumer_retain),
            connection=connection,
        )

    @contextmanager
    def table(self, registered: Config | None) -> Iterator[Table]:
        """The table, while the block runs. Raises NotFoundError."""
        config = connected(registered, self.connection)
        if config is None:
            raise no_warehouse(self.path, ", and changes are known to one only")
        place = location_in(self.path, connection_options(config, self.connection))
        with opened(config) as lake:
            yield table_in(lake, self.path, place)


def _bound(text: str) -> Bound:
    return int(text) if text.strip().isdecimal() else text


def _limit(own: Mapping[str, str], name: str) -> int | None:
    text = own.get(name)
    if text is not None and not (text.strip().isdecimal() and int(text) > 0):
        raise OptionError(f"option {name!r} has a wrong value", expected="a whole number from 1", found=repr(text))
    return None if text is None else int(text)
