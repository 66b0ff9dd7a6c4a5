"""ls, show, history and files tell what the library knows."""

from __future__ import annotations

import getpass
from pathlib import Path

import lakebed


def test_ls(run, warehouse: Path) -> None:
    done = run("ls")
    assert done.code == 0
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines] == ["table", "default.events", "default.nothing", "shop.orders"]
    assert lines[3].split()[1:4] == ["6", "≤", "96"]
    found = {one["table"]: one for one in run("ls", "--json").json}
    with lakebed.connect(warehouse) as lake:
        orders = lake.table("shop.orders")
        files = orders.files()
        assert found["shop.orders"]["files"] == files.num_rows
        assert found["shop.orders"]["bytes"] == sum(files["size"].to_pylist())
        assert found["shop.orders"]["dead"] == sum(files["dead_rows"].to_pylist())
        assert found["shop.orders"]["version"] == orders.version
        assert found["default.events"]["rows"] == lake.table("events").count()
    assert found["shop.orders"]["unsettled"] == 1
    assert found["shop.orders"]["changed"].endswith("+00:00")


def test_ls_of_one_namespace(run) -> None:
    assert [one["table"] for one in run("ls", "shop", "--json").json] == ["shop.orders"]
    done = run("ls", "shops")
    assert done.code == 1
    assert "did you mean 'shop'?" in done.err


def test_show_draws_the_buckets(run) -> None:
    done = run("show", "shop.orders")
    assert done.code == 0
    assert "orders of the shop" in done.out
    assert "id; 4 bucket(s), deduplicate, merged on-read" in done.out
    assert "in euro" in done.out
    assert "eod → 2" in done.out
    bars = [line for line in done.out.splitlines() if "█" in line]
    assert len(bars) == 4
    assert any("▒" in bar for bar in bars), "dead rows are drawn"
    assert sum("░" in bar for bar in bars) == 1, "the bucket with an unsettled file is drawn so"


def test_show_for_programs(run, warehouse: Path) -> None:
    found = run("show", "shop.orders", "--json").json
    assert [c["name"] for c in found["columns"]] == ["id", "name", "amount"]
    assert found["columns"][0] == {"name": "id", "type": "BIGINT", "nullable": False, "comment": None}
    assert found["key"]["key"] == ["id"]
    assert found["tags"] == {"eod": 2}
    assert sum(bucket["bytes"] for bucket in found["buckets"]) == found["bytes"]
    assert sum(bucket["unsettled"] for bucket in found["buckets"]) == 1
    assert run("show", "events", "--json").json["partition_by"] == ["day"]


def test_history(run) -> None:
    done = run("history", "shop.orders")
    lines = [line.split() for line in done.out.splitlines()]
    assert [line[0] for line in lines[1:]] == ["6", "5", "4", "3", "2", "1", "0"]
    assert lines[1][3:6] == ["upsert", "+1", "+1"]
    assert lines[2][3:5] == ["delete", "−5"]
    assert "id >= 95" in done.out
    found = run("history", "shop.orders", "--json", "--limit", "2").json
    assert [(one["version"], one["operation"], one["rows_in"], one["rows_out"]) for one in found] == [
        (6, "upsert", 1, None),
        (5, "delete", None, 5),
    ]
    assert {one["who"] for one in found} == {getpass.getuser()}
    assert "--limit 20" in run("history", "shop.orders", "-n", "2").out


def test_files(run, warehouse: Path) -> None:
    done = run("files", "shop.orders")
    with lakebed.connect(warehouse) as lake:
        assert done.out.count(".parquet") == lake.table("shop.orders").files().num_rows
    assert done.out.count("unsettled") == 1
    assert run("files", "shop.orders", "--version", "1", "--json").json[0]["unsettled"] is True
    assert len(run("files", "shop.orders", "--tag", "eod", "--json").json) == 4
    assert len(run("files", "events", "--where", "day = 'tue'", "--json").json) == 1
    assert run("files", "nothing").out.startswith("no files")
    both = run("files", "shop.orders", "--tag", "eod", "--version", "1")
    assert both.code == 1
    assert "exclude each other" in both.err


def test_an_unpublished_version_shows(run, warehouse: Path, hold_publication) -> None:
    hold_publication(lambda lake: lake.table("events").append([{"n": 9, "day": "mon"}]))
    assert "1 unpublished" in run("ls").out
    told = run("history", "events").out
    assert "append *" in told
    assert "* not in the open log yet" in told
    assert "lakebed doctor --fix" in run("show", "events").out


def test_what_steers_a_terminal_is_made_visible(run, warehouse: Path) -> None:
    with lakebed.connect(warehouse) as lake:
        lake.create_table("odd", "`a\x1b[31m` STRING", comment="bell\x07 and\nline")
    done = run("show", "odd")
    assert done.code == 0
    assert "\x1b" not in done.out
    assert "\x07" not in done.out
    assert "\\x1b[31m" in done.out
