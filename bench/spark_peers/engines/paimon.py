"""Apache Paimon: primary-key tables in a catalog of folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from bench.spark_peers.engines.engine import BUCKETS, Engine, Shape, SqlTable, Table, columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class MergeOnRead(Engine):
    """The default: sorted runs, merged by whoever reads and, when there are too many, by whoever writes."""

    settings: ClassVar[dict[str, str]] = {
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.paimon.warehouse": "file:{root}/paimon",
    }
    properties: ClassVar[dict[str, str]] = {}
    crowd: ClassVar[dict[str, str]] = {"write-only": "true"}
    """Several writers must not compact the same buckets."""
    changes: ClassVar[dict[str, str]] = {}

    def table(self, name: str, shape: Shape) -> Table:
        """In the database that is made if it is not there."""
        self.spark.sql("CREATE DATABASE IF NOT EXISTS paimon.bench")
        folder = self.root / "paimon" / "bench.db" / name
        return PaimonTable(self.spark, f"paimon.bench.{name}", shape, folder, self)


class DeletionVectors(MergeOnRead):
    """Old rows are looked up when new ones are written; readers merge nothing."""

    properties: ClassVar[dict[str, str]] = {"deletion-vectors.enabled": "true"}
    crowd: ClassVar[dict[str, str]] = {}
    """Without compaction nobody would see what was written."""
    changes: ClassVar[dict[str, str]] = {"changelog-producer": "lookup"}
    """Changes are read from files that are not compacted yet, and those are not shown to readers of such tables."""


class PaimonTable(SqlTable):
    """An insert into a primary-key table is an upsert."""

    def __init__(self, spark: SparkSession, name: str, shape: Shape, folder: Path, engine: MergeOnRead) -> None:
        super().__init__(spark, name, shape, folder)
        self._properties = {"file.format": "parquet", "file.compression": "zstd"}
        if shape.key:
            self._properties |= {"primary-key": ",".join(shape.key), "bucket": str(BUCKETS), **engine.properties}

        if shape.crowd:
            self._properties |= engine.crowd
        if shape.changes:
            self._properties |= engine.changes

    def load(self, rows: DataFrame) -> None:
        """CREATE TABLE and one insert."""
        told = ", ".join(f"'{name}' = '{value}'" for name, value in self._properties.items())
        partition = f"PARTITIONED BY ({self.shape.partition})" if self.shape.partition else ""
        self.spark.sql(f"CREATE TABLE {self.name} ({columns(rows, self.shape.key)}) {partition} TBLPROPERTIES ({told})")
        self.append(rows)

    def upsert(self, rows: DataFrame) -> None:
        """One insert."""
        self.append(rows)

    def append(self, rows: DataFrame) -> None:
        """INSERT INTO."""
        rows.write.insertInto(self.name)

    def compact(self) -> None:
        """A full compaction of every bucket."""
        self.spark.sql(f"CALL paimon.sys.compact(table => '{self.name.removeprefix('paimon.')}')")

    def version(self) -> int:
        """The id of the latest snapshot."""
        found = self.spark.sql(f"SELECT max(snapshot_id) AS newest FROM {_system(self.name, 'snapshots')}")
        number: int = found.first()["newest"]  # type: ignore[index]
        return number

    def changes(self, since: int) -> DataFrame:
        """What was written between two snapshots, merged by key."""
        reader = self.spark.read.format("paimon").option("incremental-between", f"{since},{self.version()}")
        return reader.load(str(self.folder))


def _system(name: str, table: str) -> str:
    """A system table of a table: ``paimon.bench.`t$snapshots` ``."""
    place, _, last = name.rpartition(".")
    return f"{place}.`{last}${table}`"
