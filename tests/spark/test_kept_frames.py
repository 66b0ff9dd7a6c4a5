"""Frames that are put together once: each state of a table has its own, and nobody shares columns with anybody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.spark import kept_frames
from lakebed.spark.frames import Frames

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Iterator[lakebed.Warehouse]:
    with lakebed.connect(tmp_path / "lake", spark=spark) as made:
        yield made


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The versions of the frames that were put together."""
    seen: list[int] = []
    whole = Frames.frame

    def counted(self: Frames, order: Any) -> Any:
        seen.append(order.point.version)
        return whole(self, order)

    monkeypatch.setattr(Frames, "frame", counted)
    return seen


def some(lake: lakebed.Warehouse, name: str = "t", **more: Any) -> lakebed.Table:
    table = lake.create_table(name, "id BIGINT, `odd name` DOUBLE", primary_key=["id"], buckets=2, **more)
    table.upsert([{"id": n, "odd name": n / 2} for n in range(20)])
    return table


def ids(frame: Any) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


def test_the_same_version_is_put_together_once(lake: lakebed.Warehouse, built: list[int]) -> None:
    table = some(lake)
    first, second = table.df(), table.df()
    assert built == [1]
    assert sorted(first.collect()) == sorted(second.collect())
    assert first.schema == second.schema
    table.delete([{"id": 3}])
    assert ids(table.df()) == [n for n in range(20) if n != 3]
    assert ids(table.at(version=1).df()) == ids(first) == list(range(20))
    assert built == [1, 2]


def test_frames_of_one_version_are_joined_like_any_other(lake: lakebed.Warehouse) -> None:
    table = some(lake)
    frames = [table.df() for _ in range(3)]
    for left in frames:
        for right in frames:
            if left is right:
                continue
            joined = left.join(right, left["id"] == right["id"] + 1)
            assert sorted(joined.select(left["id"]).collect()) == [(n,) for n in range(1, 20)]
            assert sorted(joined.select(right["id"]).collect()) == [(n,) for n in range(19)]
            only = left.join(right, left["odd name"] == right["id"], "left_anti")
            assert ids(only) == list(range(1, 20, 2))


def test_columns_and_what_is_told_of_rows_are_part_of_it(lake: lakebed.Warehouse, built: list[int]) -> None:
    table = some(lake)
    for _ in range(2):
        assert table.df().columns == ["id", "odd name"]
        assert table.df(["odd name"]).columns == ["odd name"]
        assert table.df(["odd name", "id"]).columns == ["odd name", "id"]
        assert table.df(["id"], metadata_columns=["_bucket"]).columns == ["id", "_bucket"]
        assert ids(table.df(engine="arrow")) == list(range(20))
    assert len(built) == 4 + 2  # the Arrow scan is not kept
    assert ids(table.df(where="id < 3")) == [0, 1, 2]
    assert ids(table.df()) == list(range(20))


def test_states_with_the_same_number_are_not_the_same(lake: lakebed.Warehouse) -> None:
    table = some(lake, merge="on-read")
    assert ids(table.df()) == list(range(20))
    assert ids(table.read_optimised().df()) == []
    with lake.transaction() as tx:
        inside = tx.table("t")
        inside.upsert([{"id": 99, "odd name": 0.0}])
        assert ids(inside.df()) == [*range(20), 99]
        inside.delete("id < 5")
        assert ids(inside.df()) == [*range(5, 20), 99]
        assert ids(table.df()) == list(range(20))
    assert ids(table.df()) == [*range(5, 20), 99]


def test_another_table_of_the_same_name(lake: lakebed.Warehouse) -> None:
    table = some(lake)
    assert len(ids(table.df())) == 20
    lake.drop_table("t", purge=True)
    again = lake.create_table("t", "id BIGINT, `odd name` DOUBLE", primary_key=["id"], buckets=2)
    again.upsert([{"id": 7, "odd name": 1.0}])
    assert ids(again.df()) == [7]


def test_compacted_vacuumed_and_restored_tables(lake: lakebed.Warehouse) -> None:
    table = some(lake)
    table.upsert([{"id": n, "odd name": -1.0} for n in range(0, 20, 2)])
    before = sorted(table.df().collect())
    table.compact(full=True)
    assert sorted(table.df().collect()) == before
    table.expire(retain="0 seconds")
    table.vacuum(retain="0 seconds")
    assert sorted(table.df().collect()) == before
    with pytest.raises(lakebed.NotFoundError):
        table.at(version=1).df()


def test_settings_that_a_frame_has_taken_in(spark: Any, lake: lakebed.Warehouse, built: list[int]) -> None:
    table = some(lake)
    table.df()
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        table.df()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    table.df()
    assert built == [1, 1]


def test_few_are_kept(lake: lakebed.Warehouse, built: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_frames, "_FRAMES", 2)
    table = some(lake)
    for n in range(3):
        table.upsert([{"id": 100 + n, "odd name": 0.0}])
    for version in (1, 2, 3, 3, 2, 1):
        assert len(ids(table.at(version=version).df())) == 19 + version
    assert built == [1, 2, 3, 1]
    monkeypatch.setattr(kept_frames, "_MOST_BYTES", 0)
    table.delete([{"id": 1}])
    table.df()
    table.df()
    assert built[4:] == [table.version] * 2
