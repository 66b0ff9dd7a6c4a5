"""Upsert files, read back as Arrow reads them."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from upserting import content, contents, order_for, upsert

from lakebed.core.bucketing import leaves, overlaps
from lakebed.core.column_mapping import enable_mapping
from lakebed.core.errors import DataError, InputError
from lakebed.core.file_tags import KIND_COLUMN, bucket_of, is_unsettled, tombstones_of
from lakebed.core.murmur3 import spark_hash
from lakebed.core.options import Options
from lakebed.core.schema_ddl import from_ddl
from lakebed.core.steps import Step, observe
from lakebed.delta.paths import decode
from lakebed.engine import key_order, row_block
from lakebed.engine.keyed_write import KeyedWriter
from lakebed.storage import forked

TINY = Options(sync=False, writer_memory_limit=3 * 1024)


def files_below(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()] if root.exists() else []


def test_rows_are_sorted_in_the_file_of_their_bucket(tmp_path: Path) -> None:
    order = order_for(tmp_path, "id BIGINT, name STRING", ["id"], buckets=4)
    ids = [(7 * n) % 1000 for n in range(1000)]
    done = upsert(order, pa.table({"id": ids, "name": [f"n{n}" for n in ids]}))
    assert (done.rows, done.deletes, done.splits) == (1000, 0, [])
    assert [bucket_of(file) for file in done.files] == [0, 1, 2, 3]
    assert all(is_unsettled(file) and not tombstones_of(file) for file in done.files)
    for file in done.files:
        rows = content(order, file)
        assert decode(file.path).startswith(f"bucket-0000{bucket_of(file)}/")
        assert rows["id"].to_pylist() == sorted(rows["id"].to_pylist())
        assert {n % 4 for n in spark_hash([rows["id"]]).to_pylist()} == {bucket_of(file)}
        stats = json.loads(file.stats or "")
        assert stats["numRecords"] == rows.num_rows
        assert stats["minValues"]["id"] == rows["id"][0].as_py()
    assert sorted(row["id"] for row in contents(order, done)) == list(range(1000))


def test_settled_files_do_not_say_unsettled(tmp_path: Path) -> None:
    order = order_for(tmp_path, "id BIGINT", ["id"], unsettled=False)
    assert not is_unsettled(upsert(order, [{"id": 1}]).files[0])


KEYS: list[tuple[str, list[Any]]] = [
    ("TINYINT", [3, -1, 0]),
    ("SMALLINT", [300, -1, 0]),
    ("INT", [3, -(2**31), 2**31 - 1]),
    ("BIGINT", [3, -(2**63), 2**63 - 1]),
    ("STRING", ["b", "", "ä", "a", "日本", "\U0001f600", "a\x00"]),
    ("BINARY", [b"b", b"", b"\xff", b"\x00"]),
    ("DECIMAL(9,2)", [Decimal("3.10"), Decimal("-1.00"), Decimal("0.00")]),
    ("DECIMAL(38,0)", [Decimal(10) ** 37, Decimal(-(10**37)), Decimal(0)]),
    ("DATE", [dt.date(2026, 1, 1), dt.date(1900, 1, 1)]),
    ("TIMESTAMP", [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(1900, 1, 1, tzinfo=dt.UTC)]),
    ("TIMESTAMP_NTZ", [dt.datetime(2026, 1, 1), dt.datetime(1900, 1, 1)]),
    ("BOOLEAN", [True, False]),
]


@pytest.fixture(params=["polars", "arrow"])
def sorter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With polars, and as in a process forked from one that used it."""
    if request.param == "arrow":
        monkeypatch.setattr(forked, "_lost", True)
    assert key_order.polars_is_lost() is (request.param == "arrow")
    return str(request.param)


@pytest.mark.parametrize(("kind", "values"), KEYS, ids=[kind for kind, _ in KEYS])
def test_every_key_type(tmp_path: Path, kind: str, values: list[Any], sorter: str) -> None:
    order = order_for(tmp_path, f"k {kind}, n INT", ["k"], buckets=2)
    done = upsert(order, [{"k": value, "n": n} for n in range(2) for value in values])
    rows = contents(order, done)
    assert {row["k"]: row["n"] for row in rows} == dict.fromkeys(values, 1)
    assert len(rows) == len(values)
    for file in done.files:
        keys = [
            row["k"].encode() if isinstance(row["k"], str) else row["k"] for row in content(order, file).to_pylist()
        ]
        assert keys == sorted(keys)


def test_a_key_of_eight_columns(tmp_path: Path, sorter: str) -> None:
    names = [f"k{n}" for n in range(8)]
    order = order_for(tmp_path, ", ".join(f"{name} INT" for name in names) + ", v INT", names, buckets=3)
    rows = [{name: (row >> at) & 1 for at, name in enumerate(names)} | {"v": row} for row in [*range(256), *range(9)]]
    done = upsert(order, rows)
    assert sorted(row["v"] for row in contents(order, done)) == list(range(256))
    for file in done.files:
        keys = [[row[name] for name in names] for row in content(order, file).to_pylist()]
        assert keys == sorted(keys)


def test_the_last_of_duplicates_stays(tmp_path: Path, sorter: str) -> None:
    order = order_for(tmp_path, "id INT, n INT", ["id"])
    done = upsert(order, [{"id": 1, "n": 1}, {"id": 2, "n": 2}, {"id": 1, "n": 3}])
    assert contents(order, done) == [{"id": 1, "n": 3}, {"id": 2, "n": 2}]
    assert done.rows == 3


def test_sorted_rows_without_duplicates_are_written_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = order_for(tmp_path, "id INT, n INT", ["id"])
    monkeypatch.setattr(row_block, "_series", None)
    done = upsert(order, [{"id": n, "n": -n} for n in range(100)])
    assert contents(order, done) == [{"id": n, "n": -n} for n in range(100)]


def test_the_highest_sequence_stays_and_nulls_are_lowest(tmp_path: Path, sorter: str) -> None:
    order = order_for(tmp_path, "id INT, a INT, b INT, n INT", ["id"], sequence=("a", "b"))
    rows = [
        (1, 2, 1, 0),
        (1, 2, None, 1),
        (1, 1, 9, 2),
        (2, None, None, 3),
        (2, None, 0, 4),
        (3, 1, 1, 5),
        (3, 1, 1, 6),
    ]
    done = upsert(order, [dict(zip(("id", "a", "b", "n"), row, strict=True)) for row in rows])
    assert [row["n"] for row in contents(order, done)] == [0, 4, 6]


def test_first_row_keeps_the_first(tmp_path: Path, sorter: str) -> None:
    order = order_for(tmp_path, "id INT, n INT", ["id"], engine="first-row")
    done = upsert(order, [{"id": 2, "n": 1}, {"id": 1, "n": 2}, {"id": 2, "n": 3}])
    assert contents(order, done) == [{"id": 1, "n": 2}, {"id": 2, "n": 1}]


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_engines_that_combine_get_every_row_in_fold_order(tmp_path: Path, engine: str, sorter: str) -> None:
    order = order_for(tmp_path, "id INT, s INT, n INT", ["id"], sequence=("s",), engine=engine)
    rows = [(2, 5, 0), (1, 7, 1), (2, None, 2), (2, 5, 3), (1, 6, 4)]
    done = upsert(order, [dict(zip(("id", "s", "n"), row, strict=True)) for row in rows])
    assert [row["n"] for row in contents(order, done)] == [4, 1, 2, 0, 3]


def test_sort_by_decides_after_the_sequence_and_helpers_are_not_stored(tmp_path: Path, sorter: str) -> None:
    order = order_for(tmp_path, "id INT, n INT, s INT", ["id"], sequence=("s",), sort_by=("lsn", "n"))
    done = upsert(
        order,
        pa.table(
            {
                "id": pa.array([1, 1, 1, 2, 2], pa.int32()),
                "s": pa.array([1, 1, 0, 1, 1], pa.int32()),
                "n": pa.array([5, 4, 9, 2, 1], pa.int32()),
                "lsn": pa.array(["b", "a", "z", "x", "x"]).dictionary_encode(),
            }
        ),
    )
    assert contents(order, done) == [{"id": 1, "n": 5, "s": 1}, {"id": 2, "n": 2, "s": 1}]


def test_sort_by_must_be_there_and_have_an_order(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no column 'lsm' for sort_by; fix: did you mean 'lsn'"):
        upsert(order_for(tmp_path, "id INT", ["id"], sort_by=("lsm",)), pa.table({"id": [1], "lsn": [1]}))
    with pytest.raises(InputError, match=r"cannot be sorted by 'l'.*list"):
        upsert(order_for(tmp_path, "id INT", ["id"], sort_by=("l",)), pa.table({"id": [1], "l": [[1]]}))


def test_other_extra_columns_are_refused(tmp_path: Path) -> None:
    order = order_for(tmp_path, "id INT, n INT NOT NULL", ["id"], sort_by=("lsn",))
    with pytest.raises(DataError) as caught:
        upsert(order, pa.table({"id": ["x"], "lsn": [1], "more": [1]}))
    assert [p.split(" (")[0].split(";")[0] for p in caught.value.problems] == [
        "column more: not in the table",
        "column id: expected INT, found string",
        "column n: INT NOT NULL is missing",
    ]


@pytest.mark.parametrize("missing", ["column", "value"])
def test_not_null_is_enforced_for_rows_that_are_put(tmp_path: Path, missing: str) -> None:
    order = order_for(tmp_path, "id INT, n INT NOT NULL", ["id"], row_kind="op")
    good = pa.table({"id": pa.array([1], pa.int32()), "op": ["-D"]})
    assert contents(order, upsert(order, good)) == [{"id": 1, "n": None, KIND_COLUMN: 3}]
    bad = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "op": ["-D", "+I", "+U"]})
    if missing == "value":
        bad = bad.append_column("n", pa.array([None, None, 1], pa.int32()))
    with pytest.raises(DataError, match=r"column n: (1 null|2 nulls) in a NOT NULL column \((in|first in) row 1\)"):
        upsert(order, bad)


def test_null_keys_are_refused_with_count_and_example_and_nothing_remains(tmp_path: Path) -> None:
    order = order_for(tmp_path / "t", "a INT, b STRING, v STRING", ["a", "b"], buckets=2, options=TINY)
    whole = pa.table({"a": pa.array(range(3000), pa.int32()), "b": ["x"] * 3000, "v": ["y" * 10] * 3000})
    broken = pa.table({"a": pa.array([7, None, 8], pa.int32()), "b": ["x", None, None], "v": ["p", "q", "r"]})
    with pytest.raises(DataError) as caught:
        upsert(order, pa.concat_tables([whole, broken, whole, broken]))
    assert caught.value.problems == (
        "4 rows with a null in the primary key (a, b), like row 3001: a=None, b=None, v='q'",
    )
    assert not files_below(tmp_path)
    assert not list(tmp_path.rglob("bucket*"))


def test_an_empty_text_is_no_key_of_a_partition(tmp_path: Path) -> None:
    order = order_for(tmp_path, "id INT, dt STRING, hr STRING", ["id", "dt"], partitions=("dt", "hr"))
    with pytest.raises(DataError) as caught:
        upsert(order, [{"id": 1, "dt": "a", "hr": ""}, {"id": 2, "dt": ""}, {"id": 3, "dt": ""}, {"id": 4, "dt": None}])
    assert caught.value.problems == (
        "1 row with a null in the primary key (id, dt), like row 3: id=4, dt=None, hr=None",
        "2 rows with an empty text in a partition column of the primary key (id, dt), which Delta cannot tell from a "
        "null, like row 1: id=2, dt='', hr=None",
    )
    assert not files_below(tmp_path)
    done = upsert(order, [{"id": 1, "dt": "a", "hr": ""}])
    assert done.files[0].partition_values == {"dt": "a", "hr": None}


def test_partitions_and_buckets(tmp_path: Path, sorter: str) -> None:
    order = order_for(tmp_path, "id INT, dt STRING, n INT", ["id", "dt"], partitions=("dt",), buckets=2)
    done = upsert(order, [{"id": n % 7, "dt": "ab"[n % 2], "n": n} for n in range(40)])
    latest = {(n % 7, "ab"[n % 2]): n for n in range(40)}
    assert {(row["id"], row["dt"]): row["n"] for row in contents(order, done)} == latest
    assert [(file.partition_values["dt"], bucket_of(file)) for file in done.files] == [
        ("a", 0), ("a", 1), ("b", 0), ("b", 1),
    ]  # fmt: skip
    assert decode(done.files[2].path).startswith("dt=b/bucket-00000/")


def test_a_key_that_moves_between_partitions_is_in_the_last_one(tmp_path: Path, sorter: str) -> None:
    order = order_for(tmp_path, "id INT, dt STRING", ["id"], partitions=("dt",), buckets=2)
    assert order.key.spans_partitions
    done = upsert(order, [{"id": n % 7, "dt": "abc"[n % 3]} for n in range(40)])
    latest = {n % 7: "abc"[n % 3] for n in range(40)}
    rows = contents(order, done)
    assert {row["id"]: row["dt"] for row in rows} == latest
    assert len(rows) == 7
    for file in done.files:
        assert {row["dt"] for row in content(order, file).to_pylist()} == {file.partition_values["dt"]}


def test_rows_to_combine_stay_in_order_across_partitions(tmp_path: Path, sorter: str) -> None:
    order = order_for(tmp_path, "id INT, dt STRING, n INT", ["id"], partitions=("dt",), engine="partial-update")
    incoming = [{"id": n % 3, "dt": "abacca"[(n * n + n % 5) % 6], "n": n} for n in range(60)]
    done = upsert(order, incoming)
    for key in range(3):
        found = [row["n"] for row in contents(order, done) if row["id"] == key]
        assert found == [row["n"] for row in incoming if row["id"] == key]


def test_kinds(tmp_path: Path) -> None:
    order = order_for(tmp_path, "id BIGINT, n BIGINT", ["id"], row_kind="op")
    kinds = ["+I", "-u", "Update", "DELETE", " -D ", "update_before", "update_after", "insert"]
    done = upsert(order, pa.table({"id": range(8), "OP": kinds, "n": range(8)}))
    assert [row[KIND_COLUMN] for row in contents(order, done)] == [None, 1, None, 3, 3, 1, None, None]
    assert (done.deletes, tombstones_of(done.files[0])) == (4, 4)
    coded = upsert(order, pa.table({"id": range(4), "op": pa.array(range(4), pa.int8()), "n": range(4)}))
    assert [row[KIND_COLUMN] for row in contents(order, coded)] == [None, 1, None, 3]


def test_only_files_with_tombstones_have_the_hidden_column(tmp_path: Path) -> None:
    order = order_for(tmp_path, "id BIGINT NOT NULL, n BIGINT NOT NULL", ["id"], buckets=8, row_kind="op")
    done = upsert(
        order, pa.table({"id": range(40), "n": range(40), "op": ["-D" if n == 9 else "+I" for n in range(40)]})
    )
    for file in done.files:
        schema = content(order, file).schema
        assert (
            (KIND_COLUMN in schema.names) == (tombstones_of(file) > 0) == (9 in content(order, file)["id"].to_pylist())
        )
        assert [schema.field(name).nullable for name in ("id", "n")] == [False, tombstones_of(file) > 0]
        assert KIND_COLUMN not in (file.stats or "")


def test_a_put_after_a_delete_is_no_tombstone(tmp_path: Path) -> None:
    order = order_for(tmp_path, "id BIGINT, n BIGINT", ["id"], row_kind="op")
    done = upsert(order, pa.table({"id": [1, 1, 2, 2], "n": [1, 2, 3, 4], "op": ["-U", "+U", "+I", "-D"]}))
    assert contents(order, done) == [{"id": 1, "n": 2, KIND_COLUMN: None}, {"id": 2, "n": 4, KIND_COLUMN: 3}]
    only = upsert(order, pa.table({"id": [1, 1], "n": [1, 2], "op": ["-U", "+U"]}))
    assert contents(order, only) == [{"id": 1, "n": 2}]


@pytest.mark.parametrize("op", [["+I", "X", None, "Y"], [0, 4, None, -1]])
def test_unknown_kinds_are_refused_with_count_and_example(tmp_path: Path, op: list[Any]) -> None:
    order = order_for(tmp_path, "id BIGINT", ["id"], row_kind="op")
    with pytest.raises(
        DataError, match=rf"3 rows with no row kind that is known in column 'op', like row 1: op={op[1]!r}, id=2"
    ):
        upsert(order, pa.table({"id": [1, 2, 3, 4], "op": op}))
    assert not files_below(tmp_path)


def test_kinds_of_a_wrong_type_or_missing(tmp_path: Path) -> None:
    order = order_for(tmp_path, "id BIGINT", ["id"], row_kind="op")
    with pytest.raises(DataError, match="expected text or whole numbers, found double"):
        upsert(order, pa.table({"id": [1], "op": [1.0]}))
    with pytest.raises(InputError, match=r"no column 'op' for row kinds"):
        upsert(order, pa.table({"id": [1]}))


def test_configured_kinds(tmp_path: Path) -> None:
    order = order_for(tmp_path, "id BIGINT, op STRING", ["id"], row_kind="op", row_kinds={"c": "insert", "d": "-D"})
    done = upsert(order, pa.table({"id": [1, 2, 3], "op": ["C", "d", "delete"]}))
    # A column of the table that has the kinds is stored like any other.
    assert contents(order, done) == [
        {"id": 1, "op": "C", KIND_COLUMN: None},
        {"id": 2, "op": "d", KIND_COLUMN: 3},
        {"id": 3, "op": "delete", KIND_COLUMN: 3},
    ]
    with pytest.raises(InputError, match="no such meaning"):
        upsert(
            order_for(tmp_path, "id BIGINT", ["id"], row_kind="op", row_kinds={"c": "x"}),
            pa.table({"id": [1], "op": ["c"]}),
        )


def test_first_row_refuses_deletes_unless_they_are_ignored(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3], "op": ["+I", "-D", "-U"]})
    order = order_for(tmp_path, "id BIGINT", ["id"], engine="first-row", row_kind="op")
    with pytest.raises(DataError, match=r"'first-row' cannot take back 2 rows.*\n.*-D of {'id': 2}"):
        upsert(order, rows)
    ignoring = {"lakebed.ignore-delete": "true"}
    for engine in ("first-row", "deduplicate"):
        order = order_for(tmp_path, "id BIGINT", ["id"], engine=engine, row_kind="op", properties=ignoring)
        done = upsert(order, rows)
        assert (contents(order, done), done.rows, done.deletes) == ([{"id": 1}], 1, 0)


def test_deletes_that_cannot_be_merged_are_refused_at_once(tmp_path: Path) -> None:
    order = order_for(tmp_path, "id BIGINT, n BIGINT", ["id"], engine="partial-update", row_kind="op")
    with pytest.raises(DataError, match="'partial-update' cannot take back 1 row"):
        upsert(order, pa.table({"id": [1, 2], "n": [1, 2], "op": ["+I", "-D"]}))
    assert not files_below(tmp_path)
    removing = {"lakebed.remove-record-on-delete": "true"}
    order = order_for(
        tmp_path, "id BIGINT, n BIGINT", ["id"], engine="partial-update", row_kind="op", properties=removing
    )
    done = upsert(order, pa.table({"id": [1, 1], "n": [1, 2], "op": ["+I", "-D"]}))
    assert [row[KIND_COLUMN] for row in contents(order, done)] == [None, 3]


def test_nothing_comes_of_nothing(tmp_path: Path) -> None:
    order = order_for(tmp_path / "t", "id BIGINT", ["id"], row_kind="op", properties={"lakebed.ignore-delete": "true"})
    assert upsert(order, pa.table({"id": pa.array([], pa.int64()), "op": pa.array([], pa.string())})).files == []
    assert upsert(order, pa.table({"id": [1], "op": ["-D"]})).files == []
    assert not files_below(tmp_path)


def test_at_the_memory_limit_further_files_follow_in_fold_order(tmp_path: Path) -> None:
    order = order_for(tmp_path, "id BIGINT, n BIGINT", ["id"], buckets=2, options=TINY)
    incoming = [{"id": n * 7 % 50, "n": n} for n in range(1000)]
    done = upsert(order, pa.Table.from_pylist(incoming))
    assert len(done.files) > 10
    folded: dict[int, int] = {}
    for file in done.files:
        rows = content(order, file)
        ids = rows["id"].to_pylist()
        assert ids == sorted(set(ids))
        assert rows.nbytes <= TINY.writer_memory_limit // 3
        folded.update(zip(ids, rows["n"].to_pylist(), strict=True))
    assert folded == {row["id"]: row["n"] for row in incoming}


def test_a_large_batch_is_taken_in_slices(tmp_path: Path) -> None:
    order = order_for(tmp_path, "id BIGINT, n TIMESTAMP", ["id"], options=TINY)
    rows = pa.table({"id": range(2000), "n": pa.array([0] * 1999 + [1], pa.timestamp("ns", "UTC"))})
    with pytest.raises(DataError, match=r"column n: 1 value with .* \(in row 1999\)"):
        upsert(order, rows)
    assert not files_below(tmp_path)


def test_postponed_rows_wait_in_the_root(tmp_path: Path) -> None:
    order = order_for(tmp_path, "id INT, dt STRING", ["id", "dt"], partitions=("dt",), buckets="postpone")
    done = upsert(order, [{"id": n, "dt": "a"} for n in range(10)])
    assert [bucket_of(file) for file in done.files] == [-1]
    assert decode(done.files[0].path).startswith("dt=a/bucket-d0/")
    assert done.splits == []


def dynamic(root: Path, target: int, **more: Any) -> Any:
    properties = {"lakebed.dynamic-bucket.target-rows": str(target)}
    return order_for(root, "id BIGINT, n INT", ["id"], buckets="dynamic", properties=properties, **more)


def test_dynamic_buckets_split_when_they_are_full(tmp_path: Path) -> None:
    order = dynamic(tmp_path, 100)
    done = upsert(order, pa.table({"id": range(1000), "n": pa.array([0] * 1000, pa.int32())}))
    splits = {number for _, number in done.splits}
    assert -1 in splits
    assert len(done.splits) == len(splits)
    for file in done.files:
        rows = content(order, file)
        assert rows.num_rows <= 100
        assert set(leaves(spark_hash([rows["id"]]), splits).to_pylist()) == {bucket_of(file)}
        assert decode(file.path).startswith("bucket-d")
    assert sum(content(order, file).num_rows for file in done.files) == 1000


def test_dynamic_buckets_count_what_is_there_and_what_was_written(tmp_path: Path) -> None:
    ten = pa.table({"id": range(10), "n": pa.array([0] * 10, pa.int32())})
    assert upsert(dynamic(tmp_path, 100, rows_in={("{}", -1): 90}), ten).splits == []
    assert upsert(dynamic(tmp_path, 100, rows_in={("{}", -1): 91}), ten).splits == [("{}", -1)]
    known = dynamic(tmp_path, 100, splits={"{}": frozenset({-1})})
    assert {bucket_of(file) for file in upsert(known, ten).files} == {-2, -3}
    many = dynamic(tmp_path, 100, options=TINY)
    done = upsert(many, pa.table({"id": range(5000), "n": pa.array([0] * 5000, pa.int32())}))
    numbers = [bucket_of(file) or 0 for file in done.files]
    assert any(overlaps(a, b) and a != b for a in numbers for b in numbers)
    assert max(-number for number in numbers) >= 32


def test_one_key_alone_never_splits_a_bucket(tmp_path: Path) -> None:
    done = upsert(dynamic(tmp_path, 10), pa.table({"id": [1] * 1000, "n": pa.array([0] * 1000, pa.int32())}))
    assert done.splits == []


def test_dynamic_buckets_of_partitions_split_alone(tmp_path: Path) -> None:
    properties = {"lakebed.dynamic-bucket.target-rows": "10"}
    order = order_for(
        tmp_path, "id INT, dt STRING", ["id", "dt"], partitions=("dt",), buckets="dynamic", properties=properties
    )
    done = upsert(order, [{"id": n, "dt": "b" if n < 5 else "a"} for n in range(20)])
    assert {place for place, _ in done.splits} == {'{"dt":"a"}'}
    assert [bucket_of(file) for file in done.files if file.partition_values["dt"] == "b"] == [-1]


def test_nested_columns_and_maps(tmp_path: Path, sorter: str) -> None:
    ddl = "id INT, s STRUCT<a: INT, b: ARRAY<STRING>>, m MAP<STRING, INT>, l ARRAY<STRUCT<x: DOUBLE>>"
    rows = [
        {"id": 2, "s": {"a": 1, "b": ["x", None]}, "m": [("k", 1)], "l": [{"x": 1.5}]},
        {"id": 1, "s": None, "m": None, "l": []},
        {"id": 3, "s": {"a": None, "b": None}, "m": [], "l": None},
        {"id": 2, "s": {"a": 2, "b": []}, "m": [("k", None), ("j", 2)], "l": [None]},
    ]
    order = order_for(tmp_path, ddl, ["id"], row_kind="op")
    assert contents(order, upsert(order, [row | {"op": "+I"} for row in rows])) == [rows[1], rows[3], rows[2]]
    without_maps = order_for(tmp_path, ddl.replace(" m MAP<STRING, INT>,", ""), ["id"])
    plain = [{name: value for name, value in row.items() if name != "m"} for row in rows]
    assert contents(without_maps, upsert(without_maps, plain)) == [plain[1], plain[3], plain[2]]


def test_physical_names_in_files(tmp_path: Path) -> None:
    schema, _ = enable_mapping(from_ddl("id INT NOT NULL, `the name` STRUCT<`a b`: INT>, seq INT"))
    order = order_for(tmp_path, schema, ["id"], sequence=("seq",), buckets=2, row_kind="op")
    done = upsert(
        order, [{"id": n, "the name": {"a b": n}, "seq": 1, "op": "-D" if n == 3 else "+I"} for n in range(9)]
    )
    names = [field.physical_name for field in schema]
    for file in done.files:
        stored = content(order, file)
        assert stored.schema.names[:3] == names
        assert stored.schema.field(0).metadata[b"PARQUET:field_id"] == b"1"
        assert set(json.loads(file.stats or "")["minValues"]) <= set(names)


def test_ten_thousand_columns(tmp_path: Path) -> None:
    names = [f"c{n}" for n in range(10_000)]
    schema = from_ddl("id INT, " + ", ".join(f"{name} INT" for name in names))
    order = order_for(tmp_path, schema, ["id"], buckets=2)
    one = pa.array([1, 2, 3, 4], pa.int32())
    done = upsert(order, pa.table([pa.array([4, 3, 2, 1], pa.int32()), *([one] * 10_000)], names=["id", *names]))
    assert sum(json.loads(file.stats or "")["numRecords"] for file in done.files) == 4


def test_statistics_are_those_of_other_tables(tmp_path: Path) -> None:
    order = order_for(
        tmp_path, "id INT, x DOUBLE, s STRUCT<y: DOUBLE, z: INT>, l ARRAY<INT>", ["id"],
        row_kind="op", properties={"delta.dataSkippingNumIndexedCols": "-1"},
    )  # fmt: skip
    rows = [
        {"id": 2, "x": float("nan"), "s": {"y": 1.0, "z": 1}, "l": None, "op": "+I"},
        {"id": 1, "x": 1.0, "s": {"y": float("nan"), "z": 2}, "l": [1], "op": "-D"},
    ]
    stats = json.loads(upsert(order, rows).files[0].stats or "")
    assert stats["minValues"] == {"id": 1, "s": {"z": 1}}
    assert stats["maxValues"] == {"id": 2, "s": {"z": 2}}
    assert stats["nullCount"] == {"id": 0, "x": 0, "s": {"y": 0, "z": 0}, "l": 1}


def test_row_groups_are_bounded(tmp_path: Path) -> None:
    order = order_for(tmp_path, "id INT", ["id"], options=Options(sync=False, max_row_group_rows=100))
    file = upsert(order, pa.table({"id": pa.array(range(1000), pa.int32())})).files[0]
    assert pq.ParquetFile(order.store.path(file.path)).metadata.num_row_groups == 10


@pytest.mark.parametrize("step", [Step.WRITE_OPENED, Step.WRITE_CLOSED])
def test_a_failure_at_any_step_leaves_nothing(tmp_path: Path, step: Step) -> None:
    order = order_for(tmp_path / "t", "id INT, n INT", ["id"], buckets=4)
    reached: list[Step] = []

    def fail(at: Step) -> None:
        reached.append(at)
        if at is step and reached.count(step) >= 3:
            raise KeyboardInterrupt

    stop = observe(fail)
    try:
        with pytest.raises(KeyboardInterrupt):
            upsert(order, [{"id": n, "n": n} for n in range(100)])
    finally:
        stop()
    assert reached[0] is Step.WRITE_OPENED
    assert set(reached) == {Step.WRITE_OPENED, Step.WRITE_CLOSED}
    assert not files_below(tmp_path)


def test_the_order_can_be_sent_to_another_process(tmp_path: Path) -> None:
    order = pickle.loads(pickle.dumps(order_for(tmp_path, "id INT", ["id"], splits={"": frozenset({-1})})))
    with KeyedWriter(order) as writer:
        for batch in pa.table({"id": pa.array([2, 1], pa.int32())}).to_batches():
            writer.write(batch)
        done = writer.close()
    assert contents(order, done) == [{"id": 1}, {"id": 2}]


def test_polars_frames_and_strings_of_other_layouts(tmp_path: Path) -> None:
    order = order_for(tmp_path, "k STRING, n BIGINT", ["k"], buckets=2)
    done = upsert(order, pl.DataFrame({"k": ["ü", "", "ü"], "n": [1, 2, 3]}))
    assert {row["k"]: row["n"] for row in contents(order, done)} == {"ü": 3, "": 2}
