"""A bar on a terminal tells how far the tasks of a job have come."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.engine import progress

pytestmark = pytest.mark.spark


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("seen", [True, False])
def test_a_bar_of_a_job(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: bool) -> None:
    monkeypatch.setattr(progress, "DELAY", 0)
    with lakebed.connect(tmp_path / "w", spark=spark, distribute_from=0, shuffle="never", progress=seen) as lake:
        table = lake.create_table("t", "id BIGINT", primary_key=["id"], buckets=2, merge="on-read")
        screen = Terminal()
        monkeypatch.setattr(sys, "stderr", screen)
        table.upsert(spark.range(0, 2000, 1, 3))
        table.upsert(spark.range(0, 2000, 1, 3))
        assert ("table default.t" in screen.getvalue()) == seen
        assert ("3 tasks, 6 files, 2,000 rows" in screen.getvalue()) == seen
        table.settle()
        assert ("2/2 buckets" in screen.getvalue()) == seen
        assert bool(screen.getvalue()) == seen
        assert not list(Path(table.location.removeprefix("file://")).rglob("progress"))
        assert table.count() == 2000


def test_reports_that_cannot_be_left_do_no_harm(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with lakebed.connect(tmp_path / "w", spark=spark) as lake:
        table = lake.create_table("t", "id BIGINT")
        (Path(table.location.removeprefix("file://")) / "_lakebed").write_text("not a directory")
        table.append(spark.range(10))
        assert table.count() == 10
