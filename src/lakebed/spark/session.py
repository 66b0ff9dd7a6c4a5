"""Making a Spark session know Lakebed. Importing this does not import Spark."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lakebed.config import NO_WAREHOUSE, Config, load
from lakebed.core.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakebed.engine.distribution import Distribution


def register(
    spark: SparkSession,
    warehouse: str | os.PathLike[str] | None = None,
    metastore: str | None = None,
    **options: Any,
) -> None:
    """Make ``format("lakebed")`` known to a session, with the warehouse in which it looks for tables.

    The arguments are those of ``lakebed.connect``, which does this too, if it is given the session. Without them, and
    without a configuration to take them from, tables are found by their location, or by an option ``warehouse``.
    Raises OptionError if ``spark`` is no session.

    >>> import lakebed, tempfile
    >>> lakebed.spark.register(spark, tempfile.mkdtemp())  # doctest: +SKIP
    """
    _check(spark)
    given = warehouse is not None or metastore is not None or options
    _register(spark, load(warehouse, metastore, options) if given else _configured())


def attach(spark: SparkSession, config: Config | None = None) -> Distribution:
    """The distribution over a session, which gets to know the warehouse, if there is one.

    Raises OptionError if ``spark`` is no session.
    """
    _check(spark)
    if config is not None:
        _register(spark, config)
    from lakebed.spark.cluster import SparkDistribution

    return SparkDistribution(spark)


def _register(spark: SparkSession, config: Config | None) -> None:
    from lakebed.spark.source import LakebedSource

    # A class that is made here is sent as it is, with what it knows; one of a module would be sent as a name.
    spark.dataSource.register(type("Lakebed", (LakebedSource,), {"config": config}))


def _configured() -> Config | None:
    """The connection that the environment or a file describes; None if there is none."""
    try:
        return load()
    except OptionError as error:
        if error.what == NO_WAREHOUSE:
            return None
        raise


def _check(spark: Any) -> None:
    known = any(k.__name__ == "SparkSession" and k.__module__.startswith("pyspark.") for k in type(spark).__mro__)
    if not known:
        raise OptionError("spark= is a Spark session", expected="a pyspark SparkSession", found=repr(spark))
