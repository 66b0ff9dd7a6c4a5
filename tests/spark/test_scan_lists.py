"""The lists of files that Spark reads tables by, and the versions that lazy frames need."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import lakebed
from lakebed.core.actions import now_ms
from lakebed.engine.scan_lists import FRESH_MS, KEPT_MS, SCAN_LISTS
from lakebed.spark import kept_frames

pytestmark = pytest.mark.spark


def lists(table: lakebed.Table) -> list[Path]:
    root = Path(table._store.path(SCAN_LISTS))
    return sorted(path for path in root.rglob("*") if path.is_file() and not path.name.startswith("."))


def age(path: Path, milliseconds: int) -> None:
    seconds = (now_ms() - milliseconds) / 1000
    os.utime(path, (seconds, seconds))


@pytest.fixture
def table(spark_lake: lakebed.Warehouse) -> lakebed.Table:
    made = spark_lake.create_table("t", "id BIGINT")
    made.append([{"id": 1}, {"id": 2}])
    return made


def test_scans_of_the_same_files_share_a_list(table: lakebed.Table) -> None:
    assert table.df().count() == table.df().count() == 2
    assert len(lists(table)) == 1
    table.append([{"id": 3}])
    assert table.df().count() == 3
    assert len(lists(table)) == 2


def test_an_old_list_is_written_again_before_it_is_used(table: lakebed.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame is not kept for as long as that."""
    assert kept_frames._SECONDS * 1000 < KEPT_MS - FRESH_MS
    monkeypatch.setattr(kept_frames, "_SECONDS", 0.0)
    table.df()
    [path] = lists(table)
    age(path, FRESH_MS + 1000)
    before = path.stat().st_mtime
    assert table.df().count() == 2
    assert path.stat().st_mtime > before


def test_vacuum_takes_old_lists_and_no_others(table: lakebed.Table) -> None:
    table.df()
    table.append([{"id": 3}])
    late = table.df()
    [old] = [path for path in lists(table) if path.read_text().count("\n") == 1]
    age(old, KEPT_MS + 1000)
    would = table.vacuum("0 days", dry_run=True)
    assert [table._store.path(path) for path in would.paths if path.startswith(SCAN_LISTS)] == [str(old)]
    assert "list of a scan" in would.files["reason"].to_pylist()
    done = table.vacuum("0 days")
    assert done.paths == would.paths
    assert len(lists(table)) == 1
    assert late.count() == 3
    assert table.df().count() == 3


def test_a_retention_that_is_longer_keeps_lists_longer(table: lakebed.Table) -> None:
    table.df()
    [path] = lists(table)
    age(path, KEPT_MS + 1000)
    assert not table.vacuum("7 days").paths
    assert path.exists()


def test_a_frame_outlives_the_expiry_of_its_version(table: lakebed.Table) -> None:
    frame = table.df()
    table.overwrite([{"id": 7}])
    table.vacuum("0 days")
    assert sorted(row.id for row in frame.collect()) == [1, 2]
    assert [row.id for row in table.df().collect()] == [7]


def test_other_readers_do_not_see_the_lists(table: lakebed.Table) -> None:
    from deltalake import DeltaTable

    table.df().count()
    other = DeltaTable(table.location)
    assert len(other.file_uris()) == 1
    assert other.vacuum(0, dry_run=True, enforce_retention_duration=False) == []
    assert lakebed.read_delta(table.location).count() == 2
