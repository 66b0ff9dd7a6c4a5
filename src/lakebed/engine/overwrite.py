"""Appending and replacing rows."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.commit import Claim, Kind, partition_key
from lakebed.core.errors import DataError, InputError
from lakebed.core.partition import decode_values, encode_value
from lakebed.core.predicate import Node, evaluate, render
from lakebed.engine.delete import remove_rows
from lakebed.engine.draft import Draft
from lakebed.engine.write import TableWriter, conformed, write_rows


def append(draft: Draft, reader: pa.RecordBatchReader) -> int:
    """Add rows to the draft; returns how many."""
    files, rows = write_rows(reader, draft.order)
    draft.claims.append(Claim(Kind.APPEND))
    draft.parameters.setdefault("mode", "Append")
    draft.add_new(files)
    return rows


def overwrite_all(draft: Draft, reader: pa.RecordBatchReader) -> int:
    """Replace all rows of the draft; returns how many the new ones are."""
    draft.refuse_if_append_only("overwrite")
    before = draft.live()
    files, rows = write_rows(reader, draft.order)
    for add in before:
        draft.remove(add)
    draft.claims.append(Claim(Kind.OVERWRITE, reads_all=True))
    draft.parameters["mode"] = "Overwrite"
    draft.add_new(files)
    return rows


def overwrite_where(draft: Draft, reader: pa.RecordBatchReader, predicate: Node) -> int:
    """Replace the rows for which ``predicate`` is true; every new row must satisfy it too."""
    draft.refuse_if_append_only("overwrite")
    with TableWriter(draft.order) as writer:
        for batch in _satisfying(conformed(reader, draft.order), predicate, draft.handle.name):
            writer.write(batch)
        draft.count("numDeletedRows", remove_rows(draft, predicate))
        files = writer.close()
    draft.claims.append(Claim(Kind.OVERWRITE, predicate=predicate))
    draft.parameters.update(mode="Overwrite", predicate=render(predicate))
    draft.add_new(files)
    return writer.rows


def overwrite_partitions(draft: Draft, reader: pa.RecordBatchReader) -> int:
    """Replace just the partitions that the new rows are in."""
    draft.refuse_if_append_only("overwrite")
    if not draft.metadata.partition_columns:
        raise InputError(
            f"table {draft.handle.name} has no partitions to overwrite dynamically",
            fix="leave out where='dynamic' to replace the whole table",
        )
    files, rows = write_rows(reader, draft.order)
    touched = frozenset(partition_key(add.partition_values) for add in files)
    key_of = _Keys(draft.metadata)
    for add in draft.live():
        if key_of(add) in touched:
            draft.remove(add)
    draft.claims.append(Claim(Kind.OVERWRITE, partitions=touched))
    draft.parameters.update(mode="Overwrite", partitionOverwriteMode="dynamic")
    draft.add_new(files)
    return rows


class _Keys:
    """The partition of a file as our own writers spell it; others write ``inf`` or a time in another form."""

    def __init__(self, metadata: Metadata) -> None:
        self._types = {f.physical_name: f.type for f in metadata.partition_schema}
        self._spelled: dict[tuple[str, str | None], str | None] = {}

    def __call__(self, add: AddFile) -> str:
        return partition_key({name: self._text(name, text) for name, text in add.partition_values.items()})

    def _text(self, name: str, text: str | None) -> str | None:
        if (name, text) not in self._spelled:
            kind = self._types[name]
            self._spelled[name, text] = encode_value(decode_values([text], kind)[0], kind)
        return self._spelled[name, text]


def _satisfying(batches: Iterator[pa.RecordBatch], predicate: Node, table_name: str) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        outside = pc.invert(evaluate(predicate, batch).fill_null(False))
        if pc.any(outside).as_py():
            example = batch.filter(outside).slice(0, 1).to_pylist()[0]
            raise DataError(
                f"table {table_name}: rows lie outside of the part that is overwritten",
                (f"{pc.sum(outside).as_py()} row(s) do not satisfy {render(predicate)}, for example {example}",),
                fix="nothing was written; change the rows or the predicate",
            )
        yield batch
