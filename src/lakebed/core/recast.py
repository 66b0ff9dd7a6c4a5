"""Rebuilds Arrow arrays as the columns of a schema, at every level of nesting, without a loop over rows.

Two callers: ``conform`` takes a user's rows and must not lose or guess anything; ``adapt`` takes the
rows of an old data file, which were checked when they were written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lakebed.core.errors import CorruptFileError, DataError
from lakebed.core.lossless import conversion, stored_conversion
from lakebed.core.schema import Array, Field, Map, Struct, Type
from lakebed.core.schema_arrow import is_list_like, type_to_arrow
from lakebed.core.schema_ddl import type_ddl
from lakebed.core.schema_path import ELEMENT, KEY, VALUE, Path, format_path, members

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)

# The row of the table that a position in an array belongs to.
RowOf: TypeAlias = Callable[[int], int]

# Arrow's strings and lists have 32-bit offsets.
OFFSET_LIMIT = 2**31 - 1

NULLS = "null"


class TooLongError(Exception):
    """An array has more bytes or elements than 32-bit offsets can count; half of it may fit."""


@dataclass(slots=True)
class Findings:
    """What is wrong with values: how many there are of each kind, and the first row that has one."""

    found: dict[tuple[Path, str], tuple[int, int]] = field(default_factory=dict)

    def add(self, path: Path, what: str, wrong: pa.Array, row_of: RowOf) -> None:
        """Count the true positions of a mask, if any."""
        count = wrong.true_count
        if count:
            self._count(path, what, count, row_of(pc.index(wrong, True).as_py()))

    def include(self, other: Findings) -> None:
        """Count what another one counted, later in the same column."""
        for (path, what), (count, row) in other.found.items():
            self._count(path, what, count, row)

    def _count(self, path: Path, what: str, count: int, row: int) -> None:
        earlier, first = self.found.get((path, what), (0, row))
        self.found[path, what] = (earlier + count, min(first, row))

    def problems(self, first_row: int = 0) -> Iterator[str]:
        """The findings as messages; rows are numbered from ``first_row``."""
        for (path, what), (count, offset) in self.found.items():
            row = first_row + offset
            plural = "" if count == 1 else "s"
            where = f"in row {row}" if count == 1 else f"first in row {row}"
            text = f"null{plural} in a NOT NULL column" if what == NULLS else f"value{plural} with {what}"
            yield f"column {format_path(path)}: {count} {text} ({where})"


@dataclass(frozen=True, slots=True)
class Recast:
    """Rebuilds arrays.

    ``stored`` says that they come from a data file: members are found by physical name and values are
    trusted. Otherwise they are found by logical name, and what does not fit goes to ``findings``.
    """

    stored: bool
    findings: Findings = field(default_factory=Findings)

    def chunks(self, chunks: list[pa.Array], column: Field) -> list[pa.Array]:
        """The chunks of a column rebuilt; one that is too long for Arrow's offsets becomes several."""
        done: list[pa.Array] = []
        row = 0
        for chunk in chunks:
            done.extend(self._fitting(chunk, column, row))
            row += len(chunk)
        return done

    def _fitting(self, chunk: pa.Array, column: Field, first: int) -> list[pa.Array]:
        attempt = Recast(self.stored)
        try:
            array = attempt.member(chunk, column, (column.name,), first.__add__)
        except TooLongError:
            if len(chunk) == 1:
                raise DataError(f"column {format_path([column.name])}: row {first} alone has more than 2 GiB") from None
            half = len(chunk) // 2
            left = self._fitting(chunk.slice(0, half), column, first)
            return left + self._fitting(chunk.slice(half), column, first + half)
        self.findings.include(attempt.findings)
        return [array]

    def member(self, array: pa.Array, column: Field, path: Path, row_of: RowOf) -> pa.Array:
        """One column or struct member rebuilt; its nulls are findings if it may have none."""
        array = _decoded(array)
        if not self.stored and not column.nullable and array.null_count:
            self.findings.add(path, NULLS, array.is_null(), row_of)
        return self.array(array, column.type, path, row_of)

    def array(self, array: pa.Array, kind: Type, path: Path, row_of: RowOf) -> pa.Array:
        """The array as the type; the array itself if it is that already. Raises ``TooLongError``."""
        target = type_to_arrow(kind)
        if pat.is_null(array.type):
            return nulls(len(array), target)
        same = array.type.equals(target) and (not self.stored or target.equals(type_to_arrow(kind, physical=True)))
        if same and not has_hidden_nulls(array, kind):
            return array
        if isinstance(kind, Struct):
            return self._struct(array, kind, target, path, row_of)
        if isinstance(kind, Array):
            return self._list(array, kind, target, path, row_of)
        if isinstance(kind, Map):
            return self._map(array, kind, target, path, row_of)
        return self._value(array, kind, path, row_of)

    def _value(self, array: pa.Array, kind: Type, path: Path, row_of: RowOf) -> pa.Array:
        how = stored_conversion(array.type, kind) if self.stored else conversion(array.type, kind)
        if how is None:
            raise self._mismatch(array, kind, path)
        if how.loses is not None and not self.stored:
            lost = pc.fill_null(how.loses(array), False)
            if lost.true_count:
                self.findings.add(path, how.why, lost, row_of)
                array = pc.if_else(lost, pa.scalar(None, array.type), array)
        if how.steps and (pat.is_string(how.steps[-1]) or pat.is_binary(how.steps[-1])):
            array = _with_short_offsets(array)
        try:
            return how.apply(array)
        except pa.ArrowInvalid as error:
            raise (CorruptFileError if self.stored else DataError)(
                f"column {format_path(path)}: {array.type} values cannot become {type_ddl(kind)}: {error}"
            ) from error

    def _struct(self, array: pa.Array, kind: Struct, target: pa.DataType, path: Path, row_of: RowOf) -> pa.Array:
        if not pat.is_struct(array.type):
            raise self._mismatch(array, kind, path)
        children = []
        sources = sources_of([f.name for f in array.type], kind, stored=self.stored)
        for column, source, arrow in zip(kind, sources, target, strict=True):
            if source is None:
                child = nulls(len(array), arrow.type)
            else:
                child = self._child(array, source, column, (*path, column.name), row_of)
            # Nulls that are only there because the struct is null; Parquet writers refuse them.
            if not column.nullable and 0 < child.null_count <= array.null_count:
                child = without_nulls(child, column.type)
            children.append(child)
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)

    def _child(self, parent: pa.Array, source: int, column: Field, path: Path, row_of: RowOf) -> pa.Array:
        if not parent.null_count:
            return self.member(parent.field(source), column, path, row_of)
        # What lies below a null struct is not there: it is neither checked nor converted.
        child = _decoded(pc.struct_field(parent, [source]))
        if not self.stored and not column.nullable and child.null_count > parent.null_count:
            missing = pc.and_(child.is_null(), parent.is_valid())
            self.findings.add(path, NULLS, missing, row_of)
        return self.array(child, column.type, path, row_of)

    def _list(self, array: pa.Array, kind: Array, target: pa.DataType, path: Path, row_of: RowOf) -> pa.Array:
        if not is_list_like(array.type):
            raise self._mismatch(array, kind, path)
        offsets, mask = _layout(array)
        element = Field(ELEMENT, kind.element, kind.contains_null)
        values = self.member(array.flatten(), element, (*path, ELEMENT), _below(offsets, row_of))
        return pa.ListArray.from_arrays(offsets, values, type=target, mask=mask)

    def _map(self, array: pa.Array, kind: Map, target: pa.DataType, path: Path, row_of: RowOf) -> pa.Array:
        if not pat.is_map(array.type) and not is_entries(array.type):
            raise self._mismatch(array, kind, path)
        entries = _entries(array)
        offsets, mask = _layout(entries)
        flat = entries.flatten()
        inner = _below(offsets, row_of)
        key, value = members(kind)
        keys = self.member(pc.struct_field(flat, [0]), key, (*path, KEY), inner)
        if keys.null_count:
            keys = without_nulls(keys, kind.key)  # already a finding; Arrow would refuse to go on
        values = self.member(pc.struct_field(flat, [1]), value, (*path, VALUE), inner)
        return pa.MapArray.from_arrays(offsets, keys, values, type=target, mask=mask)

    def _mismatch(self, array: pa.Array, kind: Type, path: Path) -> CorruptFileError:
        """``conform`` leaves out columns of the wrong type, so only a data file gets here."""
        return CorruptFileError(
            f"column {format_path(path)}: a data file holds values of another type",
            expected=type_ddl(kind),
            found=str(array.type),
        )


def chunks_of(column: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    """The arrays that a column of a table or of a batch consists of.

    >>> len(chunks_of(pa.chunked_array([[1], [2]])))
    2
    """
    return list(column.chunks) if isinstance(column, pa.ChunkedArray) else [column]


def assemble(like: Rows, columns: list[list[pa.Array]], target: pa.Schema) -> Rows:
    """The columns as a table if ``like`` is one, else as a batch."""
    if isinstance(like, pa.Table):
        chunked = [pa.chunked_array(chunks, f.type) for chunks, f in zip(columns, target, strict=True)]
        return pa.Table.from_arrays(chunked, schema=target)
    if any(len(chunks) != 1 for chunks in columns):
        raise DataError(
            "a column of one batch has more than 2 GiB of text",
            fix="pass smaller batches, or a pyarrow.Table",
        )
    return pa.RecordBatch.from_arrays([chunks[0] for chunks in columns], schema=target)


def sources_of(names: list[str], struct: Struct, *, stored: bool) -> list[int | None]:
    """The position in ``names`` of each field of the struct: the exact name, else the only one that
    differs in case; for data files the physical name and nothing else.

    >>> from lakebed.core.schema import LONG
    >>> sources_of(["B", "a"], Struct((Field("a", LONG), Field("b", LONG))), stored=False)
    [1, 0]
    """
    exact = {name: i for i, name in enumerate(names)}
    if stored:
        return [exact.get(f.physical_name) for f in struct]
    folded: dict[str, int | None] = {}
    for i, name in enumerate(names):
        key = name.casefold()
        folded[key] = None if key in folded else i
    return [exact.get(f.name, folded.get(f.name.casefold())) for f in struct]


def nulls(length: int, kind: pa.DataType) -> pa.Array:
    """So many nulls. Required members below a null are filled, because Parquet writers refuse nulls there.

    >>> nulls(2, pa.struct([pa.field("zip", pa.string(), nullable=False)])).field(0).null_count
    0
    """
    if not pat.is_nested(kind):
        return pa.nulls(length, kind)
    return pa.array([None], kind).take(pa.repeat(pa.scalar(0, pa.int64()), length))


def has_hidden_nulls(array: pa.Array, kind: Type) -> bool:
    """Whether a member that may not be null has nulls anywhere, even where its parent is null.

    Parquet writers refuse such arrays, so they are rebuilt.
    """
    if isinstance(kind, Struct):
        below = [array.field(i) for i in range(len(kind))]
    elif isinstance(kind, Array):
        below = [array.flatten()]
    elif isinstance(kind, Map):
        below = [array.keys, array.items]
    else:
        return False
    return any(
        (not member.nullable and child.null_count > 0) or has_hidden_nulls(child, member.type)
        for member, child in zip(members(kind), below, strict=True)
    )


def without_nulls(array: pa.Array, kind: Type) -> pa.Array:
    """The array with some value in place of each null, for places that nobody can read."""
    if isinstance(kind, Struct):
        children = []
        for i, member in enumerate(kind):
            child = array.field(i)
            hidden = not member.nullable and child.null_count
            children.append(without_nulls(child, member.type) if hidden else child)
        return pa.StructArray.from_arrays(children, fields=list(array.type))
    if isinstance(kind, Array):
        return pa.ListArray.from_arrays(_layout(array)[0], array.flatten(), type=array.type)
    if isinstance(kind, Map):
        entries = _entries(array)
        offsets, flat = _layout(entries)[0], entries.flatten()
        return pa.MapArray.from_arrays(offsets, flat.field(0), flat.field(1), type=array.type)
    empty: object = 0
    if pat.is_string(array.type):
        empty = ""
    elif pat.is_binary(array.type):
        empty = b""
    elif pat.is_boolean(array.type):
        empty = False
    return pc.fill_null(array, pa.scalar(empty, array.type))


def _layout(lists: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """The offsets of lists into their flattened values, and which lists are null."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).cast(pa.int64())
    ends = pc.cumulative_sum(lengths)
    if len(ends) and ends[-1].as_py() > OFFSET_LIMIT:
        raise TooLongError
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends.cast(pa.int32())])
    return offsets, lists.is_null() if lists.null_count else None


def _below(offsets: pa.Array, row_of: RowOf) -> RowOf:
    """The row of an element: that of the last list which starts at or before it."""
    ends = offsets.slice(1)
    return lambda position: row_of(pc.sum(pc.less_equal(ends, position), min_count=0).as_py())


def _entries(array: pa.Array) -> pa.Array:
    """A map as a list of structs of key and value; what ``is_entries`` is one already."""
    if not pat.is_map(array.type):
        return array
    values = array.values
    kind = pa.list_(values.type)
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, [values])


def is_entries(kind: pa.DataType) -> bool:
    """Whether an Arrow type is a list of structs of a key and a value, in that order.

    Systems without a map type, such as polars, have that instead.
    """
    if not is_list_like(kind) or not pat.is_struct(kind.value_type):
        return False
    return [f.name.casefold() for f in kind.value_type] == [KEY, VALUE]


def _decoded(array: pa.Array) -> pa.Array:
    """The plain values of dictionaries, run-end encodings and extension types; only these know their nulls."""
    while True:
        if pat.is_dictionary(array.type):
            _check_decoded_size(array)
            array = array.dictionary_decode()
        elif pat.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        elif isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        else:
            return array


def _check_decoded_size(array: pa.Array) -> None:
    values = array.dictionary
    if pat.is_string(values.type) or pat.is_binary(values.type):
        longest = pc.max(pc.binary_length(values)).as_py() or 0
        if longest * len(array) > OFFSET_LIMIT:
            raise TooLongError


def _with_short_offsets(array: pa.Array) -> pa.Array:
    """The text or bytes such that 32-bit offsets will do, or ``TooLongError``."""
    if pat.is_fixed_size_binary(array.type):
        size = len(array) * array.type.byte_width
    elif array.nbytes <= OFFSET_LIMIT:
        size = 0
    else:
        size = pc.sum(pc.binary_length(array)).as_py() or 0
    if size > OFFSET_LIMIT:
        raise TooLongError
    # A slice of a long array keeps the long array's offsets; a copy starts at zero.
    buffers = array.buffers()
    if len(buffers) == 3 and buffers[2] is not None and buffers[2].size > OFFSET_LIMIT:
        return pa.concat_arrays([array])
    return array
