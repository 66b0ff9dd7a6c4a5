"""Upkeep, tags, restores and comparisons do what the library does."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import lakebed


def test_settle_and_compact(run, warehouse: Path) -> None:
    assert "version 7, 1 bucket(s), 1 file(s) settled" in run("settle", "shop.orders").out
    assert run("settle", "shop.orders").out == "shop.orders: nothing to settle\n"
    done = run("compact", "shop.orders", "--full", "--json").json
    assert (done["operation"], done["version"]) == ("compact", 8)
    assert len(run("files", "shop.orders", "--json").json) == 4
    wrong = run("settle", "shop.orders", "--where", "name = 'ann'")
    assert wrong.code == 1


def test_vacuum_only_says_so_first(run, warehouse: Path) -> None:
    run("compact", "shop.orders", "--full")
    before = sorted(warehouse.rglob("*.parquet"))
    dry = run("vacuum", "shop.orders", "--retain", "0 days", "--dry-run")
    assert "would go" in dry.out
    assert sorted(warehouse.rglob("*.parquet")) == before
    done = run("vacuum", "shop.orders", "--retain", "0 days", "--json").json
    assert done["dry_run"] is False
    assert done["bytes"] == sum(file["size"] for file in done["files"]) > 0
    assert len(sorted(warehouse.rglob("*.parquet"))) < len(before)
    assert run("doctor", "shop.orders").out.count("missing") == 0


def test_expire(run) -> None:
    assert run("expire", "events", "--retain", "0 days").out.startswith("default.events: 2 version(s) forgotten")
    assert run("expire", "events", "--retain", "soon").code == 1
    assert run("expire", "events", "--json").json == {"table": "default.events", "versions": 0, "earliest": 2}


def test_maintain_once(run) -> None:
    done = run("maintain", "--json").json
    assert [one["table"] for one in done] == ["default.events", "default.nothing", "shop.orders"]
    assert done[2]["settled"]["version"] == 7
    assert all(one["error"] is None for one in done)
    only = run("maintain", "events")
    assert only.out.splitlines()[1].startswith("default.events")
    assert run("maintain", "nope").code == 1
    assert run("maintain", "--every", "soon").code == 1


def test_maintain_until_it_is_interrupted(environment: dict[str, str], warehouse: Path) -> None:
    words = ["maintain", "events", "--loop", "--every", "1 hour", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "lakebed.cli", *words],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert "default.events" in process.stdout.readline(), "the first pass is told at once, not at the end"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "interrupted\n"


def test_tags(run) -> None:
    assert run("tag", "shop.orders", "now").out == "tag now names version 6 of shop.orders\n"
    assert run("tag", "shop.orders", "old", "--version", "1", "--retain", "2 days", "--json").json["version"] == 1
    assert [one["name"] for one in run("tag", "shop.orders", "--json").json] == ["old", "eod", "now"]
    assert "for ever" in run("tag", "shop.orders").out
    assert run("tag", "shop.orders", "now", "--delete").code == 0
    assert "now" not in run("tag", "shop.orders").out
    assert run("tag", "shop.orders", "--delete").code == 1
    assert run("tag", "events").out == "no tags\n"


def test_restore(run, warehouse: Path) -> None:
    assert run("restore", "shop.orders", "--tag", "eod").out == "shop.orders: version 7 is what version 2 was\n"
    with lakebed.connect(warehouse) as lake:
        assert lake.table("shop.orders").count() == 100
    assert run("restore", "shop.orders").code == 1
    assert run("restore", "shop.orders", "--version", "99").code == 1


def test_diff_of_rows_and_files(run) -> None:
    found = run("diff", "shop.orders", "eod", "6", "--json").json
    assert found["rows"] == {"inserted": 1, "updated": 10, "deleted": 5}
    assert found["count"] == {"before": 100, "after": 96}
    assert (found["from"], found["to"], found["columns"]) == (2, 6, [])
    assert run("diff", "shop.orders", "6", "2", "--json").json == found, "the older one comes first"
    shown = run("diff", "shop.orders", "5", "--rows")
    assert "+1" in shown.out
    assert "eve" in shown.out
    assert run("diff", "shop.orders", "6", "6", "--json").json["rows"] == {"inserted": 0, "updated": 0, "deleted": 0}


def test_diff_of_columns_and_properties(run, warehouse: Path) -> None:
    with lakebed.connect(warehouse) as lake:
        lake.table("events").alter(add={"note": "STRING"}, rename={"n": "number"})
        lake.table("events").alter(properties={"checkpoint-interval": "7"})
    done = run("diff", "events", "2")
    assert "note: added (STRING)" in done.out
    assert "checkpoint-interval: None → 7" in done.out
    assert run("diff", "events", "nope").code == 1
