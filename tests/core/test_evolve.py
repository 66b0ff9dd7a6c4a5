"""Schema changes: what they do, what they refuse, and what the column mapping says afterwards."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.adapt import adapt
from lakebed.core.column_mapping import enable_mapping, needs_mapping
from lakebed.core.conform import check_schema, conform
from lakebed.core.errors import SchemaError
from lakebed.core.evolve import (
    AddColumn,
    Change,
    DropColumn,
    Evolved,
    MoveColumn,
    RenameColumn,
    SetComment,
    SetNullable,
    WidenColumn,
    diff,
    evolve,
    merge_schemas,
)
from lakebed.core.schema import (
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    MAPPING_ID,
    MAPPING_NAME,
    PRIMITIVES,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TYPE_CHANGES,
    VOID,
    Array,
    Decimal,
    Field,
    Map,
    Struct,
    Type,
)
from lakebed.core.schema_arrow import to_arrow, type_to_arrow
from lakebed.core.schema_check import validate_schema
from lakebed.core.schema_ddl import from_ddl, to_ddl, type_from_ddl
from lakebed.core.schema_edit import resolve
from lakebed.core.widening import can_widen

ORDERS = from_ddl(
    "id BIGINT NOT NULL, dt DATE, qty INT, addr STRUCT<street: STRING, zip: INT>,"
    " tags ARRAY<INT>, m MAP<INT, STRUCT<x: FLOAT>>"
)


def change(*changes: Change, schema: Struct = ORDERS, **options: Any) -> Evolved:
    numbers = count(1)
    settings: dict[str, Any] = {
        "partition_columns": ["dt"],
        "protected_columns": ["id"],
        "mapping": False,
        "max_column_id": 0,
        "new_name": lambda: f"col-{next(numbers)}",
    }
    return evolve(schema, changes, **{**settings, **options})


def refused(*changes: Change, **options: Any) -> str:
    with pytest.raises(SchemaError) as caught:
        change(*changes, **options)
    return str(caught.value)


def ddl(evolved: Evolved) -> str:
    return to_ddl(evolved.schema)


def test_add_without_mapping_needs_none() -> None:
    done = change(AddColumn("note", STRING, comment="free text"), AddColumn("addr.city", STRING, after="street"))
    assert done.schema["note"] == Field("note", STRING, True, {"comment": "free text"})
    assert "addr STRUCT<street: STRING, city: STRING, zip: INT>" in ddl(done)
    assert (done.mapping, done.needs_mapping, done.max_column_id, done.widened) == (False, False, 0, False)


def test_add_places() -> None:
    done = change(AddColumn("a", STRING, first=True), AddColumn("b", STRING, after="ID"))
    assert done.schema.names[:3] == ("a", "id", "b")


def test_add_inside_arrays_and_maps() -> None:
    done = change(AddColumn("m.value.y", STRING))
    assert "m MAP<INT, STRUCT<x: FLOAT, y: STRING>>" in ddl(done)


def test_rename_turns_the_mapping_on_for_every_field_at_every_level() -> None:
    done = change(RenameColumn("qty", "quantity"), AddColumn("s", Struct((Field("t", Array(STRING)),))))
    assert done.mapping
    assert done.needs_mapping
    assert done.renamed == {"qty": "quantity"}
    numbers = []

    def collect(kind: Type) -> None:
        if isinstance(kind, Struct):
            for f in kind:
                numbers.append(f.metadata[MAPPING_ID])
                collect(f.type)
        elif isinstance(kind, Array):
            collect(kind.element)
        elif isinstance(kind, Map):
            collect(kind.key)
            collect(kind.value)

    collect(done.schema)
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    assert done.max_column_id == len(numbers) == 11
    assert done.schema["quantity"].physical_name == "qty"
    assert resolve(done.schema, "m.value.x")[1].physical_name == "x"
    # New fields have names that no file can have.
    assert done.schema["s"].physical_name == "col-1"
    assert resolve(done.schema, "s.t")[1].physical_name == "col-2"


def test_a_dropped_column_does_not_come_back_with_its_name() -> None:
    done = change(DropColumn("qty"), AddColumn("qty", LONG))
    again = change(
        DropColumn("qty"), AddColumn("qty", STRING), schema=done.schema, mapping=True,
        max_column_id=done.max_column_id, new_name=lambda: "col-x",
    )  # fmt: skip
    assert done.schema["qty"].physical_name == "col-1"
    assert again.schema["qty"].physical_name == "col-x"
    assert again.schema["qty"].metadata[MAPPING_ID] == done.max_column_id + 1 == again.max_column_id
    assert not again.needs_mapping
    old = pa.table({"id": pa.array([1], pa.int64()), "qty": pa.array([7], pa.int32())})
    assert adapt(old, again.schema)["qty"].to_pylist() == [None]


def test_ids_never_fall_behind_those_in_the_schema() -> None:
    mapped, last = enable_mapping(ORDERS, 100)
    done = change(AddColumn("n", STRING), schema=mapped, mapping=True, max_column_id=3)
    assert done.max_column_id == last + 1 == done.schema["n"].metadata[MAPPING_ID]


def test_a_mapping_of_another_table_is_not_taken_over() -> None:
    foreign = Struct((Field("t", STRING, metadata={MAPPING_NAME: "id", MAPPING_ID: 1, "comment": "c"}),))
    added = change(AddColumn("s", foreign)).schema["s"].type
    assert added == Struct((Field("t", STRING, metadata={"comment": "c"}),))


def test_renames_follow_partition_and_protected_columns() -> None:
    done = change(RenameColumn("dt", "day"), RenameColumn("id", "key"), RenameColumn("KEY", "Key"))
    assert done.partition_columns == ("day",)
    assert done.protected_columns == ("Key",)
    assert done.renamed == {"dt": "day", "id": "Key"}


def test_rename_nested_and_swap() -> None:
    done = change(
        RenameColumn("addr.street", "tmp"), RenameColumn("addr.zip", "street"), RenameColumn("addr.tmp", "zip")
    )
    inner = done.schema["addr"].type
    assert isinstance(inner, Struct)
    assert [(f.name, f.physical_name) for f in inner] == [("zip", "street"), ("street", "zip")]
    assert done.renamed == {}


def test_move() -> None:
    done = change(MoveColumn("tags", first=True), MoveColumn("id", after="qty"), MoveColumn("addr.zip", first=True))
    assert done.schema.names == ("tags", "dt", "qty", "id", "addr", "m")
    assert "STRUCT<zip: INT, street: STRING>" in ddl(done)
    assert not done.mapping
    assert "first or after" in refused(MoveColumn("id"))
    assert "first or after" in refused(MoveColumn("id", first=True, after="dt"))


def test_comments_and_nullability() -> None:
    done = change(SetComment("addr.zip", "it's"), SetNullable("qty", False), SetNullable("tags.element", False),
                  SetNullable("m.value", False), nulls_checked=True)  # fmt: skip
    assert resolve(done.schema, "addr.zip")[1].comment == "it's"
    assert not done.schema["qty"].nullable
    assert "tags ARRAY<INT NOT NULL>" in ddl(done)
    assert "m MAP<INT, STRUCT<x: FLOAT> NOT NULL>" in ddl(done)
    back = change(SetComment("addr.zip", None), SetNullable("qty", True), schema=done.schema)
    assert resolve(back.schema, "addr.zip")[1].metadata == {}
    assert back.schema["qty"].nullable


def test_widening_is_recorded_at_the_nearest_struct_field() -> None:
    done = change(
        WidenColumn("qty", LONG), WidenColumn("qty", Decimal(20, 0)), WidenColumn("addr.zip", LONG),
        WidenColumn("tags.element", LONG), WidenColumn("m.key", LONG), WidenColumn("m.value.x", DOUBLE),
    )  # fmt: skip
    assert done.widened
    assert not done.mapping
    assert done.schema["qty"].metadata[TYPE_CHANGES] == [
        {"fromType": "integer", "toType": "long"},
        {"fromType": "long", "toType": "decimal(20,0)"},
    ]
    assert done.schema["tags"].metadata[TYPE_CHANGES] == [
        {"fromType": "integer", "toType": "long", "fieldPath": "element"}
    ]
    assert done.schema["m"].metadata[TYPE_CHANGES] == [{"fromType": "integer", "toType": "long", "fieldPath": "key"}]
    assert resolve(done.schema, "m.value.x")[1].metadata[TYPE_CHANGES] == [{"fromType": "float", "toType": "double"}]
    assert resolve(done.schema, "addr.zip")[1].type == LONG
    assert not change(WidenColumn("qty", INTEGER)).widened


def test_widening_deep_in_arrays_of_maps() -> None:
    schema = from_ddl("a ARRAY<MAP<STRING, ARRAY<INT>>>")
    done = evolve(schema, [WidenColumn("a.element.value.element", LONG)], mapping=False)
    assert to_ddl(done.schema) == "a ARRAY<MAP<STRING, ARRAY<BIGINT>>>"
    assert done.schema["a"].metadata[TYPE_CHANGES][0]["fieldPath"] == "element.value.element"


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (AddColumn("n", STRING, nullable=False), "column n cannot be added as NOT NULL.*nullable, fill it"),
        (AddColumn("ID", STRING), "column ID is there already; found 'id'"),
        (AddColumn("addr.ZIP", STRING), r"column addr\.ZIP is there already"),
        (AddColumn("_file", STRING), "metadata columns"),
        (AddColumn("_lakebed_x", STRING), "belong to Lakebed"),
        (AddColumn((" ",), STRING), "empty name"),
        (AddColumn("n", VOID), "type void"),
        (AddColumn("n", Map(Map(STRING, LONG), LONG)), "map key"),
        (AddColumn("n", Decimal(40, 2)), "DECIMAL"),
        (AddColumn("n", STRING, after="idd"), "no column 'idd'.*did you mean 'id'"),
        (AddColumn("adr.x", STRING), "no column adr.*did you mean 'addr'"),
        (AddColumn("m.x", STRING), r"use m\.value\.x"),
        (AddColumn("qty.x", STRING), "column qty is a INT and has no member 'x'"),
        (DropColumn("qtty"), "did you mean 'qty'"),
        (DropColumn("dt"), "partitioned by it"),
        (DropColumn("id"), "key"),
        (DropColumn("tags.element"), "part of an array or map and cannot be dropped alone.*column tags"),
        (DropColumn("m.value.x"), "its struct has no other"),
        (DropColumn("qty.x"), "nothing in qty to name"),
        (RenameColumn("qty", "DT"), "column DT is there already"),
        (RenameColumn("qty", "_bucket"), "metadata columns"),
        (RenameColumn("qty", ""), "empty name"),
        (RenameColumn("m.key", "k"), "cannot be renamed alone"),
        (WidenColumn("qty", STRING), r"cannot become STRING; expected BIGINT, DOUBLE, or DECIMAL\(p,s\)"),
        (WidenColumn("qty", SHORT), "cannot become SMALLINT"),
        (WidenColumn("qty", Decimal(11, 2)), "cannot become"),
        (WidenColumn("tags", Array(LONG)), r"tags\.element"),
        (WidenColumn("id", Decimal(20, 0)), "column id cannot be widened, it is a key"),
        (WidenColumn("dt", TIMESTAMP_NTZ), "partition column"),
        (SetNullable("qty", False), "cannot become NOT NULL"),
        (SetNullable("id", True), "cannot become nullable"),
        (SetNullable("m.key", True), "map key"),
        (SetComment("tags.element", "x"), "cannot be commented on alone"),
        (SetComment("nope", "x"), "there is no column nope"),
        (SetComment("", "x"), "cannot be read"),
    ],
    ids=str,
)
def test_refusals(step: Change, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        change(step)


def test_the_last_column_that_is_no_partition_column_stays() -> None:
    schema = from_ddl("a INT, dt DATE")
    assert "besides its partition columns" in refused(DropColumn("a"), schema=schema, protected_columns=[])


def test_every_problem_is_listed_at_once_and_good_changes_count() -> None:
    text = refused(
        AddColumn("ok", STRING),
        DropColumn("dt"),
        RenameColumn("ok", "fine"),
        WidenColumn("fine", LONG),
        DropColumn("x"),
    )
    assert text.count("\n  - ") == 3
    for part in ("partitioned by it", "column fine cannot become BIGINT", "no column x"):
        assert part in text


PAIRS = [
    (BYTE, SHORT), (BYTE, INTEGER), (BYTE, LONG), (SHORT, INTEGER), (SHORT, LONG), (INTEGER, LONG),
    (BYTE, DOUBLE), (SHORT, DOUBLE), (INTEGER, DOUBLE), (FLOAT, DOUBLE), (DATE, TIMESTAMP_NTZ),
]  # fmt: skip


def test_exactly_the_pairs_of_the_protocol_can_be_widened() -> None:
    kinds = list(PRIMITIVES.values())
    assert {(a, b) for a in kinds for b in kinds if can_widen(a, b)} == set(PAIRS)


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        (BYTE, Decimal(10, 0), True),
        (INTEGER, Decimal(9, 0), False),
        (INTEGER, Decimal(12, 2), True),
        (INTEGER, Decimal(12, 3), False),
        (LONG, Decimal(20, 0), True),
        (LONG, Decimal(19, 0), False),
        (LONG, Decimal(38, 18), True),
        (LONG, Decimal(38, 19), False),
        (Decimal(10, 1), Decimal(12, 3), True),
        (Decimal(10, 1), Decimal(11, 3), False),
        (Decimal(10, 2), Decimal(12, 1), False),
        (Decimal(10, 2), Decimal(10, 2), False),
        (DOUBLE, Decimal(38, 0), False),
    ],
)
def test_decimals_that_can_be_widened(old: Type, new: Type, allowed: bool) -> None:
    assert can_widen(old, new) is allowed


@pytest.mark.parametrize(("old", "new"), [*PAIRS, (INTEGER, Decimal(12, 2)), (LONG, Decimal(22, 2))], ids=str)
def test_old_files_are_read_as_the_widened_type(old: Type, new: Type) -> None:
    schema = Struct((Field("a", old), Field("l", Array(old))))
    values = pa.array([1, None], pa.int32() if old == DATE else pa.int8()).cast(type_to_arrow(old))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), values)
    done = evolve(schema, [WidenColumn("a", new), WidenColumn("l.element", new)], mapping=False)
    read = adapt(pa.table({"a": values, "l": lists}), done.schema)
    assert read.schema == to_arrow(done.schema)
    assert read["a"].null_count == 1


def test_merge_adds_and_widens_at_every_level() -> None:
    incoming = from_ddl(
        "ID BIGINT, qty BIGINT, addr STRUCT<zip: SMALLINT, city: STRING COMMENT 'c'>, tags ARRAY<BIGINT>,"
        " m MAP<BIGINT, STRUCT<x: DOUBLE, y: INT>>, extra STRUCT<a: INT NOT NULL> NOT NULL"
    )
    changes = merge_schemas(ORDERS, incoming)
    assert changes == [
        WidenColumn(("qty",), LONG),
        AddColumn(("addr", "city"), STRING, comment="c"),
        WidenColumn(("tags", "element"), LONG),
        WidenColumn(("m", "key"), LONG),
        WidenColumn(("m", "value", "x"), DOUBLE),
        AddColumn(("m", "value", "y"), INTEGER),
        AddColumn(("extra",), Struct((Field("a", INTEGER, False),))),
    ]
    done = change(*changes)
    assert check_schema(to_arrow(incoming), done.schema) == ()
    assert merge_schemas(done.schema, incoming) == []


def test_merge_takes_nulls_and_what_fits_as_it_is() -> None:
    incoming = pa.schema(
        [("id", pa.null()), ("qty", pa.uint8()), ("tags", pa.list_(pa.null())), ("dt", pa.date64()),
         ("m", pa.list_(pa.struct([("key", pa.int32()), ("value", pa.struct([("x", pa.float32())]))])))]
    )  # fmt: skip
    assert merge_schemas(ORDERS, incoming) == []
    with pytest.raises(SchemaError, match="column fresh: no column can have the type void"):
        merge_schemas(ORDERS, pa.schema([("fresh", pa.null())]))


@pytest.mark.parametrize(
    ("table", "incoming", "result"),
    [
        ("DECIMAL(10,2)", "DECIMAL(8,4)", [WidenColumn(("c",), Decimal(12, 4))]),
        ("DECIMAL(10,2)", "DECIMAL(5,0)", []),
        ("DECIMAL(38,10)", "DECIMAL(38,0)", []),
        ("DECIMAL(10,2)", "BIGINT", []),
        ("DATE", "TIMESTAMP_NTZ", [WidenColumn(("c",), TIMESTAMP_NTZ)]),
        ("BIGINT", "INT", []),
        ("DOUBLE", "INT", []),
    ],
)
def test_merge_of_single_types(table: str, incoming: str, result: list[Change]) -> None:
    assert merge_schemas(from_ddl(f"c {table}"), from_ddl(f"c {incoming}")) == result


def test_merge_refuses_what_delta_does_not_do_by_itself() -> None:
    with pytest.raises(SchemaError) as caught:
        merge_schemas(
            from_ddl("a INT, b STRING, c TIMESTAMP, d BIGINT, e ARRAY<INT>"),
            from_ddl("a DOUBLE, b INT, c TIMESTAMP_NTZ, d DOUBLE, e STRUCT<x: INT>"),
        )
    text = str(caught.value)
    assert text.count("\n  - ") == 5
    assert "column a is INT and the rows have DOUBLE (fix: widen the column first)" in text
    assert "another name" in text


def test_merge_without_widening() -> None:
    with pytest.raises(SchemaError, match="allow widening"):
        merge_schemas(from_ddl("a INT"), from_ddl("a BIGINT"), widen=False)
    assert merge_schemas(from_ddl("a DECIMAL(4,1)"), from_ddl("a DECIMAL(5,2)"), widen=False) == []


def test_diff_in_words() -> None:
    before, _ = enable_mapping(ORDERS)
    after = change(
        RenameColumn("qty", "quantity"), WidenColumn("quantity", LONG), DropColumn("addr.street"),
        SetComment("dt", "day"),
        AddColumn("tail", BOOLEAN), WidenColumn("tags.element", LONG), MoveColumn("m", first=True),
        SetNullable("tags", False), schema=before, mapping=True, max_column_id=9, nulls_checked=True,
    )  # fmt: skip
    assert diff(before, after.schema) == [
        "dt: comment changed from None to 'day'",
        "qty: renamed to quantity",
        "quantity: type changed from INT to BIGINT",
        "addr.street: dropped (STRING)",
        "tags: is NOT NULL now",
        "tags.element: type changed from INT to BIGINT",
        "tail: added (BOOLEAN)",
        "columns are in another order: m, id, dt, quantity, addr, tags",
    ]
    assert diff(ORDERS, ORDERS) == []


def test_names_that_need_a_mapping() -> None:
    assert not needs_mapping(ORDERS)
    assert needs_mapping(from_ddl("a ARRAY<STRUCT<`x y`: INT>>"))


TYPES = st.sampled_from([type_from_ddl(t) for t in ("INT", "STRING", "STRUCT<a: INT, b: ARRAY<STRUCT<c: INT>>>")])
NAMES = st.sampled_from(["a", "b", "c", "d", "e", "id"])
STEPS = st.one_of(
    st.builds(AddColumn, NAMES, TYPES, first=st.booleans()),
    st.builds(DropColumn, NAMES),
    st.builds(RenameColumn, NAMES, NAMES),
    st.builds(MoveColumn, NAMES, first=st.just(True)),
    st.builds(WidenColumn, NAMES, st.just(LONG)),
)


@given(st.lists(STEPS, max_size=12))
def test_any_sequence_keeps_the_schema_valid_and_old_rows_readable(steps: Sequence[Change]) -> None:
    start = from_ddl("id INT NOT NULL, a INT, b STRING")
    rows = conform(pa.table({"id": pa.array([1], pa.int32()), "b": ["x"]}), start, table_name="t")
    schema, mapping, last = start, False, 0
    for step in steps:
        try:
            done = evolve(schema, [step], mapping=mapping, max_column_id=last, protected_columns=[])
        except SchemaError:
            continue
        assert done.max_column_id >= last
        schema, mapping, last = done.schema, done.mapping, done.max_column_id
        validate_schema(schema)
        assert len({f.physical_name for f in schema}) == len(schema)
    read = adapt(rows, schema)
    assert read.schema == to_arrow(schema)
    for field in schema:
        expected = {"id": 1, "a": None, "b": "x"}.get(field.physical_name)
        assert read[field.name].to_pylist() == [expected], "a name that was used again reads old values"


def test_timestamps_are_not_widened_into_each_other() -> None:
    assert not can_widen(TIMESTAMP, TIMESTAMP_NTZ)
    assert not can_widen(DATE, TIMESTAMP)
