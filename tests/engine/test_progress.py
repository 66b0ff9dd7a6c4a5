"""Progress is shown on a terminal only, and only if it is wanted."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

import lakebed


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "progress", "seen"), [(Terminal, True, True), (Terminal, False, False), (io.StringIO, True, False)]
)
def test_a_bar_of_the_buckets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO], progress: bool, seen: bool
) -> None:
    with lakebed.connect(tmp_path / "w", progress=progress) as lake:
        table = lake.create_table("t", "id BIGINT", primary_key=["id"], buckets=3, merge="on-read")
        for _ in range(2):
            table.upsert([{"id": i} for i in range(50)])
        screen = stream()
        monkeypatch.setattr(sys, "stderr", screen)
        assert table.settle().buckets == 3
    assert ("table default.t" in screen.getvalue() and "3/3" in screen.getvalue()) == seen
    assert bool(screen.getvalue()) == seen
