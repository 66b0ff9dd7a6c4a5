"""Files that two encoders have written: every reader finds the rows, and the footer says what is there."""

from __future__ import annotations

import hashlib
import io
import random
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.options import Options
from lakebed.core.schema_arrow import FIELD_ID
from lakebed.storage import parquet_encoder, thrift
from lakebed.storage.durable import is_temporary
from lakebed.storage.parquet_splice import column_bytes, group_rows, splice

DAY, MOMENT = date(1969, 12, 1), datetime(1969, 12, 31, 23, 59, tzinfo=UTC)
ASCENDING: dict[str, tuple[pa.DataType, Any]] = {
    "long": (pa.int64(), lambda n: n * 7 - 2**40),
    "int": (pa.int32(), lambda n: n // 3 - 5),
    "day": (pa.date32(), lambda n: DAY + timedelta(days=n)),
    "moment": (pa.timestamp("us", "UTC"), lambda n: MOMENT + timedelta(microseconds=n * n)),
    "wall": (pa.timestamp("us"), lambda n: MOMENT.replace(tzinfo=None) + timedelta(seconds=n)),
}
OTHERS: dict[str, tuple[pa.DataType, Any]] = {
    "down": (pa.int64(), lambda n: -n),
    "text": (pa.string(), lambda n: None if n % 5 == 0 else f"größer {n}"),
    "truth": (pa.bool_(), lambda n: n % 3 == 0),
    "tree": (
        pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]),
        lambda n: None if n % 7 == 0 else {"a": n, "b": [str(n)] * (n % 3)},
    ),
    "list": (pa.list_(pa.int64()), lambda n: [n, None][: n % 3]),
    "gaps": (pa.int64(), lambda n: None if n % 2 else n),
    "chance": (pa.float64(), lambda n: None if n % 11 == 0 else random.Random(n).random()),
    "digest": (pa.string(), lambda n: hashlib.sha256(str(n).encode()).hexdigest()),
}


def made(names: list[str], count: int, *, required: bool = True) -> pa.Table:
    every = ASCENDING | OTHERS
    fields = [
        pa.field(name, every[name][0], name not in ASCENDING or not required, {FIELD_ID: str(10 + at)})
        for at, name in enumerate(names)
    ]
    return pa.table([pa.array([every[f.name][1](n) for n in range(count)], f.type) for f in fields], pa.schema(fields))


@pytest.fixture(autouse=True)
def small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_encoder, "SPLICED_ROWS", 1)


def encoded(rows: pa.Table, **options: Any) -> bytes:
    target = io.BytesIO()
    parquet_encoder.encode(rows, Options(**options), "file", target)
    return target.getvalue()


@given(
    names=st.permutations([*ASCENDING, *OTHERS]).flatmap(lambda p: st.integers(1, len(p)).map(lambda n: list(p[:n]))),
    count=st.integers(1, 60),
    group=st.integers(1, 70),
    codec=st.sampled_from(["zstd", "lz4", "none"]),
)
def test_rows_are_what_they_were(names: list[str], count: int, group: int, codec: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_encoder, "SPLICED_ROWS", 1)
        rows = made(names, count)
        content = encoded(rows, max_row_group_rows=group, compression=codec)
    found = pq.read_table(io.BytesIO(content))
    assert found.schema.names == names
    assert found.equals(rows.cast(found.schema))
    frame = pl.read_parquet(io.BytesIO(content))
    assert frame.equals(pl.from_arrow(rows))
    footer = pq.read_metadata(io.BytesIO(content))
    first = footer.row_group(0)
    encodings = {first.column(i).path_in_schema: first.column(i).encodings for i in range(footer.num_columns)}
    by_differences = {name for name, used in encodings.items() if "DELTA_BINARY_PACKED" in used}
    wanted = set(names) & set(ASCENDING) | ({"down", "gaps"} & set(names) if count == 1 else set())
    assert by_differences <= wanted
    assert len(wanted - by_differences) <= (wanted == set(names))  # one of them is polars', if there is no other
    field_ids = [int(f.metadata[FIELD_ID.encode()]) for f in pq.read_schema(io.BytesIO(content))]
    assert field_ids == [10 + at for at in range(len(names))]
    assert [f.nullable for f in found.schema] == [f.nullable for f in rows.schema]


def test_the_footer_counts_all_bytes() -> None:
    content = encoded(made(["text", "long", "tree", "moment"], 5000), max_row_group_rows=1700)
    footer = pq.read_metadata(io.BytesIO(content))
    assert [footer.row_group(g).num_rows for g in range(3)] == [1700, 1700, 1600]
    for number in range(3):
        group = footer.row_group(number)
        chunks = [group.column(i) for i in range(group.num_columns)]
        assert group.total_byte_size == sum(chunk.total_uncompressed_size for chunk in chunks)
        long = chunks[1]
        assert (long.statistics.min, long.statistics.max) == (
            ASCENDING["long"][1](number * 1700),
            ASCENDING["long"][1](min(4999, number * 1700 + 1699)),
        )
        assert long.has_offset_index
        assert long.has_column_index


def test_row_groups_are_one_after_the_other() -> None:
    """Spark takes a row group for where its first column is, and half of its bytes further."""
    content = encoded(made(["long", "text", "moment", "truth"], 5000), max_row_group_rows=1700)
    footer = pq.read_metadata(io.BytesIO(content))
    at = 4
    for number in range(footer.num_row_groups):
        for column in (footer.row_group(number).column(i) for i in range(4)):
            assert min(o for o in (column.dictionary_page_offset, column.data_page_offset) if o) == at
            at += column.total_compressed_size


def test_pages_are_where_the_index_says() -> None:
    """Spark leaves pages out by the index; Arrow's reader does not look at it."""
    content = encoded(made(["text", "long"], 50_000), max_row_group_rows=30_000)
    length = int.from_bytes(content[-8:-4], "little")
    footer = thrift.decode(content[-8 - length : -8])
    seen = 0
    for group in footer[4].values:
        chunk = group[1].values[1]
        assert chunk[3][3].values == [b"long"]
        index = thrift.decode(content[chunk[4] : chunk[4] + chunk[5]])
        at, end = chunk[3][9], chunk[3][9] + chunk[3][7]
        for page in index[1].values:
            assert page[1] == at
            header = thrift.decode(content[at : at + page[2]])
            assert header[1] == 0, "a data page"
            at += page[2]
            seen += 1
        assert at == end
    assert seen == 3  # the first group has two


@pytest.mark.parametrize("kind", ASCENDING)
def test_others_read_it(tmp_path: Path, kind: str) -> None:
    rows = made(["text", kind, "truth"], 3000)
    path = tmp_path / "file.parquet"
    parquet_encoder.encode(rows, Options(max_row_group_rows=1000), "file", str(path))
    found = duckdb.sql(f"SELECT * FROM '{path}'").to_arrow_table()
    assert (
        found.select(["text", "truth"])
        .cast(rows.select(["text", "truth"]).schema)
        .equals(rows.select(["text", "truth"]))
    )
    assert pl.Series(found[kind]).to_list() == rows[kind].to_pylist()
    value = rows[kind][1234].as_py()
    least = pl.scan_parquet(path).filter(pl.col(kind) == value).select(pl.len()).collect().item()
    assert least == rows[kind].to_pylist().count(value)


def test_the_file_ends_where_its_footer_does(tmp_path: Path) -> None:
    """The old footer may be longer than what comes in its place."""
    path = tmp_path / "file.parquet"
    names = [f"a rather long name of a column {number}" for number in range(40)]
    rows = pa.table({"id": [1, 2], **{name: ["x", "y"] for name in names}})
    parquet_encoder.encode(rows, Options(), "file", str(path))
    assert path.read_bytes().endswith(b"PAR1")
    assert pq.read_table(path).equals(rows.cast(pq.read_schema(path)))
    assert group_rows(str(path)) == [2]


def test_numbers_that_descend_somewhere_are_not_stored_as_differences() -> None:
    numbers = list(range(20_000))
    shuffled = numbers[:9_000] + random.Random(1).sample(numbers[9_000:], 11_000)
    rows = pa.table({"a": numbers, "b": shuffled, "c": shuffled[::-1], "d": [None, *numbers[1:]]})
    assert parquet_encoder.ascending(rows, rows.schema) == ["a"]


def codecs(content: bytes) -> dict[str, set[str]]:
    footer = pq.read_metadata(io.BytesIO(content))
    found: dict[str, set[str]] = {}
    for column in (
        footer.row_group(g).column(i) for g in range(footer.num_row_groups) for i in range(footer.num_columns)
    ):
        found.setdefault(column.path_in_schema, set()).add(column.compression)
    return found


def test_only_columns_that_become_smaller_are_compressed() -> None:
    rows = made(["chance", "text", "truth"], 20_000)
    content = encoded(rows, max_row_group_rows=7_000, compression="lz4")
    assert codecs(content) == {"chance": {"UNCOMPRESSED"}, "text": {"LZ4"}, "truth": {"LZ4"}}
    assert pq.read_table(io.BytesIO(content)).equals(rows.cast(pq.read_schema(io.BytesIO(content))))
    found = pl.scan_parquet(io.BytesIO(content)).filter(pl.col("chance") > 0.9999).collect()
    assert found.equals(pl.from_arrow(rows).filter(pl.col("chance") > 0.9999))  # type: ignore[union-attr, arg-type]


def test_a_file_may_be_without_any_compression() -> None:
    rows = made(["chance", "digest"], 20_000)
    content = encoded(rows, compression="lz4")
    assert codecs(content) == {"chance": {"UNCOMPRESSED"}, "digest": {"UNCOMPRESSED"}}
    assert pq.read_table(io.BytesIO(content)).equals(rows.cast(pq.read_schema(io.BytesIO(content))))


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "none"])
def test_other_codecs_are_for_all_columns(codec: str) -> None:
    content = encoded(made(["chance", "text"], 20_000), compression=codec)
    assert set().union(*codecs(content).values()) == {codec.upper() if codec != "none" else "UNCOMPRESSED"}


def test_of_large_rows_the_sample_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def look(encoded: io.BytesIO) -> dict[str, tuple[int, int]]:
        seen.append(encoded.getbuffer().nbytes)
        return column_bytes(encoded)

    monkeypatch.setattr(parquet_encoder, "column_bytes", look)
    monkeypatch.setattr(parquet_encoder, "SPLICED_ROWS", 1 << 20)
    monkeypatch.setattr(parquet_encoder, "_SAMPLE_BYTES", 100_000)
    content = encoded(pa.table({"blob": [random.Random(n).randbytes(1000) for n in range(2000)]}), compression="lz4")
    assert codecs(content) == {"blob": {"UNCOMPRESSED"}}
    assert len(seen) == 1
    assert 10_000 < seen[0] < 200_000


def test_of_very_many_columns_no_sample_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_encoder, "column_bytes", None)
    rows = pa.table({f"c{number}": pa.array(range(1100), pa.int16()) for number in range(501)})
    assert set().union(*codecs(encoded(rows, compression="lz4")).values()) == {"LZ4"}


@pytest.mark.parametrize(
    ("names", "count", "used"),
    [
        (["chance", "truth"], 3000, "UNCOMPRESSED"),
        (["chance", "truth"], 1000, "LZ4"),
        (["text", "down", "truth"], 3000, "LZ4"),
    ],
)
def test_a_small_file_has_one_codec(names: list[str], count: int, used: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_encoder, "SPLICED_ROWS", count + 1)
    rows = made(names, count)
    content = encoded(rows, compression="lz4")
    assert codecs(content) == {name: {used} for name in names}
    assert pq.read_table(io.BytesIO(content)).equals(rows.cast(pq.read_schema(io.BytesIO(content))))


@given(cuts=st.lists(st.lists(st.integers(0, 400), max_size=5), min_size=3, max_size=3), group=st.integers(50, 400))
def test_columns_may_come_in_different_chunks(cuts: list[list[int]], group: int) -> None:
    rows = made(["chance", "text", "truth"], 400)
    columns = []
    for name, ends in zip(rows.column_names, cuts, strict=True):
        edges = [0, *sorted(ends), 400]
        parts = [rows[name].combine_chunks().slice(a, b - a) for a, b in pairwise(edges)]
        columns.append(pl.Series(name, pa.chunked_array(parts, rows.schema.field(name).type)))
    target = io.BytesIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_encoder, "SPLICED_ROWS", 1)
        options = Options(max_row_group_rows=group, compression="lz4")
        parquet_encoder.encode_frame(pl.DataFrame(columns), rows.schema, options, "file", target)
    assert pq.read_table(target).equals(rows.cast(pq.read_schema(target)))


@pytest.mark.parametrize("name", ["*", "^id$", "^.*$", "^[$", "a.b", "größe 'x\"`"])
def test_names_are_no_patterns(name: str) -> None:
    rows = pa.table({"id": [1, 2, 3], name: [4, 5, 6], "text": ["x", "y", "z"]})
    found = pq.read_table(io.BytesIO(encoded(rows)))
    assert found.equals(rows.cast(found.schema))


def test_row_groups_that_arrow_would_divide_are_left_to_polars() -> None:
    content = encoded(made(["long", "text"], 50), max_row_group_rows=2**26 + 1)
    assert "DELTA_BINARY_PACKED" not in pq.read_metadata(io.BytesIO(content)).row_group(0).column(0).encodings
    content = encoded(made(["long", "text"], 50), max_row_group_rows=2**26)
    assert "DELTA_BINARY_PACKED" in pq.read_metadata(io.BytesIO(content)).row_group(0).column(0).encodings


def test_files_of_other_rows_are_refused() -> None:
    mine, theirs = io.BytesIO(), io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2, 3]}), mine)
    before = mine.getvalue()
    pq.write_table(pa.table({"b": [1, 2]}), theirs)
    with pytest.raises(ValueError, match=r"of .3, 2. rows cannot be one"):
        splice(mine, [pa.py_buffer(theirs.getvalue())], ["a", "b"])
    theirs = io.BytesIO()
    pq.write_table(pa.table({"b": [1, 2, 3]}), theirs)
    with pytest.raises(ValueError, match="the columns are"):
        splice(io.BytesIO(before), [pa.py_buffer(theirs.getvalue())], ["a", "c"])
    with pytest.raises(ValueError, match="not a Parquet file"):
        splice(io.BytesIO(b"PAR"), [pa.py_buffer(theirs.getvalue())], ["a", "c"])


def test_a_file_that_cannot_be_put_together_leaves_no_other(tmp_path: Path) -> None:
    path, theirs = tmp_path / f".file.parquet.{'0' * 32}.tmp", io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2, 3]}), path)
    pq.write_table(pa.table({"b": [1, 2]}), theirs)
    with pytest.raises(ValueError, match="cannot be one"):
        splice(str(path), [pa.py_buffer(theirs.getvalue())], ["a", "b"])
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_leaves_is_known_as_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vacuum removes such files, and no other whose name begins with a dot."""
    seen: list[str] = []

    def look(fields: thrift.Fields) -> bytes:
        seen.extend(path.name for path in tmp_path.iterdir())
        return b""

    path, theirs = tmp_path / f".file.parquet.{'0' * 32}.tmp", io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), path)
    pq.write_table(pa.table({"b": [1]}), theirs)
    monkeypatch.setattr(thrift, "encode", look)
    splice(str(path), [pa.py_buffer(theirs.getvalue())], ["a", "b"])
    assert len(set(seen)) == 2
    assert all(map(is_temporary, seen))
