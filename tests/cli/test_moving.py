"""Rows and tables go in and out as they are."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

import lakebed


def rows_of(warehouse: Path, table: str) -> list[dict]:
    with lakebed.connect(warehouse) as lake:
        found = lake.table(table).to_arrow()
    return sorted(found.to_pylist(), key=str)


@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
def test_there_and_back(run, warehouse: Path, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"orders.{ending}"
    done = run("export", "shop.orders", path)
    assert done.code == 0, done.err
    assert "96 row(s) written" in done.out
    done = run("import", path, "copies.orders", "--key", "id")
    assert done.code == 0, done.err
    assert "96 row(s) from 1 file(s), version 1" in done.out
    assert rows_of(warehouse, "copies.orders") == rows_of(warehouse, "shop.orders")
    again = run("import", path, "copies.orders", "--json").json
    assert (again["version"], again["skipped"]) == (None, 1)
    assert "nothing new" in run("import", path, "copies.orders").out


def test_export_to_a_pipe(start, environment, tmp_path: Path) -> None:
    import subprocess
    import sys

    words = ["export", "shop.orders", "-", "--format", "arrow", "--where", "id < 3", "--columns", "id,name"]
    done = subprocess.run(
        [sys.executable, "-m", "lakebed.cli", *words], env=environment, capture_output=True, timeout=120, check=True
    )
    found = pa.ipc.open_stream(io.BytesIO(done.stdout)).read_all()
    assert sorted(found.to_pylist(), key=str) == [{"id": n, "name": "bob"} for n in range(3)]


def test_export_of_a_version(run, tmp_path: Path) -> None:
    assert run("export", "shop.orders", tmp_path / "a.parquet", "--tag", "eod").code == 0
    assert pq.read_table(tmp_path / "a.parquet").num_rows == 100
    assert run("export", "shop.orders", tmp_path / "b.csv", "--version", "0").code == 0
    assert pcsv.read_csv(tmp_path / "b.csv").num_rows == 0


def test_an_export_that_fails_leaves_no_file(run, warehouse: Path, tmp_path: Path) -> None:
    with lakebed.connect(warehouse) as lake:
        lake.create_table("nested", "a ARRAY<INT>").append([{"a": [1]}])
    done = run("export", "nested", tmp_path / "out.csv")
    assert done.code == 1
    assert "CSV cannot hold nested values: column 'a'" in done.err
    assert run("export", "shop.orders", tmp_path / "out.csv", "--where", "nope = 1").code == 1
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == []
    (tmp_path / "out.csv").write_text("mine")
    assert run("export", "shop.orders", tmp_path / "out.csv").code == 1
    assert (tmp_path / "out.csv").read_text() == "mine"
    assert run("export", "shop.orders", tmp_path / "out.csv", "--force").code == 0
    assert "does not tell a format" in run("export", "shop.orders", tmp_path / "out").err


def test_import_makes_no_table_for_rows_that_do_not_fit(run, warehouse: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,s\n1,x\n")
    (tmp_path / "b.csv").write_text("n,s\nnot a number,y\n")
    done = run("import", tmp_path / "*.csv", "bad")
    assert done.code == 1
    assert "Field n has incompatible types" in done.err
    assert "default.bad" not in run("ls").out
    assert not (warehouse / "default" / "bad").exists()
    assert run("import", tmp_path / "*.csv", "bad", "--schema", "n STRING, s STRING").code == 0
    taken = run("import", tmp_path / "a.csv", "bad", "--key", "n")
    assert taken.code == 1
    assert "is there already" in taken.err


def test_a_column_of_nothing_becomes_text(run, warehouse: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,s\n1,\n2,\n")
    assert run("import", tmp_path / "a.csv", "t", "--partition-by", "n").code == 0
    with lakebed.connect(warehouse) as lake:
        assert lake.table("t").schema.field("s").type == pa.string()
        assert lake.table("t").partition_by == ("n",)


def test_a_delta_table_copied_and_in_place(run, warehouse: Path, tmp_path: Path) -> None:
    with lakebed.connect(tmp_path / "foreign") as other:
        delta = other.create_table("t", "n BIGINT, day STRING", partition_by=["day"])
        delta.append([{"n": n, "day": "mon"} for n in range(5)])
        delta.delete("n = 0")
    source = tmp_path / "foreign" / "default" / "t"
    copied = run("import", source, "copied", "--json")
    assert copied.json == {"table": "default.copied", "version": 1, "files": 1, "rows": 4}
    taken = run("import", source, "taken", "--in-place", "--json")
    assert taken.json["version"] == 2
    assert rows_of(warehouse, "copied") == rows_of(warehouse, "taken")
    with lakebed.connect(warehouse) as lake:
        assert lake.table("taken").location.endswith("/foreign/default/t")
        assert lake.table("copied").partition_by == ("day",)
    (tmp_path / "a.csv").write_text("n\n1\n")
    assert "no Delta table" in run("import", tmp_path / "a.csv", "x", "--in-place").err


def test_recover(run, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows_of(warehouse, "shop.orders")
    for file in (warehouse / ".lakebed").iterdir():
        file.unlink()
    assert run("ls").code == 1
    done = run("recover", warehouse / "shop" / "orders")
    assert done.code == 0, done.err
    assert "shop.orders: recovered at version 6" in done.out
    assert rows_of(warehouse, "shop.orders") == before
    monkeypatch.delenv("LAKEBED_WAREHOUSE")
    assert run("recover", warehouse / "default" / "events", "--json").json["table"] == "default.events"
    again = run("recover", warehouse / "default" / "events")
    assert again.code == 1
