"""Apache Iceberg: format 3, merge-on-read, buckets by hidden partitioning, in a Hadoop catalog."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from bench.spark_peers.engines.engine import BUCKETS, Engine, Shape, SqlTable, Table, columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

_PROPERTIES = {
    "format-version": "3",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.parquet.compression-codec": "zstd",
}
_CHANGES = dict.fromkeys(("write.delete.mode", "write.update.mode", "write.merge.mode"), "copy-on-write")
"""Iceberg tells no changes of versions that have added deletes."""
_CROWD = {"write.merge.isolation-level": "snapshot", "commit.retry.num-retries": "20"}
_GROUPING = ("spark.sql.sources.v2.bucketing.enabled", "spark.sql.iceberg.planning.preserve-data-grouping")


class Iceberg(Engine):
    """A catalog of its own, whose tables are folders. Joins on the bucketed key need no shuffle of the table."""

    settings: ClassVar[dict[str, str]] = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": "{root}/ice",
        "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
        "spark.sql.sources.v2.bucketing.shuffle.enabled": "true",
        **dict.fromkeys(_GROUPING, "true"),
    }

    def table(self, name: str, shape: Shape) -> Table:
        """In the one namespace."""
        return IcebergTable(self.spark, f"ice.bench.{name}", shape, self.root / "ice" / "bench" / name)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Joins without a shuffle are for MERGE: by them Spark 4.1 fails at queries of TPC-H at scale factor 1."""
        for name in _GROUPING:
            self.spark.conf.set(name, "false")
        try:
            yield
        finally:
            for name in _GROUPING:
                self.spark.conf.set(name, "true")


class IcebergTable(SqlTable):
    """Snapshots have ids."""

    def load(self, rows: DataFrame) -> None:
        """CREATE TABLE and one append."""
        parts = [f"bucket({BUCKETS}, {self.shape.key[0]})"] if self.shape.key else []
        parts += [self.shape.partition] if self.shape.partition else []
        partition = f"PARTITIONED BY ({', '.join(parts)})" if parts else ""
        properties = {**_PROPERTIES, **(_CROWD if self.shape.crowd else {}), **(_CHANGES if self.shape.changes else {})}
        told = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        self.spark.sql(
            f"CREATE TABLE {self.name} ({columns(rows, self.shape.key)}) USING iceberg {partition} "
            f"TBLPROPERTIES ({told})"
        )
        if self.shape.key:
            order = ", ".join(self.shape.key)
            self.spark.sql(f"ALTER TABLE {self.name} WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY {order}")
        self.append(rows)

    def compact(self) -> None:
        """All files are rewritten, so that no delete is left."""
        self.spark.sql(
            f"CALL ice.system.rewrite_data_files(table => '{self.name.removeprefix('ice.')}', "
            "options => map('rewrite-all', 'true'))"
        )

    def version(self) -> int:
        """The id of the latest snapshot."""
        newest = self.spark.sql(f"SELECT snapshot_id FROM {self.name}.snapshots ORDER BY committed_at DESC LIMIT 1")
        number: int = newest.first()["snapshot_id"]  # type: ignore[index]
        return number

    def changes(self, since: int) -> DataFrame:
        """The view of a change log that Iceberg's procedure makes."""
        view = f"changes_{since}"
        self.spark.sql(
            f"CALL ice.system.create_changelog_view(table => '{self.name.removeprefix('ice.')}', "
            f"changelog_view => '{view}', options => map('start-snapshot-id', '{since}'), "
            f"identifier_columns => array({', '.join(repr(key) for key in self.shape.key)}))"
        )
        kept = self.spark.table(view).where("_change_type IN ('INSERT', 'UPDATE_AFTER')")
        return kept.drop("_change_type", "_change_ordinal", "_commit_snapshot_id")
