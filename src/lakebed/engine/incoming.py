"""Rows on their way into a table, whoever writes them: this process, or the tasks of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from lakebed.core.actions import AddFile
from lakebed.engine.keyed_write import write_upserts
from lakebed.engine.settle_order import Settling
from lakebed.engine.upsert_order import Upserted, UpsertOrder
from lakebed.engine.write import WriteOrder, write_rows

Settles = Callable[[], Settling | None]
"""What a writer of whole buckets asks to settle them itself; None where that is not wanted, or better done later."""


class Incoming(Protocol):
    """Rows that can be written once, as new files that belong to no version yet.

    Both methods raise DataError that lists what does not fit; on any error no file remains.
    """

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""

    def write(self, order: WriteOrder) -> list[AddFile]:
        """Write the rows into a table without a key."""

    def upsert(self, order: UpsertOrder, settles: Settles) -> Upserted:
        """Write the rows as upsert files."""


@dataclass(frozen=True)
class ArrowRows:
    """Rows that this process writes."""

    reader: pa.RecordBatchReader

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self.reader.schema

    def write(self, order: WriteOrder) -> list[AddFile]:
        """Write the rows into a table without a key."""
        return write_rows(self.reader, order)[0]

    def upsert(self, order: UpsertOrder, settles: Settles) -> Upserted:
        """Write the rows as upsert files; they are settled when the commit lands."""
        return write_upserts(self.reader, order)
