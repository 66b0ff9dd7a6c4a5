"""Data files of other writers' tables: elsewhere, under other names, with vectors of every kind."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from lakebed.core.adapt import adapt
from lakebed.core.errors import InputError
from lakebed.core.location import Location
from lakebed.core.schema_delta import from_delta
from lakebed.delta.foreign import FIELD_ID, place, to_physical_names
from lakebed.delta.log import read_log
from lakebed.storage.deletion_vector import keep_mask, read_vector
from lakebed.storage.parquet_reader import read_table
from lakebed.storage.store import open_store


def field(name, kind, number=None, physical=None):
    metadata = {}
    if number is not None:
        metadata = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def array(element):
    return {"type": "array", "elementType": element, "containsNull": True}


def string_map(value):
    return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}


def numbered(name, kind, number):
    return pa.field(name, kind, metadata={FIELD_ID: str(number)})


def read(store):
    """The live rows of a table without partitions, as the layer above puts the pieces together."""
    snapshot = read_log(store)
    parts = []
    for add in snapshot.files.values():
        at = place(store, add)
        rows = read_table(at.store, at.path)
        if snapshot.metadata.configuration.get("delta.columnMapping.mode") == "id":
            rows = to_physical_names(rows, snapshot.schema)
        rows = adapt(rows, snapshot.schema)
        vector = add.deletion_vector
        if vector is not None:
            dead = read_vector(
                store, vector.storage_type, vector.path_or_inline_dv, vector.offset, vector.size_in_bytes,
                allow_absolute=True,
            )  # fmt: skip
            assert len(dead) == vector.cardinality
            rows = rows.filter(keep_mask(dead, 0, rows.num_rows))
        parts.append(rows)
    return pa.concat_tables(parts).to_pylist()


def ids(*values):
    return pa.table({"id": pa.array(values, pa.int64())})


@pytest.mark.parametrize("where", ["inline", "file", "prefix", "absolute"])
def test_vectors_of_every_kind(table, foreign_rows, where):
    table.commit(0, table.protocol("deletionVectors"), table.metadata(field("id", "long")))
    table.commit(1, table.add("a.parquet", ids(1, 2, 3, 4), dead=[0, 2], where=where))
    assert read(table.store) == [{"id": 2}, {"id": 4}]
    assert foreign_rows(table.root) == read(table.store)


def test_a_shallow_clone_reads_files_of_another_table(table, tmp_path):
    source = tmp_path / "a source%"
    write_deltalake(str(source), ids(1, 2))
    [file] = source.glob("*.parquet")
    location = Location.parse(file)
    table.start()
    table.commit(1, table.add(location.uri), table.add("own.parquet", ids(3)))
    assert sorted(row["id"] for row in read(table.store)) == [1, 2, 3]
    table.commit(2, {"remove": {"path": location.uri, "dataChange": True}})
    assert read(table.store) == [{"id": 3}]
    table.commit(3, table.add(location.uri.removeprefix("file://")))
    assert sorted(row["id"] for row in read(table.store)) == [1, 2, 3]


def test_a_path_never_leaves_the_table_by_dots(table):
    table.start()
    table.commit(1, table.add("../other/a.parquet"))
    with pytest.raises(InputError):
        read(table.store)


def test_paths_are_decoded_once(table, foreign_rows):
    table.start()
    table.add("dt=10%3A00 ü/a%20b.parquet", ids(1))
    table.commit(1, table.add("dt=10%253A00%20%C3%BC/a%2520b.parquet"))
    [add] = read_log(table.store).files.values()
    size = table.store.size(add.file_path)
    table.commit(1, table.add("dt=10%253A00%20%C3%BC/a%2520b.parquet", size=size))
    assert read(table.store) == foreign_rows(table.root) == [{"id": 1}]


MAPPED = (
    field("key", "long", 1, "col-1"),
    field(
        "who",
        struct(field("name", "string", 3, "col-3"), field("newer", "long", 9, "col-9")),
        2,
        "col-2",
    ),
    field("tags", array(struct(field("t", "string", 5, "col-5"))), 4, "col-4"),
    field("by_name", string_map(struct(field("v", "long", 7, "col-7"))), 6, "col-6"),
)
EXPECTED = [
    {
        "key": 1,
        "who": {"name": "ann", "newer": None},
        "tags": [{"t": "x"}, None],
        "by_name": [("k", {"v": 5})],
    },
    {"key": 2, "who": None, "tags": None, "by_name": None},
]


def mapped_rows(name):
    """Rows whose columns carry the ids of ``MAPPED`` and are called as ``name`` says."""
    who = pa.struct([numbered(name(3), pa.string(), 3)])
    tags = pa.list_(pa.struct([numbered(name(5), pa.string(), 5)]))
    by_name = pa.map_(pa.string(), pa.struct([numbered(name(7), pa.int64(), 7)]))
    columns = [
        pa.array([1, 2], pa.int64()),
        pa.array([{name(3): "ann"}, None], who),
        pa.array([[{name(5): "x"}, None], None], tags),
        pa.array([[("k", {name(7): 5})], None], by_name),
    ]
    kinds = [pa.int64(), who, tags, by_name]
    fields = [numbered(name(2 * i or 1), kind, 2 * i or 1) for i, kind in enumerate(kinds)]
    return pa.table(columns, schema=pa.schema(fields))


def mapped_table(table, mode, rows):
    configuration = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "9"}
    table.commit(0, table.protocol("columnMapping"), table.metadata(*MAPPED, configuration=configuration))
    table.commit(1, table.add("a.parquet", rows))


def test_columns_by_physical_name_at_every_depth(table, foreign_rows):
    mapped_table(table, "name", mapped_rows(lambda number: f"col-{number}"))
    assert read(table.store) == EXPECTED
    assert foreign_rows(table.root, "key") == EXPECTED


def test_columns_by_field_id_at_every_depth(table):
    mapped_table(table, "id", mapped_rows(lambda number: f"whatever {number}"))
    assert read(table.store) == EXPECTED


def test_a_column_with_an_id_that_the_table_dropped_takes_no_name():
    schema = from_delta(struct(field("a", "long", 1, "x")))
    rows = pa.table(
        [pa.array([1]), pa.array([2])],
        schema=pa.schema([numbered("x", pa.int64(), 8), pa.field("y", pa.int64())]),
    )
    assert adapt(to_physical_names(rows, schema), schema).to_pylist() == [{"a": None}]


def test_names_by_field_id_keep_slices_chunks_and_empty_tables():
    schema = from_delta(struct(*MAPPED))
    rows = mapped_rows(lambda number: f"n{number}")
    sliced = pa.concat_tables([rows.slice(1), rows.slice(0, 1)])
    assert adapt(to_physical_names(sliced, schema), schema).to_pylist() == EXPECTED[::-1]
    assert to_physical_names(rows.slice(2), schema).num_rows == 0


def test_a_widened_column_with_old_narrow_files(table):
    changes = {"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]}
    wide = {"name": "id", "type": "long", "nullable": True, "metadata": changes}
    table.commit(0, table.protocol("typeWidening"), table.metadata(wide))
    narrow = pa.table({"id": pa.array([1], pa.int32())})
    table.commit(1, table.add("a.parquet", narrow), table.add("b.parquet", ids(2**40)))
    assert [row["id"] for row in read(table.store)] == [1, 2**40]


def test_old_timestamps_and_other_units(table):
    table.start("timestampNtz", fields=[field("t", "timestamp"), field("n", "timestamp_ntz")])
    second = pa.array([1_500_000_000], pa.timestamp("s"))
    rows = pa.table({"t": second.cast(pa.timestamp("ns")), "n": second.cast(pa.timestamp("ms"))})
    table.commit(1, table.add("a.parquet", pa.table({"t": rows["t"].cast(pa.timestamp("ms", "UTC")), "n": rows["n"]})))
    table.commit(2, table.add("b.parquet"))
    pq.write_table(rows.select(["t"]), table.root / "b.parquet", use_deprecated_int96_timestamps=True)
    found = read(table.store)
    assert [row["t"].timestamp() for row in found] == [1_500_000_000] * 2
    assert [row["n"] and row["n"].year for row in found] == [2017, None]


def test_a_table_of_deltalake_with_missing_columns(tmp_path):
    root = str(tmp_path / "t")
    write_deltalake(root, ids(1))
    wider = pa.table({"id": pa.array([2], pa.int64()), "x": [0.5]})
    write_deltalake(root, wider, mode="append", schema_mode="merge")
    found = read(open_store(Location.parse(root)))
    assert sorted(found, key=lambda row: row["id"]) == [{"id": 1, "x": None}, {"id": 2, "x": 0.5}]
