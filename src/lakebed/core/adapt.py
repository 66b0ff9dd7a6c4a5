"""Reads rows of old data files as the table's current schema.

A data file keeps the physical names and the types it was written with. Since then columns may have been
added, dropped, renamed, moved or widened, at any level.
"""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa

from lakebed.core.errors import DataError
from lakebed.core.recast import Recast, Rows, assemble, chunks_of, sources_of
from lakebed.core.schema import Field, Struct
from lakebed.core.schema_arrow import to_arrow, type_from_arrow

Values = TypeVar("Values", pa.Array, pa.ChunkedArray)


def adapt(rows: Rows, schema: Struct) -> Rows:
    """The rows of a data file, as the table's Arrow schema; the same columns where nothing changed.

    Columns and struct members are matched by physical name; those that are missing become nulls, those
    that the schema does not have are left out, narrower types are widened, and large strings and lists
    become plain ones (a chunk beyond 2 GiB is split). Raises ``CorruptFileError`` for a column of a type
    that the table never had.

    >>> from lakebed.core.schema_ddl import from_ddl
    >>> old = pa.table({"id": pa.array([1], pa.int16()), "gone": ["x"]})
    >>> adapt(old, from_ddl("name STRING, id BIGINT")).to_pylist()
    [{'name': None, 'id': 1}]
    """
    target, physical = to_arrow(schema), to_arrow(schema, physical=True)
    if rows.schema.equals(physical) and physical.types == target.types:
        return type(rows).from_arrays(rows.columns, schema=target)
    recast = Recast(stored=True)
    columns = []
    sources = sources_of(rows.schema.names, schema, stored=True)
    for field, source, arrow in zip(schema, sources, target, strict=True):
        if source is None:
            columns.append([pa.nulls(rows.num_rows, arrow.type)])
        else:
            columns.append(recast.chunks(chunks_of(rows.column(source)), field))
    return assemble(rows, columns, target)


def widen_array(array: Values, to: pa.DataType) -> Values:
    """The values of an old data file in a wider type, which must be one that ``to_arrow`` gives.

    Raises ``CorruptFileError`` if the type is no wider one, and ``SchemaError`` if no column has ``to``.

    >>> widen_array(pa.array([1], pa.int8()), pa.decimal128(12, 2)).type
    Decimal128Type(decimal128(12, 2))
    """
    made = Recast(stored=True).chunks(chunks_of(array), Field("value", type_from_arrow(to)))
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array(made, to)
    if len(made) > 1:
        raise DataError("an array has more than 2 GiB of text", fix="pass a ChunkedArray, which can be split")
    return made[0]
