"""copy_into: files are loaded once, whoever loads them and however often."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed

SCHEMA = "id BIGINT NOT NULL, name STRING, at TIMESTAMP, day DATE, price DECIMAL(6,2)"


def put(path: Path, *ids: int, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{i}" for i in ids], **columns})
    pq.write_table(rows, path)
    return path


def ids(table: Any) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


@pytest.fixture(params=["plain", "key"])
def table(request: pytest.FixtureRequest, local_lake: lakebed.Warehouse) -> Any:
    keyed = {"primary_key": ["id"], "buckets": 2} if request.param == "key" else {}
    return local_lake.create_table("t", SCHEMA, **keyed)


def test_a_file_is_loaded_once(local_lake: lakebed.Warehouse, table: Any, tmp_path: Path) -> None:
    first, second = put(tmp_path / "in/a.parquet", 1, 2), put(tmp_path / "in/b.parquet", 3)
    done = local_lake.copy_into("t", tmp_path / "in/*.parquet")
    assert done == lakebed.Copied("default.t", 1, (first.as_uri(), second.as_uri()), (), 3)
    third = put(tmp_path / "in/c.parquet", 4)
    again = local_lake.copy_into(table, tmp_path / "in")
    assert (again.version, again.files, again.rows) == (2, (third.as_uri(),), 1)
    assert again.skipped == (first.as_uri(), second.as_uri())
    nothing = local_lake.copy_into("t", f"{tmp_path}/in/{{a,b,c}}.parquet")
    assert (nothing.version, nothing.files, nothing.rows, len(nothing.skipped)) == (None, (), 0, 3)
    assert (ids(table), table.version) == ([1, 2, 3, 4], 2)
    assert table.transactions() == {}
    assert table.history()[0].metrics["numSourceFiles"] == 1


def test_force_loads_again(local_lake: lakebed.Warehouse, table: Any, tmp_path: Path) -> None:
    file = put(tmp_path / "a.parquet", 1)
    for n in range(3):
        done = local_lake.copy_into("t", file, force=True)
        assert (done.version, done.files) == (n + 1, (file.as_uri(),))
    assert ids(table) == ([1] if table.primary_key else [1, 1, 1])


def test_two_at_once(local_lake: lakebed.Warehouse, table: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """The second has read the same files, and finds them loaded when it commits: it keeps what is new to it only."""
    from lakebed import copying

    for n in range(4):
        put(tmp_path / f"in/{n}.parquet", n)
    append, overtaken = copying.append, []

    def late(draft: Any, rows: Any) -> None:
        append(draft, rows)
        if not overtaken:
            overtaken.append(True)
            assert local_lake.copy_into("t", tmp_path / "in/[01].parquet").rows == 2

    monkeypatch.setattr(copying, "append", late)
    done = local_lake.copy_into("t", tmp_path / "in/*.parquet")
    assert (done.version, done.rows, len(done.files), len(done.skipped)) == (2, 2, 2, 2)
    assert ids(table) == [0, 1, 2, 3]
    overtaken.clear()
    put(tmp_path / "in/4.parquet", 4)

    def same(draft: Any, rows: Any) -> None:
        append(draft, rows)
        if not overtaken:
            overtaken.append(True)
            assert local_lake.copy_into("t", tmp_path / "in").rows == 1

    monkeypatch.setattr(copying, "append", same)
    done = local_lake.copy_into("t", tmp_path / "in/*.parquet")
    assert (done.version, done.rows, len(done.skipped)) == (None, 0, 5)
    assert ids(table) == [0, 1, 2, 3, 4]
    assert files_on_disk(table) == set(table.files()["path"].to_pylist())


def files_on_disk(table: Any) -> set[str]:
    root = Path(table.location.removeprefix("file://"))
    return {str(path.relative_to(root)) for path in root.rglob("*.parquet") if "_delta_log" not in path.parts}


def test_many_at_once(lake: lakebed.Warehouse, tmp_path: Path) -> None:
    table = lake.create_table("t", "id BIGINT, name STRING")
    for n in range(6):
        put(tmp_path / f"in/{n}.parquet", n)
    results: list[lakebed.Copied] = []
    patterns = ("in/*", "in/[0-3]*", "in/[2-5]*", "in/*")
    threads = [
        threading.Thread(target=lambda p=p: results.append(lake.copy_into("t", f"{tmp_path}/{p}"))) for p in patterns
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == len(patterns)
    assert ids(table) == list(range(6))
    assert sorted(file for done in results for file in done.files) == sorted(p.as_uri() for p in tmp_path.glob("in/*"))


def test_the_open_log_remembers(local_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    table = local_lake.create_table("t", "id BIGINT, name STRING")
    file = put(tmp_path / "a.parquet", 1)
    local_lake.copy_into("t", file)
    location = table.location
    local_lake.drop_table("t")
    local_lake.register("t", location)
    assert local_lake.copy_into("t", file).skipped == (file.as_uri(),)


def test_text_files(local_lake: lakebed.Warehouse, table: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('ID,name,at,day,price\n1,"x, y",2026-01-01 10:00:00,2026-01-02,1.5\n2,"",,,\n')
    noon = {"id": 3, "name": "z", "at": "2026-01-01T12:00:00+01:00", "day": "2026-01-03", "price": 2.25}
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(f"{json.dumps(noon)}\n{json.dumps({'id': 4})}\n".encode()))
    (tmp_path / "c.csv").write_text("id,name\n")
    (tmp_path / "d.json").write_text("")
    done = local_lake.copy_into("t", tmp_path / "*.{csv,json,json.gz}")
    assert (done.rows, len(done.files)) == (4, 4)

    def at(hour: int) -> dt.datetime:
        return dt.datetime(2026, 1, 1, hour, tzinfo=dt.UTC)

    assert [tuple(row.values()) for row in table.to_arrow().sort_by("id").to_pylist()] == [
        (1, "x, y", at(10), dt.date(2026, 1, 2), Decimal("1.50")),
        (2, "", None, None, None),
        (3, "z", at(11), dt.date(2026, 1, 3), Decimal("2.25")),
        (4, None, None, None, None),
    ]


def test_csv_without_a_header(local_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    table = local_lake.create_table("t", "id BIGINT, name STRING")
    (tmp_path / "a.txt").write_text("1;NA\n2;bob\n")
    local_lake.copy_into("t", tmp_path / "a.txt", format="csv", header=False, delimiter=";", null_values=["NA"])
    assert table.to_arrow().to_pylist() == [{"id": 1, "name": None}, {"id": 2, "name": "bob"}]


def test_later_files_win(local_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    table = local_lake.create_table("t", "id BIGINT, name STRING", primary_key=["id"], buckets=2)
    for name in ("b", "c", "a"):
        (tmp_path / f"{name}.csv").write_text(f"id,name\n1,{name}\n")
    local_lake.copy_into("t", tmp_path / "*.csv")
    assert table.to_arrow()["name"].to_pylist() == ["c"]


def test_new_columns(local_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    table = local_lake.create_table("t", "id BIGINT, name STRING")
    put(tmp_path / "a.parquet", 1)
    put(tmp_path / "b.parquet", 2, size=[7])
    with pytest.raises(lakebed.DataError, match=r"(?s)b\.parquet.*column size: not in the table"):
        local_lake.copy_into("t", tmp_path / "*.parquet")
    assert table.version == 0
    local_lake.copy_into("t", tmp_path / "*.parquet", merge_schema=True)
    assert table.to_arrow().sort_by("id")["size"].to_pylist() == [None, 7]


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("a.csv", b"id,name\nx,y\n", lakebed.DataError, r"a\.csv is not CSV that fits(?s:.*)invalid value 'x'"),
        ("a.csv", b"id,nam\n1,y\n", lakebed.DataError, r"a\.csv(?s:.*)did you mean 'name'"),
        ("a.json", b'{"id": 1\n', lakebed.DataError, r"a\.json is not JSON that fits"),
        ("a.json", b'{"name": "x"}\n', lakebed.DataError, r"a\.json(?s:.*)null"),
        ("a.parquet", b"no parquet", lakebed.CorruptFileError, r"a\.parquet"),
        ("a.xml", b"<a/>", lakebed.InputError, r"a\.xml: its ending does not tell its format"),
        (".a.csv", b"id\n1\n", lakebed.NotFoundError, "there is no file to load at"),
    ],
)
def test_files_that_cannot_be_loaded(
    local_lake: lakebed.Warehouse, table: Any, tmp_path: Path, name: str, content: bytes, error: Any, message: str
) -> None:
    """One bad file, and nothing is loaded; without it the others are."""
    good = put(tmp_path / "in/0.parquet", 1) if not name.startswith(".") else None
    (tmp_path / "in").mkdir(exist_ok=True)
    (tmp_path / "in" / name).write_bytes(content)
    with pytest.raises(error, match=message):
        local_lake.copy_into("t", tmp_path / "in/*")
    assert (table.version, files_on_disk(table)) == (0, set())
    if good is not None:
        assert local_lake.copy_into("t", good).rows == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"format": "orc"}, "there is no such format"), ({"delimiter": "ab"}, "delimiter= is one letter")],
)
def test_wrong_arguments(local_lake: lakebed.Warehouse, table: Any, arguments: Any, message: str) -> None:
    with pytest.raises(lakebed.InputError, match=message):
        local_lake.copy_into("t", "/nowhere", **arguments)


@pytest.mark.s3
def test_from_s3(s3: Any, tmp_path: Path) -> None:
    bucket = s3.new_bucket()
    with lakebed.connect(tmp_path / "s3", f"sqlite:///{tmp_path}/m.db", **s3.options()) as lake:
        from lakebed.core.location import Location
        from lakebed.storage.store import open_store

        store = open_store(Location.parse(f"s3://{bucket}/in"), lake._options)
        for n in range(3):
            store.put(f"2026/{n}.parquet", put(tmp_path / "x.parquet", n).read_bytes())
        table = lake.create_table("t", "id BIGINT, name STRING")
        done = lake.copy_into("t", f"s3://{bucket}/in/*/[01].parquet")
        assert done.files == (f"s3://{bucket}/in/2026/0.parquet", f"s3://{bucket}/in/2026/1.parquet")
        assert lake.copy_into("t", f"s3://{bucket}/in/**").rows == 1
        assert ids(table) == [0, 1, 2]
