"""How a dynamic table's buckets have grown: which were split, and how full they are."""

from __future__ import annotations

from collections import defaultdict

from lakebed.core.bucketing import SPLIT_DOMAIN, parse_split
from lakebed.core.commit import Bucket
from lakebed.core.keyed import KeySpec
from lakebed.engine.draft import Draft


def known_splits(draft: Draft) -> dict[str, frozenset[int]]:
    """The buckets that were split, by place; the draft's own included."""
    stored = draft.handle.metastore.domains(draft.handle.table_id, draft.base.version, prefix=SPLIT_DOMAIN)
    found: dict[str, set[int]] = defaultdict(set)
    for domain in (*stored, *draft.domains.values()):
        split = parse_split(domain.domain, domain.configuration)
        if split is not None:
            found[split[0]].add(split[1])
    return {place: frozenset(numbers) for place, numbers in found.items()}


def rows_in(draft: Draft, key: KeySpec) -> dict[Bucket, int]:
    """How many rows each bucket holds."""
    found: dict[Bucket, int] = defaultdict(int)
    for bucket in draft.handle.metastore.bucket_rows(draft.handle.table_id, draft.base.version):
        found["" if key.spans_partitions else bucket.partition_key, bucket.bucket] += bucket.rows
    return dict(found)
