"""Carrying over: rows that others kill while their file is being rewritten are dead in the new file too.

A compaction takes long, and upserts go on. They put vectors on the very files that it reads: if it had to begin anew
for that, a table with a busy stream would never be compacted. Rows keep their ids when they are rewritten, so that
those which have died meanwhile can be found in the new files.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakebed.core.actions import AddFile
from lakebed.core.errors import FileMissingError
from lakebed.core.file_tags import is_unsettled, tombstones_of
from lakebed.engine.draft import Draft
from lakebed.engine.row_ids import ID, KIND, carries_ids, derived_ids, stored_ids
from lakebed.engine.scan import ScanOrder, dead_rows
from lakebed.engine.settlement import Matched
from lakebed.engine.tracked_scan import DELETING
from lakebed.engine.vectors import replaced_tombstones, with_replaced
from lakebed.storage.deletion_vector import from_arrow


def carried_over(draft: Draft, done: Matched) -> Matched | None:
    """What was made of files of an earlier version, as if it had been made of those of the draft's base.

    Rows of a file that is not there any more are dead, or in other files. None if no file is left, or if it is not
    certain which rows have died.
    """
    present = {add.path: add for add in draft.live_in({done.unit.place}, done.unit.numbers or None)}
    pairs = [(old, present.get(old.path)) for old in done.leaving]
    leaving = [new for _, new in pairs if new is not None]
    if not leaving or any(is_unsettled(new) for new in leaving):
        return None
    scan = ScanOrder(
        draft.handle.store, draft.handle.name, draft.metadata, draft.handle.options, draft.metadata.schema.names
    )
    try:
        gone = _ids(scan, [(old, _died(scan, old, new)) for old, new in pairs])
        replaced = _ids(scan, [(old, _replaced(old, new)) for old, new in pairs])
        if gone is None or replaced is None:
            return None
        fresh = [_struck(scan, add, dead, gone, replaced) for add, dead in done.fresh]
    except FileMissingError:  # they have left the storage too
        return None
    if sum(len(dead) for _, dead in fresh) - sum(len(dead) for _, dead in done.fresh) != len(gone):
        return None
    return Matched(done.unit, leaving=leaving, fresh=fresh, deleted=done.deleted)


def _died(scan: ScanOrder, old: AddFile, new: AddFile | None) -> BitMap64 | None:
    """The rows of a file that were alive and are not; None if that is not all that has become of it."""
    before = dead_rows(scan.store, old.deletion_vector) or BitMap64()
    if new is None:
        return None if old.num_records is None else _all(old) - before
    after = dead_rows(scan.store, new.deletion_vector) or BitMap64()
    # A restore brings rows back.
    return after - before if before <= after else None


def _replaced(old: AddFile, new: AddFile | None) -> BitMap64 | None:
    """The tombstones of a file, and maybe other rows, that say nothing any more; None as above."""
    if not tombstones_of(old):
        return BitMap64()
    before = replaced_tombstones(old)
    if new is None:
        return None if old.num_records is None else _all(old) - before
    # Once all tombstones are replaced, the file does not say any more which.
    after = replaced_tombstones(new) if tombstones_of(new) else _all(old)
    return after - before if before <= after else None


def _ids(scan: ScanOrder, chosen: Sequence[tuple[AddFile, BitMap64 | None]]) -> pa.Array | None:
    """The ids of rows; None if they have none, as those of writers that do not track rows, or are not known."""
    found = [pa.array([], pa.int64())]
    for add, rows in chosen:
        if rows is None or (rows and add.base_row_id is None):
            return None
        if rows:
            known = stored_ids(scan, add, rows) if carries_ids(scan, add) else derived_ids(add, rows)
            found.append(known[ID].combine_chunks().cast(pa.int64()))
    return pa.concat_arrays(found)


def _struck(
    scan: ScanOrder, add: AddFile, dead: BitMap64, gone: pa.Array, replaced: pa.Array
) -> tuple[AddFile, BitMap64]:
    """A new file without the rows that are gone, and without the tombstones that say nothing any more."""
    if not add.num_records or not (len(gone) or len(replaced)):
        return add, dead
    rows = stored_ids(scan, add, _all(add))
    died = from_arrow(pc.indices_nonzero(pc.is_in(rows[ID], gone)))
    deletes = pc.is_in(rows[KIND], DELETING)
    outdated = from_arrow(pc.indices_nonzero(pc.and_(deletes, pc.is_in(rows[ID], replaced))))
    return (with_replaced(add, replaced_tombstones(add) | outdated) if outdated else add), dead | died


def _all(add: AddFile) -> BitMap64:
    every = BitMap64()
    every.add_range(0, add.num_records or 0)
    return every
