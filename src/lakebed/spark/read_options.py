"""The options of ``spark.read.format("lakebed")``, and the view that they choose."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from lakebed.config import Config
from lakebed.core.errors import OptionError
from lakebed.core.location import Location
from lakebed.delta.log import read_log
from lakebed.engine.point import LogPoint
from lakebed.spark.addressed import (
    PATH,
    ROWS,
    choice,
    connected,
    connection_options,
    location_in,
    no_warehouse,
    opened,
    sorted_out,
)
from lakebed.storage.store import open_store
from lakebed.view import TableView
from lakebed.warehouse import Warehouse


@dataclass(frozen=True)
class ReadOptions:
    """What a reader asked for."""

    path: str
    """The table's name, or its location."""
    version: int | None = None
    timestamp: str | None = None
    tag: str | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None
    """A predicate; rows for which it is not true do not come."""
    push_filters: bool = False
    """Whether filters may be taken from Spark although it would use them for other queries of the frame too."""
    read_optimized: bool = False
    connection: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Warehouse, metastore and options of the connection, as far as they are given here."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> ReadOptions:
        """The options as Spark passes them on. Raises OptionError for one that is unknown, wrong or missing.

        >>> ReadOptions.parse({"path": "shop.orders", "version": "5", "columns": "id, dt"})
        ReadOptions(path='shop.orders', version=5, ..., columns=('id', 'dt'), where=None, ...)
        """
        own, connection = sorted_out(given, ROWS)
        if not own.get(PATH):
            raise OptionError(
                "format('lakebed') was not told which table to read",
                fix="load('shop.orders'), or load('s3://…/orders')",
            )
        named = [name for name in ("version", "timestamp", "tag") if name in own]
        if len(named) > 1:
            raise OptionError(
                f"table {own[PATH]}: several versions are asked for",
                expected="one of version, timestamp and tag",
                found=", ".join(named),
            )
        return cls(
            path=own[PATH],
            version=_whole(own.get("version")),
            timestamp=own.get("timestamp"),
            tag=own.get("tag"),
            columns=names_in(own.get("columns")),
            where=own.get("where"),
            push_filters=_flag(own, "push-filters"),
            read_optimized=_flag(own, "read-optimized") or _flag(own, "read-optimised"),
            connection=connection,
        )

    def at(self, version: int) -> ReadOptions:
        """The same at exactly that version, whatever else was said of it."""
        return replace(self, version=version, timestamp=None, tag=None)

    @contextmanager
    def view(self, registered: Config | None) -> Iterator[TableView]:
        """The table at the version that is asked for, while the block runs.

        Raises NotFoundError, and OptionError if no warehouse is known.
        """
        config = connected(registered, self.connection)
        options = connection_options(config, self.connection)
        place = location_in(self.path, options)
        if config is None:
            if place is None:
                raise no_warehouse(self.path)
            yield self._settled_only(self._of_log(place, config))
            return
        with opened(config) as lake:
            yield self._settled_only(self._of_warehouse(lake, place, config))

    def _of_warehouse(self, lake: Warehouse, place: Location | None, config: Config) -> TableView:
        table = lake.table(self.path) if place is None else lake.table_at(place.uri)
        if table is None:
            assert place is not None
            return self._of_log(place, config)
        if (self.version, self.timestamp, self.tag) == (None, None, None):
            return table.at(version=table.version)
        return table.at(version=self.version, timestamp=self.timestamp, tag=self.tag)

    def _of_log(self, place: Location, config: Config | None) -> TableView:
        """A Delta table that no warehouse knows."""
        if self.timestamp is not None or self.tag is not None:
            raise OptionError(
                f"the table at {place} is in no warehouse: only its log is known", fix="ask for it by version"
            )
        store = open_store(place, connection_options(config, self.connection))
        return TableView(place.uri, LogPoint(read_log(store, self.version)), store, store.options)

    def _settled_only(self, view: TableView) -> TableView:
        return view.read_optimised() if self.read_optimized else view


def _whole(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal():
        raise OptionError("option 'version' has a wrong value", expected="a whole number from 0", found=repr(text))
    return int(text)


def _flag(own: Mapping[str, str], name: str) -> bool:
    return choice(own, name, ("true", "false"), "false") == "true"


def names_in(text: str | None) -> tuple[str, ...] | None:
    """Names of columns: divided by commas, or, where a name has one itself, a JSON array."""
    if text is None:
        return None
    if not text.lstrip().startswith("["):
        return tuple(name.strip() for name in text.split(","))
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise OptionError("option 'columns' has a wrong value", expected='id, dt or ["id", "dt"]', found=repr(text))
    return tuple(names)
