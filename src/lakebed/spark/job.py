"""Running one job and hearing of its failure, and what a session tells of itself."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pyarrow as pa

from lakebed.core.errors import AccessError, JobError, LakebedError, NoSpaceError, StorageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:\s*,\s*\d+)?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")
_CAUSE = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception)): (.+)$", re.MULTILINE)


def collected(frame: DataFrame, table_name: str) -> pa.Table:
    """The rows of a frame, computed by one job. Raises JobError, with the cause, if it fails."""
    try:
        return frame.toArrow()
    except Exception as error:  # of PySpark's classes or, where a file that the frame reads is damaged, of Py4J's
        raise JobError(
            f"table {table_name}: the Spark job failed, and nothing was changed", found=_reason(str(error))
        ) from error


def _reason(text: str) -> str:
    """The last line of a worker's traceback, or the first line of what Spark says."""
    if "No module named 'lakebed" in text:
        return "executors without this Lakebed; ship the driver's package to them, as docs/spark.md says"
    named = _CAUSE.findall(text)
    return ": ".join(named[-1]) if named else text.strip().partition("\n")[0]


_WORTH_ANOTHER_TRY = (StorageError, AccessError, NoSpaceError)


def is_final(error: LakebedError) -> bool:
    """Whether another try, maybe elsewhere, would end the same."""
    return type(error) not in _WORTH_ANOTHER_TRY


def setting(spark: SparkSession, name: str, default: str) -> str:
    """A setting of the session."""
    return spark.conf.get(name, default) or default


def is_local(spark: SparkSession) -> bool:
    """Whether tasks run in the driver's own process, and so on its machine."""
    return _LOCAL.fullmatch(setting(spark, "spark.master", "")) is not None


def slots(spark: SparkSession) -> int | None:
    """How many tasks run at once, if the session says so; None if not."""
    master = setting(spark, "spark.master", "")
    if local := _LOCAL.fullmatch(master):
        return (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)
    if cluster := _LOCAL_CLUSTER.fullmatch(master):
        return int(cluster[1]) * int(cluster[2])
    executors = setting(spark, "spark.executor.instances", "")
    cores = setting(spark, "spark.executor.cores", "")
    return int(executors) * int(cores) if executors.isdecimal() and cores.isdecimal() else None
