"""Changes of rows that a query has computed: each row is known by its place in a file, or by its key."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakebed.core.actions import AddFile
from lakebed.core.commit import Claim, Kind
from lakebed.core.errors import ConflictError
from lakebed.core.keyed import KeySpec
from lakebed.engine.change_rows import OPERATION, ChangeOrder
from lakebed.engine.delete import Struck, strike_out
from lakebed.engine.draft import Draft
from lakebed.engine.incoming import Incoming
from lakebed.engine.scan import dead_rows
from lakebed.engine.settle import settle_own
from lakebed.engine.upsert import write_pending
from lakebed.storage.deletion_vector import from_arrow

FILE, ROW = PLACE = ("_file", "_row_index")
"""The columns that tell where a row is."""


def replace_rows(draft: Draft, places: pa.Table, rows: Incoming | None, kind: Kind) -> None:
    """Take the rows at these places out of a draft without a key, and put others in.

    The places are those of the draft's own version.
    """
    draft.refuse_if_append_only(kind)
    written = [] if rows is None else rows.write(draft.order)
    draft.written.extend(add.file_path for add in written)
    strike_out(draft, _struck(draft, places))
    draft.add_new(written)
    draft.claims.append(Claim(kind, reads_all=True))


def change_keys(draft: Draft, rows: Incoming, kind: Kind) -> None:
    """Put and delete rows of a draft with a key; the column ``OPERATION`` says what becomes of each."""
    draft.refuse_if_append_only(kind)
    ChangeOrder.of(draft, kind)
    key = KeySpec.of(draft.metadata)
    assert key is not None
    write_pending(draft, key, rows, row_kind=OPERATION)
    buckets = settle_own(draft, key)
    draft.claims.append(Claim(kind, reads_all=True, buckets=buckets, settles=bool(buckets)))


def _struck(draft: Draft, places: pa.Table) -> list[Struck]:
    ordered = places.select(PLACE).sort_by(FILE).combine_chunks()
    files = {add.file_path: add for add in draft.live()} if ordered.num_rows else {}
    counts = pc.value_counts(ordered[FILE].combine_chunks()) if ordered.num_rows else []
    struck, at = [], 0
    for count in counts:
        path, length = count["values"].as_py(), count["counts"].as_py()
        add = files.get(path)
        if add is None:
            raise ConflictError(f"table {draft.handle.name} has no file {path} any more", fix="run the statement again")
        struck.append(_one(draft, add, from_arrow(_whole(ordered[ROW].slice(at, length)))))
        at += length
    return struck


def _one(draft: Draft, add: AddFile, hit: BitMap64) -> Struck:
    before = dead_rows(draft.handle.store, add.deletion_vector) or BitMap64()
    # A file that does not say how many rows it has keeps its place, with a vector.
    rows = add.num_records if add.num_records is not None else max(before | hit) + 2
    return Struck(add, rows, before | hit, before)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
