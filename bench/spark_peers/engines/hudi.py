"""Apache Hudi: merge-on-read with the bucket index, and copy-on-write with the record-level index."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from bench.spark_peers.engines.engine import BUCKETS, Engine, Shape, SqlTable, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class MergeOnRead(Engine):
    """The index that needs no look-up: the key's hash says which file group a row is in."""

    settings: ClassVar[dict[str, str]] = {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    }
    kind: ClassVar[str] = "MERGE_ON_READ"
    crowd: ClassVar[dict[str, str]] = {"hoodie.write.concurrency.mode": "non_blocking_concurrency_control"}
    """With the bucket index, several may write into the same file group; the readers merge what they wrote."""
    index: ClassVar[dict[str, str]] = {
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "SIMPLE",
        "hoodie.bucket.index.num.buckets": str(BUCKETS),
        "hoodie.bucket.index.hash.field": "{key}",
    }

    def table(self, name: str, shape: Shape) -> Table:
        """At a place that is known."""
        return HudiTable(self.spark, name, shape, self.root / name, self)


class CopyOnWrite(MergeOnRead):
    """The index that knows for every key where its row is."""

    kind = "COPY_ON_WRITE"
    crowd: ClassVar[dict[str, str]] = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}
    index: ClassVar[dict[str, str]] = {
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.metadata.record.index.enable": "true",
    }


class HudiTable(SqlTable):
    """Written by Hudi's data source, which has the upsert; SQL for the rest."""

    def __init__(self, spark: SparkSession, name: str, shape: Shape, folder: Path, engine: MergeOnRead) -> None:
        super().__init__(spark, name, shape, folder)
        crowd = {
            **engine.crowd,
            "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
            "hoodie.clean.failed.writes.policy": "LAZY",
        }
        keyless = {"hoodie.datasource.write.operation": "insert"}
        keyed = {
            "hoodie.datasource.write.recordkey.field": ",".join(shape.key),
            "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
            **{key: value.replace("{key}", ",".join(shape.key)) for key, value in engine.index.items()},
        }
        self._options = {
            "hoodie.table.name": name,
            "hoodie.datasource.write.table.type": engine.kind,
            "hoodie.parquet.compression.codec": "zstd",
            "hoodie.metadata.enable": "true",
            **(keyed if shape.key else keyless),
            **({"hoodie.datasource.write.partitionpath.field": shape.partition} if shape.partition else {}),
            **(crowd if shape.crowd else {}),
        }
        self._merge_on_read = engine.kind == MergeOnRead.kind

    def load(self, rows: DataFrame) -> None:
        """The bulk insert that Hudi recommends for a first load; the bucket index wants a plain insert."""
        operation = "insert" if self._options.get("hoodie.index.type") == "BUCKET" else "bulk_insert"
        self._write(rows, operation, "overwrite")
        self.spark.sql(f"CREATE TABLE {self.name} USING hudi LOCATION '{self.folder}'")

    def upsert(self, rows: DataFrame) -> None:
        """The upsert of the data source."""
        self._write(rows, "upsert", "append")

    def append(self, rows: DataFrame) -> None:
        """The insert of the data source."""
        self._write(rows, "insert", "append")

    def read(self) -> DataFrame:
        """The snapshot, without Hudi's own columns."""
        rows = self.spark.read.format("hudi").load(str(self.folder))
        return rows.drop(*(name for name in rows.columns if name.startswith("_hoodie_")))

    def compact(self) -> None:
        """Log files into base files; copy-on-write tables have none, their small files are clustered."""
        if self._merge_on_read:
            # Without the option nothing is planned until there are five delta commits.
            self.spark.sql(
                f"CALL run_compaction(op => 'scheduleAndExecute', table => '{self.name}', "
                "options => 'hoodie.compact.inline.max.delta.commits=1')"
            )
        else:
            self.spark.sql(f"CALL run_clustering(op => 'scheduleAndExecute', table => '{self.name}')")

    def version(self) -> str:
        """The time of the latest commit, in the order in which commits were completed."""
        shown = self.spark.sql(f"CALL show_commits(table => '{self.name}', limit => 1)").first()
        assert shown is not None
        told = shown.asDict()
        time: str = told.get("state_transition_time") or told["commit_time"]
        return time

    def changes(self, since: str) -> DataFrame:
        """An incremental query: the latest state of what was written after that commit."""
        reader = self.spark.read.format("hudi").option("hoodie.datasource.query.type", "incremental")
        rows = reader.option("hoodie.datasource.read.begin.instanttime", since).load(str(self.folder))
        return rows.drop(*(name for name in rows.columns if name.startswith("_hoodie_")))

    def _write(self, rows: DataFrame, operation: str, mode: str) -> None:
        options = {**self._options, "hoodie.datasource.write.operation": operation}
        rows.write.format("hudi").options(**options).mode(mode).save(str(self.folder))
