"""Who takes part: where the code of each is, on which Spark it runs, and which JARs it needs."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.spark_peers.engines.engine import Engine

ROOT = Path(__file__).resolve().parents[2]
OWN = "4.3"
"""The Spark of Lakebed's own environment; the others have one each."""


@dataclass(frozen=True)
class Contender:
    """One system in one configuration."""

    name: str
    engine: str
    """Module and class below ``bench.spark_peers.engines``."""
    spark: str
    """Major and minor version of Spark."""
    jars: tuple[str, ...] = ()
    """Maven coordinates: group, artifact and version."""
    bundle: bool = False
    """Whether the JARs have all that they need inside."""
    how: str = ""
    """Its configuration, in words for the report."""

    @property
    def python(self) -> Path:
        """The interpreter that runs it."""
        return Path(sys.executable) if self.spark == OWN else ROOT / f".venv-spark-{self.spark}" / "bin" / "python"

    @property
    def plain(self) -> bool:
        """Whether it is the yardstick: Spark and Parquet without a table format."""
        return self.name.startswith("parquet")

    @property
    def ours(self) -> bool:
        """Whether it is Lakebed."""
        return self.name.startswith("lakebed")

    @property
    def slug(self) -> str:
        """The name for folders and tables."""
        return "".join(letter if letter.isalnum() else "_" for letter in self.name)

    def kind(self) -> type[Engine]:
        """The class of its engine; imports what only its own environment has."""
        module, _, name = self.engine.partition(":")
        found: type[Engine] = getattr(importlib.import_module(f"bench.spark_peers.engines.{module}"), name)
        return found


DELTA = ("io.delta:delta-spark_4.2_2.13:4.4.0",)
ICEBERG = ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",)
HUDI = ("org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0",)
PAIMON = ("org.apache.paimon:paimon-spark-3.5:0.9.0",)

_YARDSTICK = "Spark writes what it is given as Parquet, and reads the rows that are live in the end; no table"

CONTENDERS = (
    Contender("lakebed on-write", "ours:OnWrite", OWN, how="4 buckets by key; every upsert settles itself (default)"),
    Contender("lakebed on-read", "ours:OnRead", OWN, how="4 buckets by key; readers, or settle(), settle"),
    Contender(
        "delta",
        "delta:Delta",
        "4.2",
        DELTA,
        how="MERGE; deletion vectors on; OPTIMIZE and REORG … APPLY (PURGE) to compact; change data feed in "
        "workload 4; 4 partitions for the snapshot of the log",
    ),
    Contender(
        "iceberg",
        "iceberg:Iceberg",
        "4.1",
        ICEBERG,
        bundle=True,
        how="format 3, merge-on-read with deletion vectors; bucket(4, id), sorted by key; MERGE with a "
        "storage-partitioned join; rewrite_data_files to compact; in workload 4 copy-on-write, because Iceberg tells "
        "no changes of merge-on-read; in workload 7 snapshot isolation and 20 retries of a commit",
    ),
    Contender(
        "hudi mor",
        "hudi:MergeOnRead",
        "3.5",
        HUDI,
        bundle=True,
        how="merge-on-read, bucket index with 4 buckets, commit-time ordering; compaction only by run_compaction; in "
        "workload 7 non-blocking concurrency control, with a lock in the process",
    ),
    Contender(
        "hudi cow",
        "hudi:CopyOnWrite",
        "3.5",
        HUDI,
        bundle=True,
        how="copy-on-write, record-level index in the metadata table, commit-time ordering; in workload 7 optimistic "
        "concurrency control, with a lock in the process",
    ),
    Contender(
        "paimon mor",
        "paimon:MergeOnRead",
        "3.5",
        PAIMON,
        bundle=True,
        how="primary-key table, bucket = 4, Parquet; merge-on-read (default); CALL sys.compact to compact; in "
        "workload 7 write-only",
    ),
    Contender(
        "paimon dv",
        "paimon:DeletionVectors",
        "3.5",
        PAIMON,
        bundle=True,
        how="the same with deletion-vectors.enabled: writes look the old rows up; changelog-producer = lookup in "
        "workload 4; in workload 7 every writer compacts, because nobody sees what is not compacted",
    ),
    *(Contender(f"parquet {spark}", "plain:Plain", spark, how=_YARDSTICK) for spark in (OWN, "4.2", "4.1", "3.5")),
)
BY_NAME = {one.name: one for one in CONTENDERS}


def yardstick(contender: Contender) -> Contender:
    """Plain Parquet on the same Spark."""
    return BY_NAME[f"parquet {contender.spark}"]


def chosen(names: list[str] | None) -> list[Contender]:
    """Those whose names begin with one of the words, each after the plain Parquet of its Spark.

    Raises ValueError if a word fits nobody.
    """
    found = []
    for word in names or [""]:
        fitting = [one for one in CONTENDERS if one.name.startswith(word)]
        if not fitting:
            raise ValueError(f"no contender is called {word!r}; there are {', '.join(BY_NAME)}")
        found += fitting
    wanted = {*found, *(yardstick(one) for one in found if not one.plain)}
    if not names:
        used = {one.spark for one in wanted if not one.plain}
        wanted = {one for one in wanted if one.spark in used}
    return [one for one in CONTENDERS if one in wanted]
