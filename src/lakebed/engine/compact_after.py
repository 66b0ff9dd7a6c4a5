"""Compaction by an upsert: files that it has left almost dead are rewritten at once.

Dead rows cost every reader. A file of which three rows in four are dead has one left to write for three to get rid of,
each of which an upsert had written before: in the long run an upsert rewrites at most a third of its own rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from lakebed.core.actions import AddFile
from lakebed.core.commit import Kind
from lakebed.core.errors import CommitUnknownError, FileMissingError, LakebedError, NotFoundError
from lakebed.core.file_tags import is_unsettled
from lakebed.core.keyed import KeySpec
from lakebed.core.properties import value_of
from lakebed.engine.compact import waste
from lakebed.engine.draft import Draft
from lakebed.engine.maintain import rewrite_units, settle_after
from lakebed.engine.source import Source
from lakebed.engine.unit import Unit, units_of

ALMOST_DEAD = 0.75
"""After ten upserts of a fifth of a table each there are 0.7 dead rows for a live one, where 1.9 were before
(bench spark). 0.6 would rewrite twice as many rows, as computed from these upserts, for a few fewer dead ones."""


class DeadRowsWarning(UserWarning):
    """Rows have landed, but files that are almost dead could not be rewritten; readers pass over their dead rows."""


def look_after(draft: Draft) -> None:
    """After a commit: what it has left for others to do, and its table wants done at once.

    The commit has landed: a failure here is a warning.
    """
    settle_after(draft)
    try:
        _compact(draft)
    except LakebedError as error:
        if isinstance(error, FileMissingError | NotFoundError) and _moved_on(draft):
            return  # others are at work on the same files, and the next upsert looks again
        warnings.warn(
            DeadRowsWarning(
                f"table {draft.handle.name}: the commit has landed, but files that it left almost dead could not be "
                f"rewritten ({error}); compact() tries again"
            ),
            stacklevel=3,
        )


def _compact(upserted: Draft) -> None:
    """Rewrite the files that the upsert left almost dead. What others win the race for is left to the next upsert."""
    key = KeySpec.of(upserted.metadata)
    least = int(value_of("compact-on-write", upserted.metadata.configuration))
    if key is None or not least or not any(claim.kind is Kind.UPSERT for claim in upserted.claims):
        return
    spent = _almost_dead(upserted.result()[1].values(), key)
    if sum(add.deletion_vector.cardinality for add in spent if add.deletion_vector) < least:
        return
    handle = upserted.handle
    draft = Draft(handle, handle.metastore.state(handle.table_id))
    try:
        rewrite_units(draft, key, _units(draft, key, units_of(spent, key)), full=True)
    except CommitUnknownError:
        raise  # the files may be the table's
    except LakebedError:
        draft.discard()
        raise


def _units(draft: Draft, key: KeySpec, touched: Iterable[Unit]) -> dict[Unit, list[AddFile]]:
    """The files to rewrite of the units that have some, as the newest version has them."""
    buckets = {bucket for unit in touched for bucket in unit.buckets}
    # Buckets of a fixed number overlap with no other.
    numbers = {number for _, number in buckets} if isinstance(key.buckets, int) else None
    live = draft.live_in({place for place, _ in buckets}, numbers)
    return {
        unit: found
        for unit, files in units_of(live, key).items()
        if unit.buckets & buckets and not any(map(is_unsettled, files)) and (found := _almost_dead(files, key))
    }


def _almost_dead(files: Iterable[AddFile], key: KeySpec) -> list[AddFile]:
    return [add for add in files if add.deletion_vector and waste(Source(add), key) >= ALMOST_DEAD]


def _moved_on(draft: Draft) -> bool:
    return draft.handle.metastore.head(draft.handle.table_id) > draft.base.version + 1
