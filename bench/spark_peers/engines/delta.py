"""Delta Lake: MERGE, with deletion vectors on."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from bench.spark_peers.engines.engine import Engine, Shape, SqlTable, Table, columns
from bench.spark_peers.session import PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Delta(Engine):
    """Tables by their names in the session's catalog. As after any shuffle, few tasks read the log of a table."""

    settings: ClassVar[dict[str, str]] = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": str(PARTITIONS),
    }

    def table(self, name: str, shape: Shape) -> Table:
        """At a place that is known."""
        return DeltaTable(self.spark, f"default.{name}", shape, self.root / name)


class DeltaTable(SqlTable):
    """Merges find the files to look at by their statistics; the rows of a load come in the order of the key."""

    def load(self, rows: DataFrame) -> None:
        """CREATE TABLE and one append."""
        properties = {"delta.enableDeletionVectors": "true"}
        if self.shape.changes:
            properties["delta.enableChangeDataFeed"] = "true"
        told = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        partition = "" if self.shape.partition is None else f"PARTITIONED BY ({self.shape.partition})"
        self.spark.sql(
            f"CREATE TABLE {self.name} ({columns(rows, self.shape.key)}) USING delta {partition} "
            f"LOCATION '{self.folder}' TBLPROPERTIES ({told})"
        )
        self.append(rows)

    def compact(self) -> None:
        """OPTIMIZE, which also purges rows that are dead."""
        self.spark.sql(f"OPTIMIZE {self.name}")
        self.spark.sql(f"REORG TABLE {self.name} APPLY (PURGE)")

    def version(self) -> int:
        """The version's number."""
        number: int = self.spark.sql(f"DESCRIBE HISTORY {self.name} LIMIT 1").first()["version"]  # type: ignore[index]
        return number

    def changes(self, since: int) -> DataFrame:
        """The change data feed after that version."""
        reader = self.spark.read.option("readChangeFeed", "true").option("startingVersion", since + 1)
        kept = reader.table(self.name).where("_change_type IN ('insert', 'update_postimage')")
        return kept.drop("_change_type", "_commit_version", "_commit_timestamp")
