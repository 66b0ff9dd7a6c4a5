"""The serialised form of an Arrow expression, taken apart and put together again.

``Expression`` has no public way to look inside, but it pickles: as an Arrow IPC file whose schema metadata
lists, in pre-order, ``call``/``end`` with a function's name, ``field_ref`` with a column's name,
``nested_field_ref`` with a number of names to follow, and ``literal``/``options`` with the index of the
column that holds the value. The keys repeat, so the metadata is read through the Arrow C data interface;
pyarrow's own view of it is a dict.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


class WireError(Exception):
    """The serialised form is not the one that this module knows."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function call; ``options`` are its named settings. ``span`` is its part of the serialised form."""

    name: str
    args: tuple[Part, ...]
    options: dict[str, Any] | None
    span: tuple[int, int]


@dataclass(frozen=True, slots=True)
class FieldRef:
    """A column, or a member of a struct column."""

    path: tuple[str, ...]
    span: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    value: pa.Scalar
    span: tuple[int, int]


Part = Call | FieldRef | Constant


@dataclass(frozen=True, slots=True)
class Wire:
    """A decoded expression: its tree, and what is needed to cut expressions out of it."""

    root: Part
    tokens: tuple[tuple[str, str], ...]
    values: pa.RecordBatch | None
    restore: Callable[[pa.Buffer], pc.Expression]

    def cut(self, part: Part) -> pc.Expression:
        """The part as an expression of its own; raises WireError."""
        start, stop = part.span
        metadata = pa.KeyValueMetadata(list(self.tokens[start:stop]))
        batch = self.values.replace_schema_metadata(metadata) if self.values is not None else None
        sink = pa.BufferOutputStream()
        schema = batch.schema if batch is not None else pa.schema([], metadata)
        with pa.ipc.new_file(sink, schema) as writer:
            if batch is not None:
                writer.write_batch(batch)
        try:
            return self.restore(sink.getvalue())
        except pa.ArrowException as error:
            raise WireError("the part cannot be restored") from error


def decode(expression: pc.Expression) -> Wire:
    """The expression taken apart; raises WireError when its form is not the known one."""
    try:
        restore, (buffer,) = expression.__reduce__()
        reader = pa.ipc.open_file(buffer)
        values = reader.get_batch(0) if reader.num_record_batches else None
        tokens = _metadata(reader.schema)
        root, end = _part(tokens, 0, values)
    except (pa.ArrowException, ValueError, IndexError, TypeError, AttributeError) as error:
        raise WireError(f"the serialised expression cannot be read: {error}") from error
    if end != len(tokens):
        raise WireError("the serialised expression has something after its end")
    return Wire(root, tokens, values, restore)


def _part(tokens: tuple[tuple[str, str], ...], at: int, values: pa.RecordBatch | None) -> tuple[Part, int]:
    key, value = tokens[at]
    if key == "literal" and values is not None:
        return Constant(values.column(int(value))[0], (at, at + 1)), at + 1
    if key == "field_ref":
        return FieldRef((value,), (at, at + 1)), at + 1
    if key == "nested_field_ref":
        stop = at + 1 + int(value)
        names = tokens[at + 1 : stop]
        if any(k != "field_ref" for k, _ in names) or len(names) != int(value):
            raise ValueError(f"nested reference {names}")
        return FieldRef(tuple(name for _, name in names), (at, stop)), stop
    if key != "call":
        raise ValueError(f"unknown entry {key!r}")
    return _call(tokens, at, values)


def _call(tokens: tuple[tuple[str, str], ...], at: int, values: pa.RecordBatch | None) -> tuple[Part, int]:
    name = tokens[at][1]
    args: list[Part] = []
    options: dict[str, Any] | None = None
    stop = at + 1
    while tokens[stop][0] != "end":
        if tokens[stop][0] == "options":
            assert values is not None
            packed = values.column(int(tokens[stop][1]))[0]
            options = {field.name: packed[field.name] for field in packed.type}
            stop += 1
        else:
            part, stop = _part(tokens, stop, values)
            args.append(part)
    if tokens[stop][1] != name:
        raise ValueError(f"{name!r} ends as {tokens[stop][1]!r}")
    return Call(name, tuple(args), options, (at, stop + 1)), stop + 1


class _CSchema(ctypes.Structure):
    # The head of `struct ArrowSchema` of the C data interface, which is a stable ABI.
    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _metadata(schema: pa.Schema) -> tuple[tuple[str, str], ...]:
    """The entries of the schema's metadata, in order, with repeated keys."""
    capsule = schema.__arrow_c_schema__()
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address = _CSchema.from_address(pointer_of(capsule, b"arrow_schema")).metadata
    if not address:
        raise ValueError("no metadata")
    count = ctypes.c_int32.from_address(address).value
    texts: list[str] = []
    address += 4
    for _ in range(2 * count):
        length = ctypes.c_int32.from_address(address).value
        texts.append(ctypes.string_at(address + 4, length).decode())
        address += 4 + length
    return tuple(zip(texts[::2], texts[1::2], strict=True))
