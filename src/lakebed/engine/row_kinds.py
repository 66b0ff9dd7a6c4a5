"""Row kinds: the column of incoming rows that says which of them put and which delete.

The codes are those of Flink and Paimon: 0 ``+I``, 1 ``-U``, 2 ``+U``, 3 ``-D``.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lakebed.core.errors import DataError, InputError
from lakebed.engine.refused_rows import RefusedRows

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
MEANINGS: Mapping[str, int] = {
    "+i": INSERT,
    "-u": UPDATE_BEFORE,
    "+u": UPDATE_AFTER,
    "-d": DELETE,
    "insert": INSERT,
    "update": UPDATE_AFTER,
    "delete": DELETE,
    "update_before": UPDATE_BEFORE,
    "update_after": UPDATE_AFTER,
}
"""What the texts of the column mean, in lower case."""


def meanings(further: Mapping[str, str]) -> dict[str, int]:
    """The code of every text that is understood: the usual ones and ``further`` ones of the table.

    Raises InputError for a meaning that is none.

    >>> meanings({"c": "insert", "r": "+I"})["c"]
    0
    """
    unknown = [meaning for meaning in further.values() if meaning.strip().lower() not in MEANINGS]
    if unknown:
        raise InputError("a row kind has no such meaning", expected=" or ".join(MEANINGS), found=", ".join(unknown))
    own = {text.strip().lower(): MEANINGS[meaning.strip().lower()] for text, meaning in further.items()}
    return {**MEANINGS, **own}


def codes_of(column: pa.Array, known: Mapping[str, int]) -> pa.Array:
    """The code of each row's kind (int8); null where it is not understood. Raises DataError for a wrong type.

    Texts are compared without regard to case. Whole numbers are codes, unless the table gives them a meaning.

    >>> codes_of(pa.array(["+I", "DELETE", "x", None]), meanings({})).to_pylist()
    [0, 3, None, None]
    >>> codes_of(pa.array([0, 3, 4]), meanings({})).to_pylist()
    [0, 3, None]
    """
    if pat.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pat.is_integer(column.type):
        column = column.cast(pa.string())
        known = {**{str(code): code for code in range(4)}, **known}
    elif pat.is_string(column.type) or pat.is_large_string(column.type) or pat.is_string_view(column.type):
        column = pc.utf8_lower(pc.utf8_trim_whitespace(column.cast(pa.large_string())))
    elif pat.is_null(column.type):
        return pa.nulls(len(column), pa.int8())
    else:
        raise DataError(
            "the column of row kinds has a wrong type", (f"expected text or whole numbers, found {column.type}",)
        )
    texts = pa.array(list(known), column.type)
    return pc.take(pa.array(list(known.values()), pa.int8()), pc.index_in(column, texts))


def deletions(
    batch: pa.RecordBatch, position: int, known: Mapping[str, int], table_name: str, first_row: int
) -> pa.Array:
    """The code of each row that deletes (int8); null for a row that is put.

    Raises DataError with the count and one of the rows whose kind is null or not understood.

    >>> batch = pa.record_batch({"id": [1, 2], "op": ["+U", "-D"]})
    >>> deletions(batch, 1, meanings({}), "t", 0).to_pylist()
    [None, 3]
    """
    codes = codes_of(batch.column(position), known)
    if codes.null_count:
        name = batch.schema.names[position]
        refused = RefusedRows()
        refused.look(codes.is_null(), batch, first_row, [name])
        texts = ", ".join(text.upper() if text[:1] in "+-" else text for text in known)
        raise refused.error(
            table_name, f"with no row kind that is known in column {name!r}", f"use {texts}, or the codes 0 to 3"
        )
    puts = pc.is_in(codes, pa.array([INSERT, UPDATE_AFTER], pa.int8()))
    return pc.if_else(puts, pa.scalar(None, pa.int8()), codes)
