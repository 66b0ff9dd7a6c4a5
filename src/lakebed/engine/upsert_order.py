"""What a writer of upsert files has to know, and what it reports."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.commit import Bucket
from lakebed.core.file_tags import BATCH
from lakebed.core.keyed import KeySpec
from lakebed.core.options import Options
from lakebed.core.predicate import Node
from lakebed.core.properties import value_of
from lakebed.engine.settlement import Matched
from lakebed.storage.store import Store


@dataclass(frozen=True)
class UpsertOrder:
    """All that one writer of upsert files needs to know; small and serialisable."""

    store: Store
    table_name: str
    metadata: Metadata
    options: Options
    key: KeySpec
    splits: Mapping[str, frozenset[int]] = field(default_factory=dict, hash=False)
    """The split buckets of each place, as far as they are known; for dynamic buckets."""
    rows_in: Mapping[Bucket, int] = field(default_factory=dict, hash=False)
    """How many rows the dynamic buckets hold already; those that are missing hold none."""
    share_bits: int = 0
    """By how many top bits of the hash several writers of one batch divide its rows; each sees only some of the
    prefixes, and tells the rows of a whole bucket from those."""
    row_kind: str | None = None
    """The column of the incoming rows that says whether a row is put or deleted; without it all are put."""
    row_kinds: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What further texts of that column mean, as words or signs."""
    sort_by: tuple[str, ...] = ()
    """Columns that order rows of one key and sequence, of the table or of the incoming rows only."""
    deletes: bool = False
    """Whether every row deletes its key; then rows need no more than the key and the sequence."""
    within: Node | None = None
    """Every row must satisfy it."""
    prefix: str = ""
    """What the names of new files begin with, so that those of one write can be told from others."""
    unsettled: bool = True
    """Whether the files say that they are not settled yet."""

    @property
    def ignores_deletes(self) -> bool:
        """Whether rows that delete are passed over."""
        return value_of("ignore-delete", self.metadata.configuration) == "true"

    @property
    def target_rows(self) -> int:
        """The rows from which a dynamic bucket is split."""
        return int(value_of("dynamic-bucket.target-rows", self.metadata.configuration))

    @property
    def indexed_columns(self) -> int:
        """How many leaf columns get statistics; all if negative."""
        return int(value_of("statistics-columns", self.metadata.configuration))


@dataclass(frozen=True)
class Upserted:
    """What was written."""

    files: list[AddFile]
    """In the order in which they have to be folded into the table."""
    rows: int
    """The rows that came in, without deletes that were passed over."""
    deletes: int
    """How many of them delete their key."""
    splits: list[Bucket]
    """The buckets that grew beyond their target and are split from now on."""
    partitions: frozenset[str] = frozenset()
    """The keys of all partitions that rows came for, whether or not another row of the batch replaced them."""
    matched: list[Matched] = field(default_factory=list)
    """The units that the writer has matched with their older files already."""


def one_batch(files: list[AddFile], key: KeySpec) -> list[AddFile]:
    """Rows of one key may be in files of several writers, and are merged as one batch all the same."""
    if not key.combines or len(files) < 2:
        return files
    batch = uuid.uuid4().hex
    return [replace(add, tags={**(add.tags or {}), BATCH: batch}) for add in files]
