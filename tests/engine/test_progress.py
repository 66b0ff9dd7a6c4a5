"""Progress is shown on a terminal only, and only if it is wanted."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.engine import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY", 0)


def keyed(lake: lakebed.Warehouse) -> Any:
    table = lake.create_table("t", "id BIGINT", primary_key=["id"], buckets=3, merge="on-read")
    for _ in range(2):
        table.upsert([{"id": i} for i in range(50)])
    return table


@pytest.mark.parametrize(
    ("stream", "wanted", "seen"), [(Terminal, True, True), (Terminal, False, False), (io.StringIO, True, False)]
)
def test_a_bar_of_the_buckets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO], wanted: bool, seen: bool
) -> None:
    with lakebed.connect(tmp_path / "w", progress=wanted) as lake:
        table = keyed(lake)
        screen = stream()
        monkeypatch.setattr(sys, "stderr", screen)
        assert table.settle().buckets == 3
    assert ("table default.t" in screen.getvalue() and "3/3 buckets" in screen.getvalue()) == seen
    assert bool(screen.getvalue()) == seen


def test_rows_and_deleted_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    with lakebed.connect(tmp_path / "w") as lake:
        monkeypatch.setattr(sys, "stderr", screen)
        table = lake.create_table("t", "id BIGINT")
        table.append(pa.table({"id": range(1234)}))
        assert "1,234 rows" in screen.getvalue()
        table.overwrite([{"id": 1}])
        screen.truncate(0)
        table.vacuum(retain="0 seconds")
    assert "table default.t: vacuum" in screen.getvalue()
    assert "1 files deleted" in screen.getvalue()


def test_what_is_done_soon_shows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY", 3600)
    screen = Terminal()
    with lakebed.connect(tmp_path / "w") as lake:
        monkeypatch.setattr(sys, "stderr", screen)
        keyed(lake).settle()
    assert screen.getvalue() == ""
