"""Numbers for the files of a scan, from which Spark knows what is the same for all rows of a file.

A number has the ordinal of the file in its lower bits, and the ordinal of its partition above them. What a file tells
of its rows (partition values, bucket, version) is an array by ordinal, which Spark folds to a constant: there is
nothing to join, and a filter on such a column leaves files away before any of them is opened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.location import Location
from lakebed.core.partition import decode_values, encode_value
from lakebed.core.schema import Field
from lakebed.core.schema_ddl import type_ddl
from lakebed.delta.foreign import place
from lakebed.storage.store import Store

if TYPE_CHECKING:
    from pyspark.sql import Column

FILE_BITS = 24
"""A scan has fewer files than that power of two, and fewer partitions than twice that."""
FILE_MASK = (1 << FILE_BITS) - 1


@dataclass(frozen=True)
class NumberedFile:
    """A file of a scan, as Spark gets to know it."""

    uri: str
    size: int
    number: int


@dataclass(frozen=True)
class NumberedFiles:
    """The files of one scan, each with its number."""

    store: Store
    metadata: Metadata
    files: tuple[AddFile, ...]

    @cached_property
    def _partition_names(self) -> tuple[str, ...]:
        return tuple(f.physical_name for f in self.metadata.partition_schema)

    @cached_property
    def _partitions(self) -> dict[tuple[str | None, ...], int]:
        """The ordinal of each partition's values."""
        found: dict[tuple[str | None, ...], int] = {}
        for add in self.files:
            found.setdefault(self._values(add), len(found))
        return found

    def _values(self, add: AddFile) -> tuple[str | None, ...]:
        return tuple(map(add.partition_values.get, self._partition_names))

    def listed(self) -> list[NumberedFile]:
        """The files with their places and numbers."""
        root = hadoop_uri(self.store.location)
        return [
            NumberedFile(
                f"{root}/{add.path}" if _is_plain(add.path) else hadoop_uri(_location(self.store, add)),
                add.size,
                self._partitions[self._values(add)] << FILE_BITS | ordinal,
            )
            for ordinal, add in enumerate(self.files)
        ]

    def partition_value(self, column: Field, number: Column) -> Column:
        """The value of a partition column in the rows of the file with that number."""
        at = [f.name for f in self.metadata.partition_schema].index(column.name)
        decoded = decode_values([values[at] for values in self._partitions], column.type)
        texts = [encode_value(value, column.type) for value in decoded]
        return _lookup(texts, type_ddl(column.type), _partition_of(number))

    def fact(self, of: Callable[[AddFile], object], kind: str, number: Column) -> Column:
        """What ``of`` tells of the file with that number, as SQL type ``kind``."""
        return self.told([of(add) for add in self.files], kind, number)

    def told(self, facts: Sequence[object], kind: str, number: Column) -> Column:
        """The one of ``facts``, which has one for each file, for the file with that number, as SQL type ``kind``."""
        return _lookup([None if fact is None else str(fact) for fact in facts], kind, ordinal_of(number))


_PLAIN = re.compile(r"[\w=,@+~-][\w=,@+~.-]*(?:/[\w=,@+~-][\w=,@+~.-]*)*", re.ASCII)
SPARK_SCHEMES = {"s3": "s3a"}


def hadoop_uri(location: Location) -> str:
    """The URI by which Hadoop's file systems know a file or a directory.

    >>> hadoop_uri(Location.parse("s3://bucket/a b"))
    's3a://bucket/a%20b'
    """
    return replace(location, scheme=SPARK_SCHEMES.get(location.scheme, location.scheme)).uri


def _location(store: Store, add: AddFile) -> Location:
    at = place(store, add)
    return at.store.location.child(at.path)


def _is_plain(path: str) -> bool:
    """Whether a path of the log is below the table and reads the same decoded: most are, and there may be many.

    >>> [_is_plain(path) for path in ("dt=1/a.parquet", "dt=a%20b/a.parquet", "/a", "a/../b", "s3:/a")]
    [True, False, False, False, False]
    """
    return _PLAIN.fullmatch(path) is not None


def ordinal_of(number: Column) -> Column:
    """The ordinal of the file with that number."""
    return number.bitwiseAND(FILE_MASK)


def _partition_of(number: Column) -> Column:
    from pyspark.sql import functions as F

    return F.shiftright(number, FILE_BITS)


def _lookup(texts: Sequence[str | None], kind: str, ordinal: Column) -> Column:
    from pyspark.sql import functions as F

    values = F.from_json(F.lit(json.dumps(texts, ensure_ascii=False)), "array<string>")
    return F.get(values.cast(f"array<{kind}>"), ordinal.cast("int"))
