"""Rows against a schema: what is converted, what is refused, and what the message says."""

import datetime as dt
import io
from decimal import Decimal as D
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core import recast
from lakebed.core.conform import adapt, check_schema, conform, widen_array
from lakebed.core.errors import CorruptFileError, DataError
from lakebed.core.schema import LONG, MAPPING_ID, MAPPING_NAME, STRING, Array, Field, Map, Struct, Type
from lakebed.core.schema_arrow import to_arrow
from lakebed.core.schema_ddl import from_ddl


def one(values: pa.Array, ddl: str) -> pa.Array:
    """A column `c` of a table with that type, written the values."""
    schema = from_ddl(f"c {ddl}")
    done = conform(pa.table({"c": values}), schema, table_name="t")
    done.validate(full=True)
    assert done.schema == to_arrow(schema)
    return done["c"].combine_chunks()


def refused(values: pa.Array, ddl: str) -> str:
    with pytest.raises(DataError) as caught:
        one(values, ddl)
    assert len(caught.value.problems) == 1
    return caught.value.problems[0]


UTC = dt.UTC
NOON = dt.datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("values", "ddl", "expected"),
    [
        (pa.array([1, None], pa.int8()), "BIGINT", [1, None]),
        (pa.array([255], pa.uint8()), "SMALLINT", [255]),
        (pa.array([2**32 - 1], pa.uint32()), "BIGINT", [2**32 - 1]),
        (pa.array([2**31 - 1], pa.int32()), "DOUBLE", [2147483647.0]),
        (pa.array([2**32 - 1], pa.uint32()), "DOUBLE", [4294967295.0]),
        (
            pa.array([1.5, float("nan")], pa.float32()),
            "DOUBLE",
            [1.5, pytest.approx(float("nan"), nan_ok=True)],
        ),
        (pa.array([1.5], pa.float16()), "FLOAT", [1.5]),
        (pa.array([1.5], pa.float16()), "DOUBLE", [1.5]),
        (pa.array(["a", None], pa.large_string()), "STRING", ["a", None]),
        (pa.array(["a", None], pa.string_view()), "STRING", ["a", None]),
        (pa.array([b"ab", None], pa.binary(2)), "BINARY", [b"ab", None]),
        (pa.array([b"ab"], pa.binary_view()), "BINARY", [b"ab"]),
        (pa.array(["a", None, "a"]).dictionary_encode(), "STRING", ["a", None, "a"]),
        (pa.array([1, None], pa.int8()).dictionary_encode(), "BIGINT", [1, None]),
        (pc.run_end_encode(pa.array(["a", "a", "b"])), "STRING", ["a", "a", "b"]),
        (pa.array([b"0" * 16], pa.uuid()), "BINARY", [b"0" * 16]),
        (pa.array([NOON], pa.timestamp("s", "Europe/Berlin")), "TIMESTAMP", [NOON]),
        (pa.array([NOON], pa.timestamp("ns", "UTC")), "TIMESTAMP", [NOON]),
        (
            pa.array([NOON.replace(tzinfo=None)], pa.timestamp("ms")),
            "TIMESTAMP_NTZ",
            [NOON.replace(tzinfo=None)],
        ),
        (pa.array([dt.date(2026, 1, 2)], pa.date64()), "DATE", [dt.date(2026, 1, 2)]),
        (pa.array([dt.date(2026, 1, 2)]), "TIMESTAMP_NTZ", [dt.datetime(2026, 1, 2)]),
        (pa.array([dt.date(2026, 1, 2)], pa.date64()), "TIMESTAMP_NTZ", [dt.datetime(2026, 1, 2)]),
        (pa.array([99, -99], pa.int64()), "DECIMAL(4,2)", [D("99.00"), D("-99.00")]),
        (pa.array([2**63 - 1], pa.int64()), "DECIMAL(38,19)", [D(2**63 - 1)]),
        (pa.array([2**64 - 1], pa.uint64()), "DECIMAL(20,0)", [D(2**64 - 1)]),
        (pa.array([D("1.50")], pa.decimal128(38, 2)), "DECIMAL(2,1)", [D("1.5")]),
        (pa.array([D("1.5")], pa.decimal128(2, 1)), "DECIMAL(38,37)", [D("1.5")]),
        (pa.array([D("1.50")], pa.decimal64(10, 2)), "DECIMAL(10,2)", [D("1.50")]),
        (pa.array([D("1.50")], pa.decimal256(38, 2)), "DECIMAL(38,2)", [D("1.50")]),
        (pa.nulls(2), "STRUCT<a: INT NOT NULL>", [None, None]),
        (pa.array([[1], [], None], pa.large_list(pa.int8())), "ARRAY<BIGINT>", [[1], [], None]),
        (pa.array([[1], [], None], pa.list_view(pa.int8())), "ARRAY<BIGINT>", [[1], [], None]),
        (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), "ARRAY<BIGINT>", [[1, 2], None]),
        (pa.array([[], None], pa.list_(pa.null())), "ARRAY<STRING>", [[], None]),
        (pa.array([[None]], pa.list_(pa.null())), "ARRAY<STRING>", [[None]]),
        (
            pa.array([[("a", 1)], None], pa.map_(pa.large_string(), pa.int8())),
            "MAP<STRING, BIGINT>",
            [[("a", 1)], None],
        ),
        (pa.array([[{"key": "a", "value": 1}], None]), "MAP<STRING, BIGINT>", [[("a", 1)], None]),
        (
            pa.array([{"B": 1, "a": "x"}, None]),
            "STRUCT<a: STRING, b: BIGINT, c: DATE>",
            [{"a": "x", "b": 1, "c": None}, None],
        ),
    ],
)
def test_lossless_conversions(values: pa.Array, ddl: str, expected: list[Any]) -> None:
    assert one(values, ddl).to_pylist() == expected
    # The same from the middle of a longer array, in two chunks, and from no rows at all.
    if not isinstance(values.type, pa.RunEndEncodedType):
        longer = pa.concat_arrays([values] * 3).slice(len(values), len(values))
        assert one(longer, ddl).to_pylist() == expected
    assert one(values.slice(0, 0), ddl).to_pylist() == []
    table = conform(pa.table({"c": pa.chunked_array([values, values])}), from_ddl(f"c {ddl}"), table_name="t")
    assert table["c"].to_pylist() == expected * 2


@pytest.mark.parametrize(
    ("values", "ddl", "message"),
    [
        (pa.array([1], pa.int64()), "INT", "column c: expected INT, found int64 .*widen"),
        (pa.array([1], pa.uint64()), "BIGINT", "found uint64"),
        (pa.array([1], pa.int64()), "DOUBLE", "expected DOUBLE, found int64"),
        (pa.array([1.0]), "FLOAT", "digits would be lost"),
        (pa.array([1.0]), "DECIMAL(5,2)", "floats are not exact"),
        (pa.array(["1"]), "BIGINT", "expected BIGINT, found string"),
        (pa.array(["1"]), "BINARY", "found string"),
        (pa.array([True]), "INT", "found bool"),
        (pa.array([NOON.replace(tzinfo=None)]), "TIMESTAMP", "assume_timezone"),
        (pa.array([NOON]), "TIMESTAMP_NTZ", "local_timestamp"),
        (pa.array([dt.date(2026, 1, 1)]), "TIMESTAMP", "found date32"),
        (pa.array([dt.time(1)]), "STRING", "found time64"),
        (pa.array([D("1." + "0" * 40)], pa.decimal256(41, 40)), "DECIMAL(38,0)", "found decimal256"),
        (pa.array([[1]]), "STRUCT<a: INT>", "expected STRUCT<a: INT>, found list"),
        (pa.array([1]), "ARRAY<BIGINT>", "expected ARRAY<BIGINT>"),
        (pa.array([[{"key": 1, "val": 1}]]), "MAP<BIGINT, BIGINT>", "expected MAP"),
        (pa.array([[["x"]]]), "ARRAY<ARRAY<INT>>", r"column c\.element\.element: expected INT"),
        (
            pa.array([{"a": {"b": 1.0}}]),
            "STRUCT<a: STRUCT<b: INT>>",
            r"column c\.a\.b: expected INT, found double",
        ),
        (pa.array([{"a": 1, "x": 1}]), "STRUCT<a: BIGINT>", r"column c\.x: not in the table"),
        (pa.array([{"a": 1}]), "STRUCT<a: BIGINT, b: INT NOT NULL>", r"column c\.b: INT NOT NULL is missing"),
    ],
)
def test_types_that_do_not_fit(values: pa.Array, ddl: str, message: str) -> None:
    found = refused(values, ddl)
    assert pc.match_substring_regex(pa.array([found]), message)[0].as_py(), found
    assert list(check_schema(pa.schema([("c", values.type)]), from_ddl(f"c {ddl}"))) == [found]


@pytest.mark.parametrize(
    ("values", "ddl", "message"),
    [
        (
            pa.array([0, 1001, 5, None], pa.timestamp("ns")),
            "TIMESTAMP_NTZ",
            "column c: 2 values with nanosec",
        ),
        (
            pa.array([0, 2**62], pa.timestamp("s", "UTC")),
            "TIMESTAMP",
            "1 value with a year out of range (in row 1)",
        ),
        (
            pa.array([0, 1], pa.int64()).cast(pa.timestamp("ms")).view(pa.date64()),
            "DATE",
            "1 value with a time of",
        ),
        (
            pa.array([1, 2**31 - 1], pa.int32()).view(pa.date32()),
            "TIMESTAMP_NTZ",
            "1 value with a time of day, or a",
        ),
        (
            pa.array([100, 99, -100, None]),
            "DECIMAL(4,2)",
            "2 values with more than 2 digits before the point (first in",
        ),
        (pa.array([10, 9], pa.uint64()), "DECIMAL(1,0)", "1 value with more than 1 digits"),
        (
            pa.array([D("1.25"), D("1.50"), None]),
            "DECIMAL(5,1)",
            "1 value with more digits than DECIMAL(5,1) has (in row 0)",
        ),
        (
            pa.array([D("99.5"), D("-100.0")]),
            "DECIMAL(3,1)",
            "1 value with more digits than DECIMAL(3,1) has (in row 1)",
        ),
        (
            pa.array([[1], [200, 1, -300]]),
            "ARRAY<DECIMAL(2,0)>",
            "column c.element: 2 values with more than 2",
        ),
    ],
)
def test_values_that_would_change(values: pa.Array, ddl: str, message: str) -> None:
    assert message in refused(values, ddl)


def test_every_problem_is_listed_at_once() -> None:
    schema = from_ddl(
        "id BIGINT NOT NULL, amount DECIMAL(10,2), at TIMESTAMP, tags ARRAY<STRING NOT NULL>, missing INT NOT NULL"
    )
    rows = pa.table(
        {
            "id": [1, None, None],
            "amout": [1, 2, 3],
            "at": pa.array([0, 1, 2], pa.timestamp("us")),
            "tags": [["a"], ["b", None], None],
        }
    )
    with pytest.raises(DataError) as caught:
        conform(rows, schema, table_name="shop.orders")
    assert str(caught.value).startswith("table shop.orders: the rows do not fit:")
    text = "\n".join(caught.value.problems)
    assert "column amout: not in the table (did you mean 'amount'?)" in text
    assert "column at: expected TIMESTAMP, found timestamp[us]" in text
    assert "column missing: INT NOT NULL is missing" in text
    assert "column id: 2 nulls in a NOT NULL column (first in row 1)" in text
    assert "column tags.element: 1 null in a NOT NULL column (in row 1)" in text
    assert len(caught.value.problems) == 5


def test_names_case_duplicates_and_ambiguity() -> None:
    schema = from_ddl("id BIGINT, name STRING")
    assert conform(pa.table({"NAME": ["a"], "Id": [1]}), schema, table_name="t").to_pylist() == [{"id": 1, "name": "a"}]
    for names, message in [
        (["id", "id"], "column id: the name is there 2 times"),
        (["Id", "ID"], "'Id' and 'ID' differ only in case"),
        (["id", "ID"], "'id' and 'ID' differ only in case"),
        (["x", "X"], "column x: not in the table"),
    ]:
        table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=names)
        with pytest.raises(DataError) as caught:
            conform(table, schema, table_name="t")
        assert message in caught.value.problems[0], caught.value.problems


def test_required_column_with_ambiguous_name_is_one_problem() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["Id", "ID"])
    assert len(check_schema(table.schema, from_ddl("id BIGINT NOT NULL"))) == 1


def written(table: pa.Table) -> list[Any]:
    """The rows after a trip through Parquet, whose writer refuses nulls where none may be."""
    file = io.BytesIO()
    pq.write_table(table, file)
    return list(pq.read_table(file).to_pylist())


def test_a_null_struct_hides_the_nulls_below_it() -> None:
    schema = from_ddl(
        "s STRUCT<a: INT NOT NULL, i: STRUCT<x: STRING NOT NULL, l: ARRAY<INT NOT NULL> NOT NULL> NOT NULL,"
        " m: MAP<STRING, INT NOT NULL> NOT NULL, t: TIMESTAMP NOT NULL, d: DECIMAL(5,2) NOT NULL,"
        " b: BOOLEAN NOT NULL, z: BINARY NOT NULL>"
    )
    full = {
        "a": 1,
        "i": {"x": "q", "l": [1, 2]},
        "m": [("k", 1)],
        "t": NOON,
        "d": D("1.00"),
        "b": True,
        "z": b"z",
    }
    loose = pa.struct(
        [
            ("a", pa.int32()),
            ("i", pa.struct([("x", pa.string()), ("l", pa.list_(pa.int32()))])),
            ("m", pa.map_(pa.string(), pa.int32())),
            ("t", pa.timestamp("us", "UTC")),
            ("d", pa.decimal128(5, 2)),
            ("b", pa.bool_()),
            ("z", pa.binary()),
        ]
    )
    children = [pa.array([full[f.name], None, full[f.name]], f.type) for f in loose]
    array = pa.StructArray.from_arrays(children, fields=list(loose), mask=pa.array([False, True, False]))
    expected = [{"s": full}, {"s": None}, {"s": full}]
    done = conform(pa.table({"s": array}), schema, table_name="t")
    assert done.to_pylist() == expected == written(done)
    # Also when the types are those of the table already, and the nulls are only hidden.
    strict = pa.StructArray.from_arrays(
        [c if i else pa.array([1, None, 1], pa.int32()) for i, c in enumerate(done["s"].chunk(0).flatten())],
        fields=list(to_arrow(schema).field("s").type),
        mask=pa.array([False, True, False]),
    )
    assert written(conform(pa.table({"s": strict}), schema, table_name="t")) == expected
    # And from the middle of an array.
    done = conform(pa.table({"s": array.slice(1, 1)}), schema, table_name="t")
    assert done.to_pylist() == [{"s": None}] == written(done)


def test_nulls_below_are_found_with_their_rows() -> None:
    schema = from_ddl("s STRUCT<a: ARRAY<STRUCT<b: INT NOT NULL> NOT NULL>>, m MAP<STRING, INT NOT NULL>")
    inner = pa.list_(pa.struct([("b", pa.int32())]))
    s = pa.array(
        [{"a": [{"b": 9}]}, None, {"a": None}, {"a": [{"b": 1}, None]}, {"a": [{"b": None}]}],
        pa.struct([("a", inner)]),
    )
    m = pa.array([[("k", None)], [("k", 1)], None, [], [("x", None)]], pa.map_(pa.string(), pa.int32()))
    rows = pa.table({"s": pa.chunked_array([s.slice(0, 2), s.slice(2)]), "m": m}).slice(1)
    with pytest.raises(DataError) as caught:
        conform(rows, schema, table_name="t")
    assert caught.value.problems == (
        "column s.a.element: 1 null in a NOT NULL column (in row 2)",
        "column s.a.element.b: 1 null in a NOT NULL column (in row 3)",
        "column m.value: 1 null in a NOT NULL column (in row 3)",
    )


def test_values_hidden_by_null_lists_and_slices_are_not_looked_at() -> None:
    offsets, values = pa.array([0, 1, 3, 4], pa.int32()), pa.array([1, None, 999, 2], pa.int64())
    lists = pa.ListArray.from_arrays(offsets, values, mask=pa.array([False, True, False]))
    assert one(lists, "ARRAY<DECIMAL(2,0) NOT NULL>").to_pylist() == [[1], None, [2]]
    visible = pa.ListArray.from_arrays(offsets, values)
    assert one(visible.slice(2), "ARRAY<DECIMAL(2,0) NOT NULL>").to_pylist() == [[2]]


def test_null_map_keys_are_found() -> None:
    rows = pa.array([[{"key": "a", "value": 1}], [{"key": None, "value": 2}, None]])
    assert "column c.key: 2 nulls in a NOT NULL column" in refused(rows, "MAP<STRING, BIGINT>")


def test_nulls_are_found_behind_encodings() -> None:
    dictionary = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(["a", None]))
    assert "2 nulls in a NOT NULL column (first in row 1)" in refused(dictionary, "STRING NOT NULL")
    runs = pc.run_end_encode(pa.array([1, None, None]))
    assert "2 nulls" in refused(runs, "BIGINT NOT NULL")
    struct = pa.StructArray.from_arrays([dictionary], ["a"], mask=pa.array([False, True, False]))
    assert "column c.a: 1 null in a NOT NULL column (in row 2)" in refused(struct, "STRUCT<a: STRING NOT NULL>")


def test_missing_and_null_typed_columns_become_nulls() -> None:
    schema = from_ddl("id BIGINT NOT NULL, s STRUCT<a: INT NOT NULL>, l ARRAY<INT NOT NULL>, n STRING")
    done = conform(pa.table({"id": [1, 2], "n": pa.nulls(2)}), schema, table_name="t")
    assert done.schema == to_arrow(schema)
    assert done.to_pylist()[0] == {"id": 1, "s": None, "l": None, "n": None}
    with pytest.raises(DataError, match="2 nulls in a NOT NULL column"):
        conform(pa.table({"id": pa.nulls(2)}), schema, table_name="t")


def test_the_fast_path_copies_nothing() -> None:
    schema = from_ddl("id BIGINT NOT NULL, s STRUCT<a: INT NOT NULL>, l ARRAY<STRING>, n STRING")
    rows = conform(
        pa.table({"id": [1], "s": pa.array([{"a": 1}], pa.struct([("a", pa.int32())])), "l": [["x"]], "n": ["y"]}),
        schema,
        table_name="t",
    )
    assert conform(rows, schema, table_name="t") is rows
    commented = Struct((schema.fields[0].with_metadata(comment="the key"), *schema.fields[1:]))
    again = conform(rows, commented, table_name="t")
    assert again.schema.equals(to_arrow(commented), check_metadata=True)
    addresses = [[b.address for b in c.chunk(0).buffers() if b] for c in rows.columns]
    assert [[b.address for b in c.chunk(0).buffers() if b] for c in again.columns] == addresses


def test_batches_stay_batches() -> None:
    batch = pa.record_batch({"id": pa.array([1], pa.int8())})
    done = conform(batch, from_ddl("id BIGINT"), table_name="t")
    assert isinstance(done, pa.RecordBatch)
    assert done.to_pylist() == [{"id": 1}]


def test_ten_thousand_columns() -> None:
    width = 10_000
    schema = Struct(tuple(Field(f"c{i}", LONG, i % 2 == 0) for i in range(width)))
    rows = pa.table({f"C{width - 1 - i}": pa.array([i], pa.int32()) for i in range(width)})
    done = conform(rows, schema, table_name="t")
    assert conform(done, schema, table_name="t") is done
    adapt(done, schema)
    assert len(check_schema(pa.schema([("x", pa.int8())]), schema)) == width // 2 + 1


def test_polars_frames_fit() -> None:
    frame = pl.DataFrame({"id": [1], "s": [{"a": "x", "l": ["y"]}], "c": ["k"]}).with_columns(
        pl.col("c").cast(pl.Categorical)
    )
    schema = from_ddl("id BIGINT, s STRUCT<a: STRING, l: ARRAY<STRING>>, c STRING")
    done = conform(frame.to_arrow(), schema, table_name="t")
    assert done.to_pylist() == [{"id": 1, "s": {"a": "x", "l": ["y"]}, "c": "k"}]


def test_chunks_too_long_for_offsets_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recast, "OFFSET_LIMIT", 100)
    text = [str(i) * 20 for i in range(9)]
    schema = from_ddl("a STRING, l ARRAY<STRING>, d STRING, f BINARY")
    rows = pa.table(
        {
            "a": pa.array(text, pa.large_string()),
            "l": pa.array([[t] for t in text], pa.large_list(pa.large_string())),
            "d": pa.array(text).dictionary_encode(),
            "f": pa.array([t.encode() for t in text], pa.binary(20)),
        }
    )
    for done in (conform(rows, schema, table_name="t"), adapt(rows, schema)):
        done.validate(full=True)
        assert all(column.num_chunks > 1 for column in done.columns)
        assert done["l"].to_pylist() == [[t] for t in text]
        assert done["a"].to_pylist() == done["d"].to_pylist() == text
    with pytest.raises(DataError, match="more than 2 GiB"):
        conform(rows.combine_chunks().to_batches()[0], schema, table_name="t")
    with pytest.raises(DataError, match="row 0 alone"):
        conform(pa.table({"a": pa.array(["x" * 101], pa.large_string())}), from_ddl("a STRING"), table_name="t")


def test_a_problem_in_a_split_chunk_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recast, "OFFSET_LIMIT", 100)
    rows = pa.table({"a": pa.array(["x" * 20] * 9 + [None] * 3, pa.large_string())})
    with pytest.raises(DataError, match=r"3 nulls in a NOT NULL column.*first in row 9"):
        conform(rows, from_ddl("a STRING NOT NULL"), table_name="t")


# --- adapt ---


def mapped(name: str, physical: str, kind: Any, number: int = 1) -> Field:
    return Field(name, kind, True, {MAPPING_ID: number, MAPPING_NAME: physical})


def test_adapt_follows_physical_names_at_every_level() -> None:
    inner = Struct((mapped("street", "p1", STRING), mapped("new", "p9", LONG)))
    schema = Struct((mapped("address", "p0", inner), mapped("added", "p8", LONG)))
    old = pa.table({"p0": [{"p1": "Main", "dropped": 1}, None], "dropped": [1, 2], "address": ["no", "no"]})
    assert adapt(old, schema).to_pylist() == [
        {"address": {"street": "Main", "new": None}, "added": None},
        {"address": None, "added": None},
    ]
    assert adapt(old, schema).schema == to_arrow(schema)


def test_adapt_is_not_fooled_by_names_that_changed_places() -> None:
    swapped = Struct((mapped("a", "b", LONG), mapped("b", "a", LONG)))
    schema = Struct((*swapped.fields, Field("s", swapped)))
    old = pa.table({"a": [1], "b": [2], "s": [{"a": 1, "b": 2}]})
    assert adapt(old, schema).to_pylist() == [{"a": 2, "b": 1, "s": {"a": 2, "b": 1}}]


def test_adapt_widens_inside_lists_and_maps() -> None:
    schema = from_ddl(
        "l ARRAY<STRUCT<x: BIGINT, y: STRING>>, m MAP<BIGINT, DECIMAL(12,2)>, d TIMESTAMP_NTZ, f DOUBLE, e DECIMAL(9,3)"
    )
    old = pa.table(
        {
            "l": pa.array([[{"x": 1}], None, []], pa.list_(pa.struct([("x", pa.int8())]))),
            "m": pa.array([[(1, 7)], None, []], pa.map_(pa.int16(), pa.int32())),
            "d": pa.array([dt.date(2026, 1, 1), None, None]),
            "f": pa.array([1, 2, None], pa.int32()),
            "e": pa.array([D("1.5"), None, None], pa.decimal128(6, 1)),
        }
    )
    for rows in (old, pa.concat_tables([old, old]).slice(1, 3)):
        done = adapt(rows, schema)
        done.validate(full=True)
        assert done.schema == to_arrow(schema)
    assert adapt(old, schema).to_pylist()[0] == {
        "l": [{"x": 1, "y": None}],
        "m": [(1, D("7.00"))],
        "d": dt.datetime(2026, 1, 1),
        "f": 1.0,
        "e": D("1.500"),
    }


def test_adapt_reads_what_other_writers_store() -> None:
    schema = from_ddl("t TIMESTAMP, b TINYINT, s STRING, l ARRAY<STRING>")
    old = pa.table(
        {
            "t": pa.array([1_000_001], pa.timestamp("ns")),
            "b": pa.array([7], pa.int32()),
            "s": pa.array(["x"], pa.large_string()),
            "l": pa.array([["x"]], pa.large_list(pa.large_string())),
        }
    )
    done = adapt(old, schema)
    assert done["t"][0].value == 1000
    assert done.select(["b", "s", "l"]).to_pylist() == [{"b": 7, "s": "x", "l": ["x"]}]
    with pytest.raises(CorruptFileError, match="column b"):
        adapt(pa.table({"b": pa.array([700], pa.int32())}), schema)
    with pytest.raises(CorruptFileError, match=r"column l: .*expected ARRAY<STRING>; found string"):
        adapt(pa.table({"l": ["x"]}), schema)


def test_adapt_copies_nothing_when_nothing_changed() -> None:
    schema = Struct((mapped("id", "p", LONG), Field("l", from_ddl("a ARRAY<STRING>")["a"].type)))
    old = pa.table({"p": [1, 2], "l": [["a"], None]})
    done = adapt(old, schema)
    assert done.column_names == ["id", "l"]
    assert done["id"].chunk(0).buffers()[1].address == old["p"].chunk(0).buffers()[1].address
    batch = adapt(old.to_batches()[0], schema)
    assert isinstance(batch, pa.RecordBatch)


def test_adapt_of_a_missing_required_column_does_not_invent_values() -> None:
    schema = from_ddl("s STRUCT<a: INT NOT NULL, b: INT>, k INT NOT NULL")
    old = pa.table({"s": pa.array([{"b": 1}, None], pa.struct([("b", pa.int32())]))})
    assert adapt(old, schema).to_pylist() == [{"s": {"a": None, "b": 1}, "k": None}, {"s": None, "k": None}]


def test_widen_array() -> None:
    chunked = pa.chunked_array([pa.array([1], pa.int8()), pa.array([None], pa.int8())])
    assert widen_array(chunked, pa.int64()).to_pylist() == [1, None]
    assert widen_array(pa.array([[1]], pa.list_(pa.int8())), pa.list_(pa.int64())).to_pylist() == [[1]]
    with pytest.raises(CorruptFileError):
        widen_array(pa.array(["x"]), pa.int64())


def test_a_round_trip_through_a_data_file() -> None:
    schema = Struct(
        (
            mapped("id", "col-1", LONG, 1),
            mapped("s", "col-2", Struct((mapped("x", "col-3", STRING, 3),)), 2),
        )
    )
    rows = conform(pa.table({"id": [1], "s": [{"x": "a"}]}), schema, table_name="t")
    file = io.BytesIO()
    physical = to_arrow(schema, physical=True)
    names = pa.Table.from_arrays(
        [
            rows["id"],
            pa.chunked_array([pa.StructArray.from_arrays([rows["s"].chunk(0).field(0)], ["col-3"])]),
        ],
        schema=physical,
    )
    pq.write_table(names, file)
    read = pq.read_table(file)
    assert read.schema.field("col-1").metadata[b"PARQUET:field_id"] == b"1"
    assert adapt(read, schema).equals(rows)


# --- against a model: rows as plain Python values ---

LEAF_VALUES: dict[str, st.SearchStrategy[Any]] = {"INT": st.integers(-5, 5), "STRING": st.text("ab", max_size=2)}


@st.composite
def kinds(draw: st.DrawFn, depth: int = 3) -> str:
    """A type in SQL, with NOT NULL here and there."""
    required = st.sampled_from(["", " NOT NULL"])
    shape = draw(st.sampled_from(["INT", "STRING", "ARRAY", "MAP", "STRUCT"] if depth else ["INT", "STRING"]))
    if shape == "ARRAY":
        return f"ARRAY<{draw(kinds(depth - 1))}{draw(required)}>"
    if shape == "MAP":
        return f"MAP<STRING, {draw(kinds(depth - 1))}{draw(required)}>"
    if shape == "STRUCT":
        names = ["x", "y"][: draw(st.integers(1, 2))]
        return f"STRUCT<{', '.join(f'{n}: {draw(kinds(depth - 1))}{draw(required)}' for n in names)}>"
    return shape


def values_of(kind: Type) -> st.SearchStrategy[Any]:
    """Values of the type, with nulls anywhere, required or not."""
    if isinstance(kind, Struct):
        some: st.SearchStrategy[Any] = st.fixed_dictionaries({f.name: values_of(f.type) for f in kind})
    elif isinstance(kind, Array):
        some = st.lists(values_of(kind.element), max_size=2)
    elif isinstance(kind, Map):
        some = st.dictionaries(LEAF_VALUES["STRING"], values_of(kind.value), max_size=2).map(
            lambda entries: list(entries.items())
        )
    else:
        some = LEAF_VALUES["STRING" if kind == STRING else "INT"]
    return st.one_of(st.none(), some, some, some)


def forbidden_nulls(value: Any, kind: Type, nullable: bool) -> int:
    if value is None:
        return 0 if nullable else 1
    if isinstance(kind, Struct):
        return sum(forbidden_nulls(value[f.name], f.type, f.nullable) for f in kind)
    if isinstance(kind, Array):
        return sum(forbidden_nulls(v, kind.element, kind.contains_null) for v in value)
    if isinstance(kind, Map):
        return sum(forbidden_nulls(v, kind.value, kind.value_contains_null) for _, v in value)
    return 0


def loose(kind: Type) -> pa.DataType:
    """An Arrow type for the same values that allows nulls everywhere and has other layouts."""
    if isinstance(kind, Struct):
        return pa.struct([(f.name, loose(f.type)) for f in reversed(kind.fields)])
    if isinstance(kind, Array):
        return pa.large_list(loose(kind.element))
    if isinstance(kind, Map):
        return pa.map_(pa.string(), loose(kind.value))
    return pa.large_string() if kind == STRING else pa.int16()


@given(st.data())
def test_the_same_nulls_are_found_as_in_plain_python(data: st.DataObject) -> None:
    schema = from_ddl(f"c {data.draw(kinds())}{data.draw(st.sampled_from(['', ' NOT NULL']))}")
    column = schema["c"]
    values = data.draw(st.lists(values_of(column.type), max_size=5))
    kind = data.draw(st.sampled_from([loose(column.type), to_arrow(schema).field("c").type]))
    cut = data.draw(st.integers(0, len(values)))
    rows = pa.table({"c": pa.array(values, kind)}).slice(cut)
    visible = values[cut:]
    nulls = sum(forbidden_nulls(v, column.type, column.nullable) for v in visible)
    if nulls:
        with pytest.raises(DataError) as caught:
            conform(rows, schema, table_name="t")
        assert sum(int(p.split(": ")[1].split()[0]) for p in caught.value.problems) == nulls
        return
    done = conform(rows, schema, table_name="t")
    done.validate(full=True)
    assert done.schema.equals(to_arrow(schema))
    assert done["c"].to_pylist() == visible
    assert written(done) == [{"c": v} for v in visible]
    assert adapt(rows, schema).equals(done)
