"""Reading into polars: keys that are in memory already are not read again, and the rows are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

import lakebed
from lakebed.engine import frames
from lakebed.engine.resolving import key_columns
from lakebed.storage.deletion_vector import keep_mask


@pytest.fixture(autouse=True)
def fresh() -> None:
    key_columns._shared.clear()


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[pl.Series | None]:
    """The keys that each file's reader was given."""
    seen: list[pl.Series | None] = []
    real = frames._read_plain

    def read(*arguments: Any) -> pl.DataFrame | None:
        seen.append(arguments[-1])
        return real(*arguments)

    monkeypatch.setattr(frames, "_read_plain", read)
    return seen


def table(folder: Path, schema: str = "id BIGINT, v BIGINT, t STRING", key: str = "id") -> lakebed.Table:
    return lakebed.connect(folder).create_table("t", schema, primary_key=[key], buckets=2, merge="on-read")


def rows(*ids: int, v: int) -> list[dict[str, Any]]:
    return [{"id": n, "v": v, "t": f"text {n}"} for n in ids]


def expected(values: dict[int, int]) -> list[tuple[int, int, str]]:
    return [(n, v, f"text {n}") for n, v in sorted(values.items())]


def test_keys_that_resolving_has_read_are_used(tmp_path: Path, given: list[pl.Series | None]) -> None:
    t = table(tmp_path)
    t.upsert(rows(*range(100), v=0))
    t.upsert(rows(*range(50, 120), v=1))
    found = t.to_polars().sort("id")
    assert found.rows() == expected({n: int(n >= 50) for n in range(120)})
    assert found.columns == ["id", "v", "t"]
    assert len(given) == 4
    assert all(keys is not None for keys in given)


def test_settled_tables_are_read_as_they_are(tmp_path: Path, given: list[pl.Series | None]) -> None:
    t = table(tmp_path)
    t.upsert(rows(1, 2, v=0))
    t.settle()
    key_columns._shared.clear()
    assert t.to_polars().sort("id").rows() == expected({1: 0, 2: 0})
    assert all(keys is None for keys in given)


def test_columns_without_the_key_and_the_key_alone(tmp_path: Path, given: list[pl.Series | None]) -> None:
    t = table(tmp_path)
    t.upsert(rows(1, 2, v=0))
    t.upsert(rows(2, 3, v=1))
    assert sorted(t.to_polars(columns=["v"])["v"]) == [0, 1, 1]
    assert sorted(t.to_polars(columns=["id"])["id"]) == [1, 2, 3]
    assert all(keys is None for keys in given)
    assert t.to_polars(columns=["v", "id"]).columns == t.to_arrow(columns=["v", "id"]).column_names


def test_a_renamed_key(tmp_path: Path, given: list[pl.Series | None]) -> None:
    t = table(tmp_path)
    t.upsert(rows(1, 2, v=0))
    t.alter(rename={"t": "note"})
    t.upsert([{"id": 2, "v": 1, "note": "text 2"}])
    assert t.to_polars().sort("id").rows() == expected({1: 0, 2: 1})
    assert any(keys is not None for keys in given)


def test_keys_of_other_types_are_read(tmp_path: Path, given: list[pl.Series | None]) -> None:
    t = table(tmp_path, "id INT, v BIGINT, t STRING")
    t.upsert(rows(1, 2, v=0))
    t.upsert(rows(2, v=1))
    found = t.to_polars().sort("id")
    assert found.rows() == expected({1: 0, 2: 1})
    assert found.schema["id"] == pl.Int32
    assert all(keys is None for keys in given)


def test_more_text_than_arrow_counts_is_not_cast_from_views() -> None:
    """Arrow's cast of 2 GiB or more wraps around; the rows here share one piece of text."""
    text = pl.Series("t", ["x" * (1 << 20)]).new_from_index(0, 2047)
    more = pl.DataFrame([text, pl.Series("n", [1]).new_from_index(0, 2047)])
    newest, oldest = pl.CompatLevel.newest(), pl.CompatLevel.oldest()
    assert frames._layout(more)._version == newest._version
    assert frames._layout(pl.concat([more, more.head(1)]))._version == oldest._version
    assert frames._layout(more.select(pl.col("t").cast(pl.Binary)))._version == newest._version
    assert frames._layout(pl.concat([more, more]).select(pl.col("t").cast(pl.Binary)))._version == oldest._version


def test_texts_inside_of_lists_are_cast_from_the_old_layout() -> None:
    rows = pl.DataFrame({"t": ["a"], "l": [["b"]]})
    assert frames._layout(rows)._version == pl.CompatLevel.oldest()._version
    assert frames._layout(rows.select(pl.lit(1)))._version == pl.CompatLevel.newest()._version


MANY_TYPES = {
    "id": pl.Series(range(10_000)),
    "n": pl.Series([None if at % 7 == 0 else at for at in range(10_000)], dtype=pl.Int32),
    "b": pl.Series([None if at % 5 == 0 else at % 3 == 0 for at in range(10_000)]),
    "t": pl.Series([None if at % 11 == 0 else f"text {at}" for at in range(10_000)]),
    "few": pl.Series(["a", "b", "c", None] * 2500),
    "x": pl.Series([at / 3 for at in range(10_000)]),
    "l": pl.Series([None if at % 13 == 0 else [at] * (at % 4) for at in range(10_000)]),
    "s": pl.Series([None if at % 17 == 0 else {"a": at, "b": str(at)} for at in range(10_000)]),
}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("shape", ["scattered", "one live", "one dead", "first half", "last half", "groups", "all"])
@pytest.mark.parametrize("columns", [["id"], ["t", "few"], ["l", "s"], list(MANY_TYPES)])
def test_only_live_rows_are_decoded(tmp_path: Path, columns: list[str], shape: str, version: int) -> None:
    """Whichever rows are dead, what is decoded is what is left of all rows."""
    file = tmp_path / "a.parquet"
    all_rows = pl.DataFrame(MANY_TYPES)
    pq.write_table(
        all_rows.to_arrow(), file, row_group_size=3_000, data_page_version=f"{version}.0", data_page_size=999
    )
    dead = {
        "scattered": BitMap64(at for at in range(10_000) if hash((at, 1)) % 3),
        "one live": BitMap64(range(10_000)) - BitMap64([6_543]),
        "one dead": BitMap64([6_543]),
        "first half": BitMap64(range(5_000)),
        "last half": BitMap64(range(5_000, 10_000)),
        "groups": BitMap64([*range(3_000), *range(6_000, 9_500)]),
        "all": BitMap64(range(10_000)),
    }[shape]
    live = pl.Series(keep_mask(dead, 0, 10_000))
    kinds = {name: all_rows.schema[name] for name in columns}
    found = frames._only(str(file), kinds, live, len(dead)).select(columns).collect()
    assert found.equals(all_rows.select(columns).filter(live))


def test_dead_rows_are_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan reaches the reader: polars is given the predicate, not a mask for afterwards."""
    file = tmp_path / "a.parquet"
    pl.DataFrame(MANY_TYPES).write_parquet(file)
    live = pl.Series([at % 4 == 0 for at in range(10_000)])
    plan = frames._only(str(file), {"id": pl.Int64(), "b": pl.Boolean()}, live, 7_500).select("id", "b").explain()
    selection = next(line for line in plan.splitlines() if "SELECTION" in line)
    assert "python_udf" in selection
    assert 'col("b")' in selection, "without a column of the file polars would decode all rows"
    assert "FILTER" not in plan
    monkeypatch.setattr(frames, "_DEAD_SHARE", 2)
    assert "python_udf" not in frames._only(str(file), {"id": pl.Int64()}, live, 7_500).explain()


@pytest.mark.parametrize("positions", [[], [3], [3, 4, 5], [0, 2, 3, 7], [1, 9]])
def test_any_ascending_positions_are_answered(positions: list[int]) -> None:
    live = pl.Series([at % 4 == 0 or at == 7 for at in range(10)])
    assert frames._alive(live, pl.Series(positions, dtype=pl.UInt32)).to_list() == [live[at] for at in positions]


def test_a_table_that_is_mostly_dead(tmp_path: Path) -> None:
    t = table(tmp_path)
    for v in range(5):
        t.upsert(rows(*range(1_000), v=v))
    for settled in (False, True):
        if settled:
            t.settle()
            key_columns._shared.clear()
        assert t.to_polars().sort("id").rows() == expected(dict.fromkeys(range(1_000), 4))
        assert t.to_polars(columns=["t"]).height == 1_000
    t.upsert(rows(*range(900), v=5))
    assert t.to_polars().sort("id").rows() == expected({n: 5 if n < 900 else 4 for n in range(1_000)})
