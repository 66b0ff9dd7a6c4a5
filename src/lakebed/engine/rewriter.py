"""Rows of a key table into new files: rewritten ones, and those that a merge engine has made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyroaring import BitMap64

from lakebed.core.actions import AddFile
from lakebed.core.bucketing import ancestors, fixed, leaves
from lakebed.core.keyed import DYNAMIC, KeySpec
from lakebed.core.murmur3 import spark_hash
from lakebed.core.partition import encode_value
from lakebed.core.properties import value_of
from lakebed.engine.compact import BucketOf, rewrite
from lakebed.engine.draft import Draft
from lakebed.engine.key_order import runs
from lakebed.engine.partitioning import split
from lakebed.engine.rewritten import RewriteWriter
from lakebed.engine.source import Source
from lakebed.engine.splits import known_splits
from lakebed.engine.unit import Unit
from lakebed.engine.write import WriteOrder

Written = list[tuple[AddFile, BitMap64]]
"""New files, each with the rows that have to be dead in it."""


@dataclass(frozen=True)
class Rewriter:
    """Writes rows of one table into the buckets that they belong to now."""

    order: WriteOrder
    key: KeySpec
    splits: Mapping[str, frozenset[int]] = field(default_factory=dict, hash=False)

    @staticmethod
    def of(draft: Draft, key: KeySpec, prefix: str = "") -> Rewriter:
        """The rewriter for a draft's table; the names of its files begin with ``prefix``."""
        return Rewriter(replace(draft.order, prefix=prefix), key, known_splits(draft) if key.buckets == DYNAMIC else {})

    def rewrite(self, unit: Unit, sources: Sequence[Source]) -> Written:
        """The live rows of these files in new ones, with their row ids and versions."""
        made = rewrite(self.order, sources, bucket_of=self.buckets(unit, sources))
        return [(one.add, one.dead) for one in made]

    def write(self, unit: Unit, tables: Iterable[pa.Table], sources: Sequence[Source]) -> Written:
        """Merged rows, sorted by key, in new files; ``sources`` are what they were made of."""
        bucket_of = self.buckets(unit, sources) or self._fixed
        size, rows = (sum(s.add.size for s in sources), sum(s.add.num_records or 0 for s in sources))
        names = [f.physical_name for f in self.order.metadata.partition_schema]
        with RewriteWriter(
            self.order, key=self.key.key, tombstones=self.key.keeps_tombstones, row_size=size / max(rows, 1)
        ) as writer:
            for table in tables:
                for values, part in self._by_partition(table):
                    for number, at in runs(bucket_of(part)):
                        writer.write(dict(zip(names, values, strict=True)), number, part.take(at))
            return [(one.add, one.dead) for one in writer.close()]

    def _fixed(self, rows: pa.Table) -> pa.Array:
        assert isinstance(self.key.buckets, int)
        return fixed(spark_hash([rows.column(name) for name in self.key.key]), self.key.buckets)

    def _by_partition(self, table: pa.Table) -> Iterable[tuple[tuple[str | None, ...], pa.Table]]:
        fields = self.order.metadata.partition_schema
        if not len(fields):
            yield (), table
            return
        for batch in table.combine_chunks().to_batches():
            for values, part in split(batch, fields.names):
                encoded = tuple(encode_value(value, f.type) for value, f in zip(values, fields, strict=True))
                yield encoded, pa.Table.from_batches([part])

    def buckets(self, unit: Unit, sources: Sequence[Source]) -> BucketOf | None:
        """What tells the bucket of each row of the unit; None if every row stays in its bucket."""
        if isinstance(self.key.buckets, int):
            return None
        chosen = self.leaf_splits(unit, sources)
        return lambda rows: leaves(spark_hash([rows.column(name) for name in self.key.key]), chosen)

    def leaf_splits(self, unit: Unit, sources: Sequence[Source]) -> frozenset[int]:
        """The splits that rows of the unit are distributed by: the known ones, and as many as its rows ask for."""
        target = int(value_of("dynamic-bucket.target-rows", self.order.metadata.configuration))
        rows = sum(source.live_rows or 0 for source in sources)
        levels = max(0, (-(-rows // target) - 1).bit_length())
        wanted = frozenset(-node for node in range(1, 1 << levels))
        above = {up for number in unit.numbers for up in ancestors(number)}
        return wanted | above | self.splits.get(unit.place, frozenset())
