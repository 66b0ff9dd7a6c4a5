"""Micro-batches into a table, each once: what ``foreachBatch`` is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lakebed.core.errors import InputError
from lakebed.core.options import Options
from lakebed.engine.stream_query import query_id
from lakebed.records import Commit
from lakebed.writing import RowWriting

STREAM_MODES = ("append", "upsert", "complete")


@dataclass(frozen=True)
class StreamBatches:
    """Writes the batches of one query, each as one commit; get it from ``table.stream_writer(…)``."""

    write: Callable[[Any, tuple[str, int]], Commit] = field(repr=False)
    options: Options = field(repr=False)
    query: str | None
    checkpoint: str | None

    def __call__(self, batch: Any, batch_id: int) -> Commit:
        """Write a batch, unless it has been written before. Returns its commit."""
        return self.write(batch, (self.application, int(batch_id)))

    @cached_property
    def application(self) -> str:
        """What the query is called in the table's transactions."""
        return self.query if self.query is not None else query_id(str(self.checkpoint), self.options)


class StreamWritable(RowWriting[Commit]):
    """A table that takes the batches of a stream."""

    def stream_writer(
        self,
        mode: str = "append",
        *,
        checkpoint: str | None = None,
        query: str | None = None,
        row_kind: str | None = None,
        merge_schema: bool = False,
        explicit_cast: bool = False,
    ) -> StreamBatches:
        """A function for ``foreachBatch`` that writes every batch once, though it may be sent again after a crash.

        ``mode`` is ``"append"``, ``"upsert"`` or ``"complete"``, which replaces all rows by those of the batch. A
        batch is known by its query and its number: ``checkpoint`` is the query's ``checkpointLocation``, where its id
        is; or ``query`` names it, and a query with a new checkpoint, which counts its batches from 0, must have a new
        name. The rest is as for ``append`` and ``upsert``.

        >>> import lakebed, tempfile
        >>> t = lakebed.connect(tempfile.mkdtemp()).create_table("n", "n BIGINT")
        >>> write = t.stream_writer(query="loader")
        >>> write([{"n": 1}], 0).version, write([{"n": 2}], 1).version, write([{"n": 2}], 1).repeated
        (1, 2, True)
        >>> t.count()
        2
        """
        if mode not in STREAM_MODES:
            raise InputError(
                f"table {self.name}: a stream is not written so",
                expected=f"one of {', '.join(STREAM_MODES)}",
                found=repr(mode),
            )
        if (checkpoint is None) == (query is None):
            raise InputError(
                f"table {self.name}: a stream is written once only if it is known which one it is",
                expected="checkpoint= or query=",
                found="neither" if query is None else "both",
            )
        if row_kind is not None and mode != "upsert":
            raise InputError(f"table {self.name}: row_kind= is for mode 'upsert'", found=repr(mode))
        how: dict[str, Any] = {"merge_schema": merge_schema, "explicit_cast": explicit_cast}

        def write(batch: Any, txn: tuple[str, int]) -> Commit:
            if mode == "upsert":
                return self.upsert(batch, row_kind=row_kind, txn=txn, **how)
            if mode == "complete":
                return self.overwrite(batch, txn=txn, **how)
            return self.append(batch, txn=txn, **how)

        return StreamBatches(write, self._options, query, checkpoint)
