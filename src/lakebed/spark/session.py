"""Making a Spark session know Lakebed. Importing this does not import Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakebed.core.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakebed.engine.distribution import Distribution


def register(spark: SparkSession) -> None:
    """Make ``format("lakebed")`` known to a session. Raises OptionError if ``spark`` is not one."""
    _check(spark)


def attach(spark: SparkSession) -> Distribution:
    """The distribution over a session, which is made to know Lakebed. Raises OptionError if ``spark`` is not one."""
    register(spark)
    from lakebed.spark.cluster import SparkDistribution

    return SparkDistribution(spark)


def _check(spark: Any) -> None:
    known = any(k.__name__ == "SparkSession" and k.__module__.startswith("pyspark.") for k in type(spark).__mro__)
    if not known:
        raise OptionError("spark= is a Spark session", expected="a pyspark SparkSession", found=repr(spark))
