"""What a contender must be able to do."""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKETS = 4
"""For everybody who hashes keys into buckets."""


class NotOfferedError(Exception):
    """The contender has no such operation; the text says so for the report."""


@dataclass(frozen=True)
class Shape:
    """What kind of table is wanted."""

    key: tuple[str, ...] = ("id",)
    """The primary key; empty for a table that rows are only added to."""
    partition: str | None = None
    changes: bool = False
    """Whether somebody will ask what has changed: some must be told before they write."""
    crowd: bool = False
    """Whether several will write at the same time: some have other settings for that."""


class Table(ABC):
    """A table of a contender. Rows come and go as DataFrames."""

    folder: Path
    """Where all its files are."""

    @abstractmethod
    def load(self, rows: DataFrame) -> None:
        """Make the table, with these rows; their keys are distinct."""

    @abstractmethod
    def upsert(self, rows: DataFrame) -> None:
        """Put rows in, in place of those with the same key."""

    @abstractmethod
    def append(self, rows: DataFrame) -> None:
        """Add rows whose keys are new, or that have none."""

    @abstractmethod
    def read(self) -> DataFrame:
        """All rows of the latest version."""

    @abstractmethod
    def delete(self, where: str) -> None:
        """Remove the rows that satisfy a condition."""

    @abstractmethod
    def update(self, to: Mapping[str, str], where: str) -> None:
        """Give columns new values, as SQL expressions."""

    @abstractmethod
    def compact(self) -> None:
        """Leave few files, without dead rows, as readers like them."""

    @abstractmethod
    def version(self) -> Any:
        """A mark of the latest version that ``changes`` understands."""

    @abstractmethod
    def changes(self, since: Any) -> DataFrame:
        """The rows that have been put in since then, as they are now."""

    def lookup(self, where: str) -> DataFrame:
        """The rows that satisfy a condition on the key."""
        return self.read().where(where)

    def expect(self, live: Path) -> None:  # noqa: B027
        """From now on these are the rows that must be live: the yardstick, which has no table, reads them."""

    def drop(self) -> None:
        """Remove it, files and all."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Engine(ABC):
    """A contender in a Spark session."""

    settings: ClassVar[dict[str, str]] = {}
    """Of the session, besides those that all share; ``{root}`` is the folder of the contender."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.root = root

    @abstractmethod
    def table(self, name: str, shape: Shape) -> Table:
        """A table that is not there yet."""

    @contextmanager
    def asking(self) -> Iterator[None]:
        """While there are queries of several tables: some have settings for writing that do not suit them."""
        yield


class SqlTable(Table):
    """What those who have Spark SQL's own statements share."""

    def __init__(self, spark: SparkSession, name: str, shape: Shape, folder: Path) -> None:
        self.spark = spark
        self.name = name
        self.shape = shape
        self.folder = folder

    def upsert(self, rows: DataFrame) -> None:
        """MERGE: update what matches, insert the rest."""
        view = f"source_{threadless(self.name)}_{id(rows)}"
        rows.createOrReplaceTempView(view)
        match = " AND ".join(f"t.{key} = s.{key}" for key in self.shape.key)
        self.spark.sql(
            f"MERGE INTO {self.name} t USING {view} s ON {match} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        self.spark.catalog.dropTempView(view)

    def append(self, rows: DataFrame) -> None:
        """As Spark's writer does it."""
        rows.writeTo(self.name).append()

    def read(self) -> DataFrame:
        """The table by its name."""
        return self.spark.table(self.name)

    def delete(self, where: str) -> None:
        """DELETE."""
        self.spark.sql(f"DELETE FROM {self.name} WHERE {where}")

    def update(self, to: Mapping[str, str], where: str) -> None:
        """UPDATE."""
        values = ", ".join(f"{name} = {text}" for name, text in to.items())
        self.spark.sql(f"UPDATE {self.name} SET {values} WHERE {where}")

    def drop(self) -> None:
        """Out of the catalog, and off the disk."""
        self.spark.sql(f"DROP TABLE IF EXISTS {self.name}")
        super().drop()


def threadless(name: str) -> str:
    """A name that can be part of another one."""
    return name.replace(".", "_").replace("`", "")


def columns(rows: DataFrame, key: tuple[str, ...]) -> str:
    """The columns as DDL; a key has no nulls."""
    return ", ".join(
        f"{field.name} {field.dataType.simpleString()}{' NOT NULL' if field.name in key else ''}"
        for field in rows.schema
    )


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file below a folder, by its path."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            try:
                about = os.stat(path)
            except FileNotFoundError:
                continue  # a cleaner was quicker
            found[path] = (about.st_size, about.st_mtime_ns)
    return found
