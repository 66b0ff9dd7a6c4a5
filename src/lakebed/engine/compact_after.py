"""Compaction by an upsert: files that it has left almost dead are rewritten at once, and small ones once they are many.

Dead rows cost every reader. A file that is almost dead has about one row left to write for two to get rid of, each of
which an upsert had written before: in the long run an upsert rewrites about half as many rows as it has, at most.

Small files cost every reader and every later upsert, which opens them all. Those of a full tier (``tiers``) become one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace

from lakebed.core.actions import AddFile
from lakebed.core.commit import Bucket, Kind
from lakebed.core.errors import CommitUnknownError, FileMissingError, LakebedError, NotFoundError
from lakebed.core.file_tags import is_unsettled
from lakebed.core.keyed import KeySpec, Merge
from lakebed.core.properties import value_of
from lakebed.engine.compact import waste
from lakebed.engine.draft import Draft
from lakebed.engine.maintain import rewrite_units, settle_after
from lakebed.engine.source import Source
from lakebed.engine.tiers import ALLOWANCE, cost, packs
from lakebed.engine.unit import Unit, units_of

ALMOST_DEAD = 0.65
"""After ten upserts of a fifth of a table each there are 0.4 dead rows for a live one, where 1.9 were without (bench
upserts): all columns are read in half of the time. With 0.75 there are 0.7, for half as many rewritten rows; with 0.5
there are 0.34, for half as many again."""


class DeadRowsWarning(UserWarning):
    """Rows have landed, but files that are almost dead, or small and many, could not be rewritten; readers read more
    than they need."""


def look_after(draft: Draft) -> None:
    """After a commit: what it has left for others to do, and its table wants done at once.

    The commit has landed: a failure here is a warning.
    """
    try:
        settle_after(draft)
        _compact(draft)
    except Exception as error:  # whatever it is, it must not tell the caller to write the same rows again
        if _is_overtaken(draft, error):
            return  # others are at work on the same files, and the next upsert looks again
        warnings.warn(
            DeadRowsWarning(
                f"table {draft.handle.name}: the commit has landed, but files that are almost dead, or small and many, "
                f"could not be rewritten ({_told(error)}); compact() tries again"
            ),
            stacklevel=3,
        )
    except BaseException as interruption:
        interruption.add_note("the commit had landed already")
        raise


def _compact(upserted: Draft) -> None:
    """Rewrite what the upsert has made worth it. What others win the race for is left to the next upsert."""
    key = KeySpec.of(upserted.metadata)
    least = int(value_of("compact-on-write", upserted.metadata.configuration))
    if key is None or not least or not any(claim.kind is Kind.UPSERT for claim in upserted.claims):
        return
    left = _Left.by(upserted, key, least)
    if not left.dying and not left.crowded:
        return
    # What an upsert rewrites is not older than it: the next ones may well rewrite it again.
    handle = replace(upserted.handle, options=upserted.handle.options.for_upserts())
    draft = Draft(handle, handle.metastore.state(handle.table_id))
    try:
        rewrite_units(draft, key, left.files(draft, key), full=True)
    except CommitUnknownError:
        raise  # the files may be the table's
    except LakebedError:
        draft.discard()
        raise


@dataclass(frozen=True)
class _Left:
    """What an upsert has left to rewrite."""

    dying: frozenset[Bucket]
    """Buckets with files that are almost dead."""
    crowded: frozenset[Bucket]
    """Buckets with many small files."""
    written: frozenset[str]
    """The paths of its own files. They are left to a later upsert, or a large load would write its rows twice."""
    budget: int
    """What packing small files may cost."""

    @staticmethod
    def by(upserted: Draft, key: KeySpec, least: int) -> _Left:
        """As far as the upsert knows from what it has settled: no question to the metastore."""
        removes, adds = upserted.result()
        spent = _almost_dead(adds.values(), key)
        dead = sum(add.deletion_vector.cardinality for add in spent if add.deletion_vector)
        written = [add for add in adds.values() if add.base_row_id is None]
        budget = ALLOWANCE + cost(written)
        units: dict[Unit, list[AddFile]] = {}
        if key.merge is Merge.ON_WRITE and not upserted.unsettled:
            units = {
                unit: [
                    add for add in files if add.base_row_id is not None and (add.path in adds or add.key not in removes)
                ]
                for unit, files in upserted.touched.items()
            }
        return _Left(
            dying=_buckets(units_of(spent, key)) if dead >= least else frozenset(),
            crowded=_buckets(packs(units, upserted.handle.options.file_target_size, budget)),
            written=frozenset(add.path for add in written),
            budget=budget,
        )

    def files(self, draft: Draft, key: KeySpec) -> dict[Unit, list[AddFile]]:
        """The files to rewrite, as the newest version has them."""
        buckets = self.dying | self.crowded
        # Buckets of a fixed number overlap with no other.
        numbers = {number for _, number in buckets} if isinstance(key.buckets, int) else None
        live = draft.live_in({place for place, _ in buckets}, numbers)
        units = {unit: files for unit, files in units_of(live, key).items() if not any(map(is_unsettled, files))}
        found = {unit: _almost_dead(files, key) for unit, files in units.items() if unit.buckets & self.dying}
        old = {
            unit: [add for add in files if add.path not in self.written]
            for unit, files in units.items()
            if unit.buckets & self.crowded
        }
        for unit, files in packs(old, draft.handle.options.file_target_size, self.budget).items():
            spent = {add.path for add in found.setdefault(unit, [])}
            found[unit].extend(add for add in files if add.path not in spent)
        return {unit: files for unit, files in found.items() if files}


def _buckets(units: Iterable[Unit]) -> frozenset[Bucket]:
    return frozenset(bucket for unit in units for bucket in unit.buckets)


def _almost_dead(files: Iterable[AddFile], key: KeySpec) -> list[AddFile]:
    return [add for add in files if add.deletion_vector and waste(Source(add), key) >= ALMOST_DEAD]


def _is_overtaken(draft: Draft, error: Exception) -> bool:
    """Whether something is missing because others have changed, or dropped, the table meanwhile."""
    if not isinstance(error, FileMissingError | NotFoundError):
        return False
    try:
        return draft.handle.metastore.head(draft.handle.table_id) > draft.base.version + 1
    except NotFoundError:
        return True
    except LakebedError:
        return False


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, LakebedError) else f"{type(error).__name__}: {error}"
