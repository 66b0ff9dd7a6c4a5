"""Lakebed: a warehouse with its embedded metastore, and the session of Spark handed to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import lakebed
from bench.spark_peers.engines.engine import BUCKETS, Engine, Shape, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class OnWrite(Engine):
    """The default: an upsert settles itself."""

    merge: ClassVar[str] = "on-write"

    def __init__(self, spark: SparkSession, root: Path) -> None:
        super().__init__(spark, root)
        self._lake = lakebed.connect(root, spark=spark, progress=False)

    def table(self, name: str, shape: Shape) -> Table:
        """In the namespace that is always there."""
        return OurTable(self._lake, name, shape, self.merge)


class OnRead(OnWrite):
    """An upsert only writes; whoever reads first settles in memory."""

    merge = "on-read"


class OurTable(Table):
    """A primary-key table, or one without a key."""

    def __init__(self, lake: Any, name: str, shape: Shape, merge: str) -> None:
        self._lake = lake
        self._name = name
        self._shape = shape
        self._merge = merge

    def load(self, rows: DataFrame) -> None:
        """The first upsert."""
        keyed = {"primary_key": list(self._shape.key), "buckets": BUCKETS, "merge": self._merge}
        partition = {} if self._shape.partition is None else {"partition_by": [self._shape.partition]}
        made = self._lake.create_table(self._name, rows.schema, **(keyed if self._shape.key else {}), **partition)
        self._table = made
        self.folder = Path(made.location.removeprefix("file://"))
        self.append(rows)

    def upsert(self, rows: DataFrame) -> None:
        """One commit, published."""
        self._table.upsert(rows)

    def append(self, rows: DataFrame) -> None:
        """With a key that is an upsert like any other."""
        if self._shape.key:
            self._table.upsert(rows)
        else:
            self._table.append(rows)

    def read(self) -> DataFrame:
        """The native scan."""
        frame: DataFrame = self._table.df()
        return frame

    def lookup(self, where: str) -> DataFrame:
        """The condition also tells which files are needed."""
        frame: DataFrame = self._table.df(where=where)
        return frame.where(where)

    def delete(self, where: str) -> None:
        """By a condition."""
        self._table.delete(where)

    def update(self, to: Mapping[str, str], where: str) -> None:
        """By a condition."""
        self._table.update(dict(to), where=where)

    def compact(self) -> None:
        """All files, so that no dead row is left."""
        self._table.compact(full=True)

    def version(self) -> int:
        """The version's number."""
        number: int = self._table.version
        return number

    def changes(self, since: int) -> DataFrame:
        """New and changed rows, as they are now; what they were before is not asked for."""
        frame: DataFrame = self._table.changes(since, mode="append").df()
        return frame.drop("_change_type", "_commit_version", "_commit_timestamp")

    def drop(self) -> None:
        """Out of the warehouse, and off the disk."""
        self._lake.drop_table(self._name)
        super().drop()
