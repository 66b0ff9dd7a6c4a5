"""Merges at random: a table, a source, a condition and clauses; done in two ways they must come to the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakebed

SCHEMA = "id BIGINT NOT NULL, dt STRING, n INT, name STRING"
SOURCE = pa.schema([("id", pa.int32()), ("dt", pa.string()), ("n", pa.int32()), ("name", pa.string())])
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "partitions": {"partition_by": ["dt"]},
    "key": {"primary_key": ["id"], "buckets": 3},
    "key on read": {"primary_key": ["id"], "buckets": 2, "merge": "on-read"},
    "copy on write": {"primary_key": ["id"], "buckets": 2, "merge": "copy-on-write"},
    "dynamic": {"primary_key": ["id"], "properties": {"dynamic-bucket.target-rows": 30}},
    "cross-partition": {"primary_key": ["id"], "buckets": 2, "partition_by": ["dt"]},
}
CONDITIONS = (
    "t.id = s.id",
    "s.id = t.id AND t.n > s.n",
    "t.id = s.id AND t.dt = s.dt",
    "t.id = s.id AND t.dt = 'd1'",
    "t.name = s.name",
    "t.n = s.n AND t.id < s.id",
    "t.id = s.id + 1",
    "t.id + s.id = 40",
    "CAST(t.n AS DOUBLE) = s.n",
)
MATCHED: tuple[Callable[[Any], Any], ...] = (
    lambda merge: merge.when_matched_delete("s.n > 5"),
    lambda merge: merge.when_matched_update({"n": "coalesce(t.n, 0) + 1", "name": "s.name"}, "t.n IS NULL OR t.n < 7"),
    lambda merge: merge.when_matched_update(condition="s.name IS NOT NULL"),
    lambda merge: merge.when_matched_update({"dt": "s.dt"}),
)
OTHERS: tuple[Callable[[Any], Any], ...] = (
    lambda merge: merge.when_not_matched_insert({"id": "s.id", "n": "s.n"}, "s.n > 2"),
    lambda merge: merge.when_not_matched_insert({"id": "s.id % 7 + 1000", "name": "upper(s.name)"}, "s.n < 2"),
    lambda merge: merge.when_not_matched_insert(),
    lambda merge: merge.when_not_matched_by_source_update({"name": "'left'"}, "t.n = 3"),
    lambda merge: merge.when_not_matched_by_source_delete("t.n = 4"),
)


def _rows(draw: random.Random, ids: list[int]) -> list[dict[str, Any]]:
    def maybe(value: Any) -> Any:
        return None if draw.random() < 0.1 else value

    return [
        {"id": i, "dt": f"d{draw.randrange(3)}", "n": maybe(draw.randrange(9)), "name": maybe(f"n{draw.randrange(99)}")}
        for i in ids
    ]


class Case:
    """One merge, which depends on a number only."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.shape, self.on = draw.choice(sorted(SHAPES)), draw.choice(CONDITIONS)
        ids = draw.sample(range(60), 40)
        self.parts = _rows(draw, ids[:30]), _rows(draw, ids[30:])
        twice = [draw.randrange(60)] if draw.random() < 0.3 else []
        self.source = pa.Table.from_pylist(_rows(draw, draw.sample(range(60), 25) + twice), SOURCE)
        self.memory = draw.choice(["512MiB", "1KiB"])
        chosen = [MATCHED[number] for number in sorted(draw.sample(range(4), draw.randrange(4)))]
        self.clauses = chosen + [OTHERS[number] for number in sorted(draw.sample(range(5), draw.randrange(1, 4)))]

    def outcome(self, folder: Path, source: Any, **options: Any) -> Any:
        """What becomes of a new table: its rows and what the commit counts, or the error."""
        with lakebed.connect(folder, writer_memory_limit=self.memory, **options) as lake:
            table = lake.create_table("t", SCHEMA, **SHAPES[self.shape])
            for part in self.parts:
                table.append(part)
            merge: Any = table.merge(source, on=self.on)
            for clause in self.clauses:
                merge = clause(merge)
            try:
                done = merge.execute()
            except lakebed.DataError as error:
                told: Any = error.title
            else:
                counts = [done.metrics[f"num{what}Rows"] for what in ("Updated", "Deleted", "Inserted")]
                told = counts, sorted(table.to_arrow().to_pylist(), key=repr)
            assert "orphan" not in table.vacuum("0 days", dry_run=True).files["reason"].to_pylist()
            lake.drop_table("t")  # on a cluster all warehouses have one metastore
        return told
