"""Tables of keys for the tests of merging, made from a few words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from lakebed.core.actions import Metadata
from lakebed.core.merging import MergeSpec
from lakebed.core.schema_arrow import to_arrow
from lakebed.core.schema_ddl import from_ddl
from lakebed.core.schema_delta import to_delta

KINDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}


def metadata(
    ddl: str, engine: str, *, key: str = "k", sequence: str = "", options: Mapping[str, str] | None = None
) -> Metadata:
    """A table's metadata; ``ddl`` like ``k bigint, v string``."""
    plain = {"ignore-delete", "remove-record-on-delete", "remove-record-on-sequence-group"}
    configuration = {
        "lakebed.primary-key": json.dumps(key.split(",")),
        "lakebed.merge-engine": engine,
        "lakebed.sequence": json.dumps(sequence.split(",") if sequence else []),
        **{(f"lakebed.{name}" if name in plain else name): text for name, text in (options or {}).items()},
    }
    return Metadata("t", to_delta(from_ddl(ddl)), configuration=configuration)


class Table:
    """One key table whose batches are tuples, optionally with a row kind in front."""

    def __init__(self, ddl: str, engine: str, **settings: Any) -> None:
        self.metadata = metadata(ddl, engine, **settings)
        self.spec = MergeSpec.of(self.metadata)
        self.names = self.metadata.schema.names
        self.state: pa.Table | None = None
        self.version = 0

    @property
    def schema(self) -> pa.Schema:
        fields = [f.with_nullable(True) for f in to_arrow(self.metadata.schema)]
        return pa.schema([*fields, ("_lakebed_kind", pa.int8()), ("_lakebed_row_version", pa.int64())])

    def batch(self, rows: Iterable[tuple[Any, ...]], version: int = 0) -> pa.Table:
        made = []
        for row in rows:
            kind, values = (KINDS[row[0]], row[1:]) if row[0] in KINDS else (None, row)
            made.append(dict(zip(self.names, values, strict=True)) | _hidden(kind, version))
        return pa.Table.from_pylist(made, self.schema)

    def upsert(self, *rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Folds one commit; returns the live rows of the table, by key."""
        from lakebed.core.merging import fold

        self.version += 1
        batch = self.batch(rows, self.version)
        self.state = replaced(self.state, batch, fold(self.state, batch, self.spec), self.spec.key)
        return self.live()

    def live(self) -> list[tuple[Any, ...]]:
        assert self.state is not None
        rows = self.state.to_pylist()
        alive = [tuple(row[name] for name in self.names) for row in rows if row["_lakebed_kind"] != 3]
        return sorted(alive, key=lambda row: row[0])

    def tombstones(self) -> list[tuple[Any, ...]]:
        assert self.state is not None
        rows = [row for row in self.state.to_pylist() if row["_lakebed_kind"] == 3]
        return [tuple(row[name] for name in self.names) for row in rows]


def _hidden(kind: int | None, version: int) -> dict[str, Any]:
    return {"_lakebed_kind": kind, "_lakebed_row_version": version}


def replaced(state: pa.Table | None, batch: pa.Table, folded: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """The state with the batch's keys replaced by their new rows."""
    if state is None:
        return folded
    touched = {tuple(row[name] for name in key) for row in batch.select(key).to_pylist()}
    kept = [row for row in state.to_pylist() if tuple(row[name] for name in key) not in touched]
    return pa.concat_tables([pa.Table.from_pylist(kept, state.schema), folded.cast(state.schema)])
