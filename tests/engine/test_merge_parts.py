"""A merge in parts, which this process deals and merges one after the other, is the merge that it does at once."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from merge_cases import Case

import lakebed
from lakebed.core.actions import Metadata
from lakebed.engine import merge, merge_parts, merge_source
from lakebed.engine.incoming import ArrowRows
from lakebed.engine.merge_parts import MergedPart, PartsJob
from lakebed.engine.merge_source import KeyValues, Staged, StageOrder, plus
from lakebed.engine.workforce import NewFiles
from lakebed.spark.abandoned import remove_all


class Parts:
    """Does what a cluster does with a merge."""

    session = None
    tasks_at_once = 4

    def __init__(self) -> None:
        self.parts: list[int] = []

    def merge(self, job: PartsJob, files: NewFiles) -> list[MergedPart]:
        dealt: dict[int, list[Any]] = defaultdict(list)
        for deal in job.deals:
            for one in deal.run():
                assert 0 <= one.part < job.dealing.parts
                dealt[one.part].append(one)
        self.parts.append(job.dealing.parts)
        try:
            return [
                job.order.run((one.side, one.rows) for one in sorted(rows, key=lambda one: (one.side, one.number)))
                for _, rows in sorted(dealt.items())
            ]
        except BaseException:
            remove_all(files)
            raise


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Parts:
    """Makes every merge one in parts whose source was put aside by three tasks."""
    cluster = Parts()

    def stage(self: ArrowRows, order: StageOrder, metadata: Metadata) -> Staged:
        rows = self.read()
        size = -(-rows.num_rows // 3) or 1
        slices = [rows.slice(start, size) for start in range(0, max(1, rows.num_rows), size)]
        return Staged(order, tuple(order.run(iter(one.to_batches(max_chunksize=4))) for one in slices))

    monkeypatch.setattr(ArrowRows, "stage", stage)
    monkeypatch.setattr(merge, "_SENT", 0)
    opened = lakebed.Warehouse.__init__

    def with_cluster(self: lakebed.Warehouse, config: Any, distribution: Any, *others: Any, **options: Any) -> None:
        opened(self, config, cluster, *others, **options)

    monkeypatch.setattr(lakebed.Warehouse, "__init__", with_cluster)
    return cluster


def compared(monkeypatch: pytest.MonkeyPatch, parts: Parts, folder: Path, seeds: range) -> list[Any]:
    """What became of each case, which is the same both ways."""
    found = [(case := Case(seed)).outcome(folder / f"parts {seed}", case.source) for seed in seeds]
    monkeypatch.undo()
    for seed, one in zip(seeds, found, strict=True):
        case = Case(seed)
        assert case.outcome(folder / f"whole {seed}", case.source) == one, (seed, case.shape, case.on)
    return found


@pytest.mark.parametrize("inline", [True, False])
def test_merges(parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inline: bool) -> None:
    if not inline:
        monkeypatch.setattr(merge_source, "_INLINE", 0)
        monkeypatch.setattr(merge_source, "_GROUP", 100)
        monkeypatch.setattr(merge_parts, "_DEALT", 200)
        monkeypatch.setattr(merge_parts, "_PIECE", 64)
    found = compared(monkeypatch, parts, tmp_path, range(5) if inline else range(10, 15))
    assert any(isinstance(one, tuple) for one in found)
    assert len(set(parts.parts)) > 1


@pytest.mark.soak
def test_many_merges(parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = compared(monkeypatch, parts, tmp_path, range(100, 400))
    assert any(isinstance(one, str) for one in found)


@pytest.mark.parametrize(
    ("on", "insert", "wanted"),
    [
        ("t.id = s.id", None, 6),
        ("t.id = s.id", {"id": "s.id", "n": "s.n"}, 6),
        ("t.id = s.id", {"id": "s.id + 1"}, 1),  # two rows of the source may come to one key
        ("t.n = s.n", None, 1),
        ("t.n < s.n", None, 1),
    ],
)
def test_how_many_parts(parts: Parts, tmp_path: Path, on: str, insert: Any, wanted: int) -> None:
    """A multiple of the buckets, so that a part has rows of one bucket; one, where parts could disagree."""
    with lakebed.connect(tmp_path) as lake:
        table = lake.create_table("t", "id BIGINT, n BIGINT", primary_key=["id"], buckets=3)
        table.upsert([{"id": i, "n": i} for i in range(10)])
        table.merge([{"id": 3, "n": 100}], on=on).when_not_matched_insert(insert).execute()
    assert parts.parts == [wanted]


def test_rows_without_a_key_are_spread(parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []
    run = parts.merge

    def watched(job: PartsJob, files: NewFiles) -> Any:
        seen.append({one.part for deal in job.deals for one in deal.run()})
        return run(job, files)

    monkeypatch.setattr(parts, "merge", watched)
    with lakebed.connect(tmp_path) as lake:
        table = lake.create_table("t", "id BIGINT, n BIGINT")
        source = pa.table({"id": pa.nulls(100, pa.int64()), "n": range(100)})
        table.merge(source, on="t.id = s.id").when_not_matched_insert().execute()
        assert table.count() == 100
    assert len(seen[0]) == 4


def test_what_keys_have() -> None:
    few, other = KeyValues.of(pa.array([3, None, 1])), KeyValues.of(pa.array([7]))
    many = KeyValues.of(pa.array(range(2000)))
    assert few is not None
    assert other is not None
    assert many is not None
    assert few.plus(other).few == {1, 3, 7}
    assert (many.few, many.low, many.high) == (None, 0, 1999)
    assert plus([few, None], [many, many]) == (KeyValues(None, 0, 1999), None)
    assert KeyValues.of(pa.array([1.0, float("nan")])) is None
