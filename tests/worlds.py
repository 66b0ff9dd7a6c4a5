"""A warehouse with Spark or without, and rows for it: what the behaviour suite is told in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from spark_frames import frame_of
from spark_reading import canonical, collected

import lakebed

SCHEMA = "id BIGINT NOT NULL, part STRING, n INT, name STRING"


def rows(ids: Iterable[int], **fixed: Any) -> pa.Table:
    """Rows of SCHEMA; what is not fixed follows from the id."""
    made = [{"id": i, "part": "ab"[i % 2], "n": i % 7, "name": f"name {i}" if i % 3 else None, **fixed} for i in ids]
    kinds = {"id": pa.int64(), "part": pa.string(), "n": pa.int32(), "name": pa.string()}
    return pa.Table.from_pylist(made, pa.schema(kinds))


def shown(*tables: pa.Table) -> list[dict[str, Any]]:
    """Rows as ``World.seen`` gives them."""
    return sorted((row for table in tables for row in table.to_pylist()), key=repr)


@dataclass(frozen=True)
class World:
    """A warehouse, how rows are given to it, and how they are seen."""

    lake: lakebed.Warehouse
    spark: Any | None = None

    def given(self, rows: pa.Table) -> Any:
        """Rows as their writer has them: in a frame, if there is Spark."""
        return rows if self.spark is None else frame_of(self.spark, rows)

    def seen(
        self, view: lakebed.Table | lakebed.TableView, columns: Sequence[str] | None = None, where: Any = None
    ) -> list[dict[str, Any]]:
        """The rows, in the order of their text; every way to read them shows the same."""
        rows = view.to_arrow(columns, where)
        if self.spark is not None:
            assert canonical(collected(view.df(columns, where), rows.schema)) == canonical(rows)
        return sorted(rows.to_pylist(), key=repr)

    def ids(self, view: lakebed.Table | lakebed.TableView, where: Any = None) -> list[Any]:
        return sorted(row["id"] for row in self.seen(view, ["id"], where))
