"""The options of ``df.write.format("lakebed")``, and the table that they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from lakebed.config import Config
from lakebed.core.errors import OptionError
from lakebed.spark.addressed import (
    CREATING,
    PATH,
    ROWS,
    choice,
    connected,
    connection_options,
    location_in,
    no_warehouse,
    opened,
    sorted_out,
    table_in,
)
from lakebed.table import Table
from lakebed.warehouse import Warehouse


@dataclass(frozen=True)
class WriteOptions:
    """What a writer asked for."""

    path: str
    """The table's name, or its location."""
    merge_schema: bool = False
    replace_where: str | None = None
    dynamic: bool | None = None
    """Whether an overwrite replaces only the partitions that rows come for; None if the session decides that."""
    row_kind: str | None = None
    txn: tuple[str, int] | None = None
    creating: Mapping[str, str] = field(default_factory=dict, hash=False)
    connection: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    """Warehouse, metastore and options of the connection, as far as they are given here."""

    @classmethod
    def parse(cls, given: Mapping[str, str], told: str | None = None) -> WriteOptions:
        """The options as Spark passes them on. Raises OptionError for one that is unknown, wrong or missing.

        ``told`` is the table that the columns name, for the error.

        >>> WriteOptions.parse({"path": "shop.orders", "mergeSchema": "true"}).merge_schema
        True
        """
        own, connection = sorted_out(given, ROWS)
        if not own.get(PATH):
            raise _not_told(told)
        return cls(
            path=own[PATH],
            merge_schema=choice(own, "merge-schema", ("false", "true"), "false") == "true",
            replace_where=own.get("replace-where"),
            dynamic=choice(own, "partition-overwrite-mode", ("static", "dynamic"), "static") == "dynamic"
            if "partition-overwrite-mode" in own
            else None,
            row_kind=own.get("row-kind"),
            txn=_txn(own),
            creating={name: own[name] for name in CREATING if name in own},
            connection=connection,
        )

    def check(self, overwrite: bool) -> None:
        """Raise OptionError for options that contradict each other, or the mode of the write."""
        if self.replace_where is None:
            return
        if not overwrite:
            raise OptionError(
                f"table {self.path}: option 'replace-where' says what an overwrite replaces",
                expected="mode 'overwrite', or INSERT OVERWRITE",
                found="an append",
            )
        if self.dynamic:
            raise OptionError(
                f"table {self.path}: both 'replace-where' and dynamic partitions say what is replaced",
                fix="leave one out",
            )

    @contextmanager
    def warehouse(self, registered: Config | None) -> Iterator[Warehouse]:
        """The warehouse of the table, while the block runs. Raises NotFoundError if none is known."""
        config = connected(registered, self.connection)
        if config is None:
            raise no_warehouse(self.path)
        with opened(config) as lake:
            yield lake

    def table(self, lake: Warehouse, registered: Config | None) -> Table:
        """The table. Raises NotFoundError."""
        place = location_in(self.path, connection_options(connected(registered, self.connection), self.connection))
        return table_in(lake, self.path, place)

    def is_name(self) -> bool:
        """Whether the table is named, and not its place."""
        return "/" not in self.path


def _not_told(told: str | None) -> OptionError:
    """Why nothing is written, and exactly what to write instead."""
    name = told or "shop.orders"
    ways = (
        f"INSERT INTO t WITH (path = '{name}') …, df.writeTo('t').option('path', '{name}'), "
        f"df.write.format('lakebed').save('{name}'), or lake.table('{name}').write(df, mode=…)"
    )
    return OptionError(
        "format('lakebed') was not told which table to write; what Spark's catalog knows reaches readers only",
        found=None if told is None else f"no path; the columns are those of '{told}', or their rows come from there",
        fix=ways if told is None else f"if it is '{told}': {ways}",
    )


def _txn(own: Mapping[str, str]) -> tuple[str, int] | None:
    app, version = own.get("txn-app-id"), own.get("txn-version")
    if app is None and version is None:
        return None
    if not app or version is None or not version.isdecimal():
        raise OptionError(
            "a transaction is an application and its own version of the write",
            expected="options txn-app-id and txn-version, text and a whole number",
            found=f"{app!r} and {version!r}",
        )
    return app, int(version)
