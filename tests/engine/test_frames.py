"""Reading into polars: keys that are in memory already are not read again, and the rows are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import lakebed
from lakebed.engine import frames
from lakebed.engine.resolving import key_columns


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
