"""Every mapper, both ways, over random nested schemas."""

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.schema import (
    COMMENT,
    MAPPING_ID,
    MAPPING_NAME,
    PRIMITIVES,
    Array,
    Decimal,
    Field,
    Map,
    Struct,
    Type,
)
from lakebed.core.schema_arrow import FIELD_ID, from_arrow, to_arrow
from lakebed.core.schema_check import validate_schema
from lakebed.core.schema_ddl import from_ddl, to_ddl, type_ddl, type_from_ddl
from lakebed.core.schema_delta import from_delta, to_delta
from lakebed.core.schema_path import format_path, parse_path
from lakebed.core.schema_spark import comments_only, from_spark, to_spark

# No surrogates (not text) and no NUL (no system stores it in a name).
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
NAMES = st.one_of(
    st.sampled_from(["id", "dt", "select", "order", "show", "a b", "a.b", "b`c", "Ünï", "1st", "element"]),
    TEXT.filter(lambda name: bool(name.strip())),
)
COMMENTS = st.one_of(st.none(), st.sampled_from(["it's", "a \\ b", "\\n", 'say "x"', "two\nlines", ""]), TEXT)
DECIMALS = st.integers(1, 38).flatmap(lambda p: st.builds(Decimal, st.just(p), st.integers(0, p)))
LEAVES: st.SearchStrategy[Type] = st.one_of(st.sampled_from(sorted(PRIMITIVES.values(), key=str)), DECIMALS)


@st.composite
def fields(draw: st.DrawFn, types: st.SearchStrategy[Type]) -> tuple[Field, ...]:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique_by=str.casefold))
    made = []
    for name in names:
        comment = draw(COMMENTS)
        metadata = {} if comment is None else {COMMENT: comment}
        made.append(Field(name, draw(types), draw(st.booleans()), metadata))
    return tuple(made)


def nested(types: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    keys = LEAVES | st.builds(Array, LEAVES, st.booleans()) | st.builds(Struct, fields(LEAVES))
    return st.one_of(
        st.builds(Array, types, st.booleans()),
        st.builds(Map, keys, types, st.booleans()),
        st.builds(Struct, fields(types)),
    )


TYPES: st.SearchStrategy[Type] = st.recursive(LEAVES, nested, max_leaves=6)
SCHEMAS = st.builds(Struct, fields(TYPES))


def with_ids(schema: Struct) -> Struct:
    """The schema with a column mapping at every level."""
    counter = iter(range(1, 10_000))

    def of_type(kind: Type) -> Type:
        if isinstance(kind, Struct):
            return Struct(tuple(of_field(f) for f in kind))
        if isinstance(kind, Array):
            return Array(of_type(kind.element), kind.contains_null)
        if isinstance(kind, Map):
            return Map(of_type(kind.key), of_type(kind.value), kind.value_contains_null)
        return kind

    def of_field(f: Field) -> Field:
        number = next(counter)
        metadata = {**f.metadata, MAPPING_ID: number, MAPPING_NAME: f"col-{number}"}
        return Field(f.name, of_type(f.type), f.nullable, metadata)

    return Struct(tuple(of_field(f) for f in schema))


@given(SCHEMAS)
def test_arrow_there_and_back(schema: Struct) -> None:
    assert from_arrow(to_arrow(schema)) == schema


@given(SCHEMAS)
def test_arrow_schema_survives_parquet_and_ipc(schema: Struct) -> None:
    arrow = to_arrow(schema)
    assert from_arrow(pa.ipc.read_schema(arrow.serialize())) == schema


@given(SCHEMAS)
def test_physical_arrow_has_physical_names_and_field_ids_at_every_level(schema: Struct) -> None:
    mapped = with_ids(schema)

    def check(kind: pa.DataType) -> None:
        if pa.types.is_struct(kind):
            for f in kind:
                assert f.name == "col-" + f.metadata[FIELD_ID.encode()].decode()
                check(f.type)
        elif pa.types.is_map(kind):
            check(kind.key_type)
            check(kind.item_type)
        elif pa.types.is_list(kind):
            check(kind.value_type)

    check(pa.struct(list(to_arrow(mapped, physical=True))))
    assert to_arrow(mapped).equals(to_arrow(schema), check_metadata=True)


@given(SCHEMAS)
def test_delta_there_and_back_with_metadata(schema: Struct) -> None:
    mapped = with_ids(schema)
    assert from_delta(to_delta(mapped)) == mapped
    assert from_delta(json.dumps(to_delta(mapped))) == mapped
    assert json.dumps(to_delta(from_delta(to_delta(mapped)))) == json.dumps(to_delta(mapped))


@given(SCHEMAS)
def test_spark_there_and_back(schema: Struct) -> None:
    types = pytest.importorskip("pyspark.sql.types")
    spark = to_spark(with_ids(schema), types.StructType)
    assert isinstance(spark, types.StructType)
    assert from_spark(spark) == schema == comments_only(with_ids(schema))


@given(SCHEMAS)
def test_ddl_there_and_back(schema: Struct) -> None:
    assert from_ddl(to_ddl(schema)) == schema


def elements_nullable(kind: Any) -> Any:
    """The type as Spark's SQL can say it: array elements and map values may be null."""
    if isinstance(kind, Struct):
        return Struct(tuple(Field(f.name, elements_nullable(f.type), f.nullable, f.metadata) for f in kind.fields))
    if isinstance(kind, Array):
        return Array(elements_nullable(kind.element))
    if isinstance(kind, Map):
        return Map(elements_nullable(kind.key), elements_nullable(kind.value))
    return kind


@given(SCHEMAS)
def test_portable_ddl_loses_only_the_nullability_of_elements_and_values(schema: Struct) -> None:
    assert from_ddl(to_ddl(schema, portable=True)) == elements_nullable(schema)


@given(TYPES)
def test_type_ddl_there_and_back(kind: Type) -> None:
    assert type_from_ddl(type_ddl(kind)) == kind


@given(SCHEMAS)
def test_random_schemas_are_valid_and_survive_pickling(schema: Struct) -> None:
    validate_schema(schema)
    assert schema.find(schema.names[0]) is not None
    assert pickle.loads(pickle.dumps(schema)) == schema


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_paths_there_and_back(names: list[str]) -> None:
    assert parse_path(format_path(names)) == tuple(names)
