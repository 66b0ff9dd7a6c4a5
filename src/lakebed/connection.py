"""The doors: connect to a warehouse, look into a Delta table, recover a lost metastore."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lakebed.config import Config, load
from lakebed.core.errors import InputError, OptionError
from lakebed.core.location import Location
from lakebed.core.names import TableName
from lakebed.core.options import Options
from lakebed.delta.log import read_log
from lakebed.engine.point import LogPoint
from lakebed.records import check_whole
from lakebed.spark.session import attach
from lakebed.storage.store import open_store
from lakebed.table import Table
from lakebed.view import TableView
from lakebed.warehouse import Warehouse


def connect(
    warehouse: str | os.PathLike[str] | None = None,
    metastore: str | None = None,
    spark: Any = None,
    **options: Any,
) -> Warehouse:
    """Open a warehouse; a local one is made if it is not there.

    Arguments win over ``LAKEBED_WAREHOUSE``, ``LAKEBED_METASTORE``, … in the environment, which win over
    ``lakebed.toml`` or ``lakebed.properties`` in ``LAKEBED_HOME`` or the working directory. A local warehouse
    without a metastore gets SQLite in ``.lakebed/``; a remote one needs ``metastore="postgresql://…"``.
    With ``spark``, a Spark session, classic or of Spark Connect, tables can be read and written as DataFrames.
    Raises OptionError for unknown or wrong options, MetastoreError if the metastore cannot be used.

    >>> import lakebed, tempfile
    >>> lake = lakebed.connect(tempfile.mkdtemp(), batch_size=4096)
    >>> lake.namespaces()
    ['default']
    """
    if warehouse is not None and not isinstance(warehouse, str | os.PathLike):
        raise OptionError("warehouse= is a directory or a URI", expected="text or a path", found=repr(warehouse))
    return open_warehouse(load(warehouse, metastore, options), spark)


def open_warehouse(config: Config, spark: Any = None, *, create: bool = True) -> Warehouse:
    """The warehouse of settings that are known already; with ``create=False`` one that is not there is an error.

    Raises MetastoreError if the metastore cannot be used.
    """
    distribution = None if spark is None else attach(spark, config)
    return Warehouse(config, distribution, _run_statement, create=create)


def _run_statement(lake: Warehouse, text: str, parameters: Mapping[str, Any]) -> Any:
    from lakebed.sql.runner import run  # only who speaks SQL waits for its parser

    return run(lake, text, parameters)


def read_delta(
    path: str | os.PathLike[str], version: int | None = None, spark: Any = None, **options: Any
) -> TableView:
    """Look into any Delta table without a metastore; ``options`` are those of ``connect``.

    Raises NotFoundError if there is none, UnsupportedFeatureError for features unknown to Lakebed.

    >>> import lakebed, tempfile
    >>> t = lakebed.connect(tempfile.mkdtemp()).create_table("n", "n BIGINT")
    >>> _ = t.append([{"n": 1}])
    >>> lakebed.read_delta(t.location).to_arrow().to_pylist()
    [{'n': 1}]
    """
    parsed = Options.parse(options)
    if version is not None:
        check_whole(version, "a version")
    place = Location.parse(path, default_fs=parsed.default_fs)
    store = open_store(place, parsed)
    distribution = None if spark is None else attach(spark)
    return TableView(place.uri, LogPoint(read_log(store, version)), store, parsed, distribution)


def recover(
    path: str | os.PathLike[str],
    warehouse: str | os.PathLike[str] | None = None,
    metastore: str | None = None,
    name: str | None = None,
    **options: Any,
) -> Table:
    """Rebuild a table's metastore rows from its open log alone, and return the table.

    Every version that the log still has comes back as it was. What the log does not hold is lost with the
    metastore: tags, properties of namespaces, and versions that had landed but were not published yet.

    The warehouse is that of the configuration, or, failing that, the directory that the table's own name implies:
    ``w`` for the table ``shop.orders`` at ``w/shop/orders``.

    >>> import lakebed, os, shutil, tempfile
    >>> root = tempfile.mkdtemp()
    >>> with lakebed.connect(root) as lake:
    ...     t = lake.create_table("n", "n BIGINT")
    ...     _ = t.append([{"n": 1}])
    >>> shutil.rmtree(os.path.join(root, ".lakebed"))
    >>> lakebed.recover(os.path.join(root, "default", "n")).count()
    1
    """
    if warehouse is None and not os.environ.get("LAKEBED_WAREHOUSE"):
        warehouse = _implied_warehouse(path, Options.parse(options), name)
    lake = connect(warehouse, metastore, **options)
    return lake.recover(path, name)


def _implied_warehouse(path: str | os.PathLike[str], options: Options, name: str | None) -> str:
    place = Location.parse(path, default_fs=options.default_fs)
    logged = name or read_log(open_store(place, options)).metadata.name
    if logged:
        found = TableName.parse(logged)
        if place.name == found.name and place.parent.name == found.namespace:
            return place.parent.parent.uri
    raise InputError(
        f"the warehouse of {place.uri} cannot be told from its path", fix="pass warehouse= (and metastore=)"
    )
