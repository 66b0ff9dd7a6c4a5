"""What each mapper reads beyond its own output, and what it refuses."""

import datetime
import subprocess
import sys

import polars as pl
import pyarrow as pa
import pytest

from lakebed.core.errors import CorruptFileError, SchemaError, UnsupportedFeatureError
from lakebed.core.schema import (
    BINARY,
    BYTE,
    DATE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Array,
    Decimal,
    Field,
    Map,
    Primitive,
    Struct,
    Type,
)
from lakebed.core.schema_arrow import from_arrow, type_from_arrow
from lakebed.core.schema_check import validate_schema
from lakebed.core.schema_ddl import from_ddl
from lakebed.core.schema_delta import from_delta
from lakebed.core.schema_of import schema_of
from lakebed.core.schema_path import parse_path
from lakebed.core.schema_spark import from_spark


@pytest.mark.parametrize(
    ("arrow", "expected"),
    [
        (pa.large_string(), STRING),
        (pa.string_view(), STRING),
        (pa.large_binary(), BINARY),
        (pa.binary_view(), BINARY),
        (pa.binary(16), BINARY),
        (pa.uuid(), BINARY),
        (pa.large_list(pa.int8()), Array(BYTE)),
        (pa.list_(pa.int8(), 3), Array(BYTE)),
        (pa.list_view(pa.int8()), Array(BYTE)),
        (pa.large_list_view(pa.int8()), Array(BYTE)),
        (pa.timestamp("ns", "Europe/Berlin"), TIMESTAMP),
        (pa.timestamp("s"), TIMESTAMP_NTZ),
        (pa.date64(), DATE),
        (pa.dictionary(pa.int8(), pa.large_string()), STRING),
        (pa.run_end_encoded(pa.int32(), pa.int16()), SHORT),
        (pa.uint8(), SHORT),
        (pa.uint16(), INTEGER),
        (pa.uint32(), LONG),
        (pa.uint64(), Decimal(20, 0)),
        (pa.float16(), FLOAT),
        (pa.decimal32(5, 2), Decimal(5, 2)),
        (pa.decimal64(12, 2), Decimal(12, 2)),
        (pa.decimal256(38, 2), Decimal(38, 2)),
        (pa.decimal128(5, -3), Decimal(8, 0)),
        (pa.map_(pa.string(), pa.large_list(pa.uint8())), Map(STRING, Array(SHORT))),
    ],
    ids=str,
)
def test_arrow_types_that_are_read(arrow: pa.DataType, expected: Type) -> None:
    assert type_from_arrow(arrow) == expected


@pytest.mark.parametrize(
    ("arrow", "word"),
    [
        (pa.null(), "give the column a type"),
        (pa.time32("s"), "string"),
        (pa.time64("us"), "string"),
        (pa.duration("ms"), "int64"),
        (pa.month_day_nano_interval(), "integer columns"),
        (pa.dense_union([pa.field("time", pa.int8())]), "one nullable field per kind"),
        (pa.decimal256(39, 2), "38 digits"),
    ],
    ids=str,
)
def test_arrow_types_that_are_refused_name_the_column_and_the_way_out(arrow: pa.DataType, word: str) -> None:
    schema = pa.schema([("ok", pa.int8()), ("s", pa.struct([("x.y", pa.list_(arrow))]))])
    with pytest.raises(SchemaError, match=r"s\.`x\.y`\.element") as caught:
        from_arrow(schema)
    assert word in str(caught.value)


def test_every_refused_arrow_column_is_named() -> None:
    with pytest.raises(SchemaError) as caught:
        from_arrow(pa.schema([("a", pa.null()), ("b", pa.int8()), ("c", pa.time32("s"))]))
    assert "column a" in str(caught.value)
    assert "column c" in str(caught.value)


def test_null_is_void_when_asked_for() -> None:
    assert from_arrow(pa.schema([("a", pa.list_(pa.null()))]), void=True)["a"].type == Array(VOID)


def delta(json_type: object) -> Struct:
    return from_delta({"type": "struct", "fields": [{"name": "c", "type": json_type, "nullable": True}]})  # type: ignore[dict-item]


@pytest.mark.parametrize("name", ["char(10)", "varchar( 20 )"])
def test_legacy_strings_of_delta(name: str) -> None:
    assert delta(name)["c"].type == STRING


def test_plain_decimal_of_delta() -> None:
    assert delta("decimal")["c"].type == Decimal(10, 0)
    assert delta("decimal(7, 3)")["c"].type == Decimal(7, 3)


@pytest.mark.parametrize("name", ["variant", "interval day to second", "geometry(4326)", "void", {"type": "udt"}])
def test_unknown_delta_types_name_column_and_type(name: object) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"column c\.element") as caught:
        delta({"type": "array", "elementType": name, "containsNull": True})
    assert (name if isinstance(name, str) else "udt") in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["{", '"long"', "[]", "null", '{"type":"struct"}', '{"type":"struct","fields":[{"name":"a"}]}',
     '{"type":"struct","fields":[{"name":"a","type":"decimal(40,1)"}]}',
     '{"type":"struct","fields":[{"name":"a","type":7}]}', '{"type":"struct","fields":[7]}'],
)  # fmt: skip
def test_what_is_no_delta_schema(text: str) -> None:
    with pytest.raises(CorruptFileError):
        from_delta(text)


def test_spark_char_and_varchar_become_strings_and_unknown_types_are_refused() -> None:
    t = pytest.importorskip("pyspark.sql.types")
    schema = t.StructType().add("a", t.CharType(3)).add("b", t.VarcharType(9), True, {"comment": "c", "x": 1})
    assert from_spark(schema) == Struct((Field("a", STRING), Field("b", STRING, True, {"comment": "c"})))
    for unknown in (t.DayTimeIntervalType(), t.NullType(), t.VariantType()):
        with pytest.raises(SchemaError, match=r"Spark schema: column a\.element"):
            from_spark(t.StructType().add("a", t.ArrayType(unknown)))


def test_ddl_synonyms_and_layout() -> None:
    text = """
        a BYTE, b SHORT, c INTEGER, d LONG, e REAL, f DEC, g NUMERIC(5), h CHAR(3), i VARCHAR(5),
        j TIMESTAMP, k TIMESTAMP_LTZ, l TIMESTAMP_NTZ, -- a remark
        m struct<x int not null comment 'c', `y z`: array<array<map<string,int>>>> COMMENT 'm' NOT NULL,
        n INT NULL
    """
    schema = from_ddl(text)
    assert schema["f"].type == Decimal(10, 0)
    assert schema["g"].type == Decimal(5, 0)
    assert schema["h"].type == schema["i"].type == STRING
    assert schema["j"].type == schema["k"].type == TIMESTAMP
    assert schema["l"].type == TIMESTAMP_NTZ
    assert not schema["m"].nullable
    inner = schema["m"].type
    assert isinstance(inner, Struct)
    assert inner["x"] == Field("x", INTEGER, False, {"comment": "c"})
    assert inner["y z"].type == Array(Array(Map(STRING, INTEGER)))
    assert schema["n"].nullable


def test_ddl_is_what_spark_reads() -> None:
    t = pytest.importorskip("pyspark.sql.types")
    schema = from_ddl("id BIGINT NOT NULL, s STRUCT<a: INT NOT NULL, b: TIMESTAMP_NTZ>, m MAP<STRING, DEC(10,2)>")
    inner = t.StructType().add("a", t.IntegerType(), False).add("b", t.TimestampNTZType())
    spark = (
        t.StructType()
        .add("id", t.LongType(), False)
        .add("s", inner)
        .add("m", t.MapType(t.StringType(), t.DecimalType(10, 2)))
    )
    assert from_spark(spark) == schema


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there are no columns"),
        ("id", "column 3"),
        ("id BIGNT", "did you mean BIGINT"),
        ("id BIGINT,", "column 11.*a column name"),
        ("id BIGINT,\n  x FOO", "line 2, column 5"),
        ("a-b INT", "column 2"),
        ("1a INT", "backticks"),
        ("id INT NOT", "NULL after NOT"),
        ("s STRUCT<>", "empty"),
        ("s STRUCT<a INT", "at the end of STRUCT"),
        ("s ARRAY", "ARRAY<…>"),
        ("m MAP<STRING>", "comma between"),
        ("x INTERVAL DAY", "unknown type INTERVAL"),
        ("a ARRAY<INT>>", "a comma or the end"),
        ("id INT DEFAULT 4", "unexpected 'DEFAULT' after the type of 'id'"),
        ("`id", "close every quote"),
        ("d DECIMAL(40,2)", "1 to 38"),
        ("d DECIMAL(1,2,3)", "too many"),
        ("d DECIMAL(1.5)", "whole number"),
        ("a INT COMMENT x", "the comment as 'text'"),
        ("'a' INT", "a column name"),
    ],
)
def test_ddl_errors_have_the_position_and_the_expected(text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        from_ddl(text)


def test_schema_of_everything() -> None:
    expected = Struct((Field("id", LONG), Field("name", STRING), Field("at", TIMESTAMP_NTZ)))
    frame = pl.DataFrame({"id": [1], "name": ["x"], "at": [datetime.datetime(2026, 1, 1)]})
    assert schema_of(frame.schema) == expected
    assert schema_of(frame) == expected
    arrow = frame.to_arrow()
    assert schema_of(arrow) == schema_of(arrow.schema) == schema_of(expected) == expected
    assert schema_of(pa.RecordBatchReader.from_batches(arrow.schema, [])) == expected
    assert schema_of(pa.struct([("id", pa.int64())])) == Struct((Field("id", LONG),))
    assert schema_of("id BIGINT, name STRING, at TIMESTAMP_NTZ") == expected
    types = pytest.importorskip("pyspark.sql.types")
    assert schema_of(types.StructType().add("id", types.LongType())) == Struct((Field("id", LONG),))


@pytest.mark.parametrize("wrong", [None, 7, {"id": "long"}, [("id", "long")], pa.int64(), object()])
def test_schema_of_lists_what_is_accepted(wrong: object) -> None:
    with pytest.raises(SchemaError, match="StructType"):
        schema_of(wrong)


def test_schema_of_does_not_import_spark() -> None:
    code = (
        "import sys, pyarrow as pa; from lakebed.core.schema_of import schema_of;"
        "schema_of(pa.schema([('a', pa.int8())])); assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_validation_lists_every_problem_at_once() -> None:
    inner = Struct((Field("x", LONG), Field("X", LONG), Field("", LONG)))
    schema = Struct(
        (
            Field("id", LONG),
            Field("ID", LONG),
            Field("s", Array(inner)),
            Field("_File", LONG),
            Field("_lakebed_seq", LONG),
            Field("d", Decimal(39, 2)),
            Field("e", Decimal(3, 4)),
            Field("m", Map(Struct((Field("k", Map(STRING, LONG)),)), LONG)),
            Field("o", Struct(())),
            Field("v", VOID),
            Field("g", Primitive("geometry")),
        )
    )
    with pytest.raises(SchemaError) as caught:
        validate_schema(schema, ["s", "idd", "id", "id"])
    text = str(caught.value)
    for part in (
        "column ID: the name is taken by id", "column s.element.X", "in column s.element: a column has an",
        "column _File", "column _lakebed_seq", "DECIMAL(39,2)", "DECIMAL(3,4)", "column m: a map key",
        "column o: a struct needs a field", "type void", "type geometry", "partition column 's' is ARRAY",
        "partition column 'idd' is not in the schema (did you mean", "'id' is given twice",
    ):  # fmt: skip
        assert part in text


def test_validation_of_partitioning_and_emptiness() -> None:
    schema = Struct((Field("a", LONG), Field("b", DATE)))
    validate_schema(schema, ["b"])
    with pytest.raises(SchemaError, match="every column is a partition column"):
        validate_schema(schema, ["a", "b"])
    with pytest.raises(SchemaError, match="there are no columns"):
        validate_schema(Struct(()))


def test_reserved_names_are_free_inside_structs() -> None:
    validate_schema(Struct((Field("s", Struct((Field("_file", STRING), Field("^a$", STRING)))),)))


@pytest.mark.parametrize("name", ["*", "^a.*$", "^$"])
def test_patterns_are_no_names(name: str) -> None:
    """A key that was called ^a.*$ was compared by whatever column its name matched, and rows came twice."""
    with pytest.raises(SchemaError, match="polars takes the name for a pattern"):
        validate_schema(Struct((Field("id", LONG), Field(name, LONG))))


@pytest.mark.parametrize("name", ["**", "^a", "a$", "^", "$", "a*"])
def test_what_only_looks_like_a_pattern_is_a_name(name: str) -> None:
    validate_schema(Struct((Field("id", LONG), Field(name, LONG))))


@pytest.mark.parametrize("text", ["", ".a", "a.", "a..b", "`a", "a`b", "``"])
def test_paths_that_cannot_be_read(text: str) -> None:
    with pytest.raises(SchemaError, match="cannot be read"):
        parse_path(text)


def test_find_prefers_the_exact_name_and_refuses_to_guess() -> None:
    schema = Struct((Field("Id", LONG), Field("ID", STRING), Field("name", STRING)))
    assert schema.find("ID") is schema.fields[1]
    assert schema.find("id") is None
    assert schema.find("NAME") is schema.fields[2]
    assert "name" in schema
    assert "NAME" not in schema
    with pytest.raises(KeyError):
        schema["x"]
