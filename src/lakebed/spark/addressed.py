"""Which table a path of ``format("lakebed")`` means, and by which connection it is reached."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from lakebed.config import METASTORE, WAREHOUSE, Config, load
from lakebed.core.errors import NotFoundError, OptionError
from lakebed.core.location import Location
from lakebed.core.options import Options, find, normalise
from lakebed.table import Table
from lakebed.warehouse import Warehouse

PATH = "path"
READING = (PATH, "version", "timestamp", "tag", "columns", "where", "push-filters", "read-optimized", "read-optimised")
"""The options of a reader."""
CREATING = ("primary-key", "partition-by", "buckets", "merge", "merge-engine", "sequence")
"""What a table gets that is made by its first write."""
WRITING = (
    PATH, "merge-schema", "replace-where", "partition-overwrite-mode", "row-kind", "txn-app-id", "txn-version",
    *CREATING,
)  # fmt: skip
"""The options of a writer."""
ROWS = (*READING, *WRITING)
"""A table of Spark's catalog passes the same options to both."""
_PROVIDER = "provider"
_OF_CATALOG = (_PROVIDER, "owner", "location", "comment", "external", "is_managed_location", "collation")
"""What Spark's catalog adds to the options of a table that it knows."""


def sorted_out(given: Mapping[str, str], own: Collection[str]) -> tuple[dict[str, str], dict[str, str]]:
    """A reader's or writer's own options, and those of the connection, which it may give too; in any spelling.

    Raises OptionError for what is neither.

    >>> sorted_out({"Version": "5", "s3_endpoint": "http://h"}, ["version"])
    ({'version': '5'}, {'s3.endpoint': 'http://h'})
    """
    by_spelling = {normalise(name): name for name in own}
    by_spelling |= {normalise(name).replace("_", ""): name for name in own}  # mergeSchema, as others write it
    mine: dict[str, str] = {}
    connection: dict[str, str] = {}
    for name, text in given.items():
        spelled = normalise(name)
        if of_catalog(given) and name in _OF_CATALOG:
            continue
        if spelled in by_spelling:
            mine[by_spelling[spelled]] = text
        elif spelled in (WAREHOUSE, METASTORE):
            connection[spelled] = text
        else:
            connection[find(name, extra=(*own, WAREHOUSE, METASTORE)).name] = text
    return mine, connection


def of_catalog(given: Mapping[str, str]) -> bool:
    """Whether the options are those of a table that Spark's catalog is about to know."""
    return _PROVIDER in given


def connected(registered: Config | None, given: Mapping[str, str]) -> Config | None:
    """The settings of a connection: those registered with the session, with what is given here; None if none are.

    A warehouse that is given here is another one, of which the session knows nothing.
    """
    options = {name: text for name, text in given.items() if name not in (WAREHOUSE, METASTORE)}
    if WAREHOUSE in given:
        return load(given[WAREHOUSE], given.get(METASTORE), options)
    if METASTORE in given:
        raise OptionError("a metastore is given without its warehouse", fix="option('warehouse', …)")
    if registered is None:
        return None
    return replace(registered, options=registered.options.updated(options))


def connection_options(config: Config | None, given: Mapping[str, str]) -> Options:
    """The options of that connection; those that are given here where there is no warehouse."""
    if config is not None:
        return config.options
    return Options.parse({name: text for name, text in given.items() if name not in (WAREHOUSE, METASTORE)})


@contextmanager
def opened(config: Config) -> Iterator[Warehouse]:
    """The warehouse, for as long as the block runs."""
    with Warehouse(config) as lake:
        yield lake


def location_in(path: str, options: Options) -> Location | None:
    """Where a path points to; None if it is the name of a table.

    >>> location_in("shop.orders", Options()) is None, location_in("/lake/shop/orders", Options()).uri
    (True, 'file:///lake/shop/orders')
    """
    return Location.parse(path, default_fs=options.default_fs) if "/" in path else None


def table_in(lake: Warehouse, path: str, place: Location | None) -> Table:
    """The table of a warehouse that a path means. Raises NotFoundError."""
    found = lake.table(path) if place is None else lake.table_at(place.uri)
    if found is None:
        raise NotFoundError(f"no table of the warehouse is at {path}", fix="lake.register(name, path) first")
    return found


def no_warehouse(path: str, why: str = "") -> NotFoundError:
    """What is wrong where neither the session nor the options name a warehouse."""
    return NotFoundError(
        f"table {path}: this Spark session knows no warehouse{why}",
        fix="lakebed.connect(…, spark=spark), lakebed.spark.register(spark, …), or option('warehouse', …)",
    )


def choice(own: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    """An option that is one of some words. Raises OptionError.

    >>> choice({"mode": "All"}, "mode", ("all", "append"), "append")
    'all'
    """
    text = own.get(name, default).strip().lower()
    if text not in choices:
        raise OptionError(f"option {name!r} has a wrong value", expected=" or ".join(choices), found=repr(own[name]))
    return text
