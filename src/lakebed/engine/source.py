"""What a scan reads: data files, and the rows of each that are dead by now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyroaring import BitMap64

from lakebed.core.actions import AddFile


@dataclass(frozen=True)
class Source:
    """A data file to read."""

    add: AddFile
    dead: BitMap64 | None = field(default=None, hash=False)
    """All its dead rows, where they are known already; None: those of the file's own vector."""

    @property
    def live_rows(self) -> int | None:
        """How many rows are alive; None if the log does not say how many there are."""
        rows = self.add.num_records
        if rows is None:
            return None
        vector = self.add.deletion_vector
        return rows - (len(self.dead) if self.dead is not None else vector.cardinality if vector else 0)


@dataclass(frozen=True)
class MergedRows:
    """Rows that a merge engine makes of several; they are in no file yet."""

    tables: Callable[[Sequence[str]], Iterator[pa.Table]] = field(hash=False)
    """Makes the rows anew, part by part, with at least these columns, by their present names."""

    @property
    def live_rows(self) -> int | None:
        """Not known before they are made."""
        return None


Sources = Sequence[Source | MergedRows]


def plain(files: Sequence[AddFile]) -> list[Source]:
    """Files of which nothing more is known than the log tells."""
    return [Source(add) for add in files]
