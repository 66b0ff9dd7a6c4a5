"""What tasks report: rows that Spark hands to the driver only from attempts that succeeded."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from lakebed.core.actions import AddFile, from_object, to_object
from lakebed.core.commit import Bucket
from lakebed.core.errors import LakebedError
from lakebed.engine.settlement import Matched, made_for
from lakebed.engine.unit import Unit
from lakebed.storage.deletion_vector import decode, encode

ROWS = "task INT, attempt INT, kind STRING, body STRING, data BINARY"
_ARROW = pa.schema(
    [("task", pa.int32()), ("attempt", pa.int32()), ("kind", pa.string()), ("body", pa.string()), ("data", pa.binary())]
)
_DONE, _FILE, _MATCHED, _CARRIED, _ERROR = "done", "file", "matched", "carried", "error"


@dataclass(frozen=True)
class Message:
    """What one task of a write has done."""

    task: int
    attempt: int
    rows: int = 0
    deletes: int = 0
    splits: tuple[Bucket, ...] = ()
    partitions: frozenset[str] = frozenset()
    files: tuple[AddFile, ...] = field(default=(), hash=False)
    """In the order in which they have to be folded into the table."""
    matched: tuple[Matched, ...] = field(default=(), hash=False)
    carried: bytes = field(default=b"", repr=False)
    """The task's rows, in Arrow's format, if they are so few that the driver writes them; then it has made no file."""
    error: LakebedError | None = None
    """Why the rows cannot be written, whoever tries; the task has removed its files."""

    @property
    def paths(self) -> list[str]:
        """The files that the task made."""
        return [*(add.file_path for add in self.files), *(path for one in self.matched for path in made_for(one))]


def to_rows(message: Message) -> pa.RecordBatch:
    """The message as rows of one batch."""
    done = {
        "rows": message.rows,
        "deletes": message.deletes,
        "splits": message.splits,
        "partitions": sorted(message.partitions),
    }
    rows: list[tuple[str, str | None, bytes | None]] = [(_DONE, _text(done), None)]
    rows += [(_FILE, _text(to_object(add)), None) for add in message.files]
    rows += [_matched_row(one) for one in message.matched]
    if message.carried:
        rows.append((_CARRIED, None, message.carried))
    if message.error is not None:
        rows.append((_ERROR, str(message.error), pickle.dumps(message.error)))
    columns = [[message.task] * len(rows), [message.attempt] * len(rows), *map(list, zip(*rows, strict=True))]
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, _ARROW, strict=True)], schema=_ARROW)


def files_in(rows: pa.RecordBatch) -> dict[str, int]:
    """How many files a message tells of.

    >>> files_in(to_rows(Message(task=0, attempt=0)))
    {'files': 0}
    """
    return {"files": rows.column("kind").to_pylist().count(_FILE)}


def from_rows(table: pa.Table) -> list[Message]:
    """The messages of all tasks, by the number of the task, which is the order of the rows that they had."""
    found: dict[int, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        found.setdefault(row["task"], []).append(row)
    return [_message(found[task]) for task in sorted(found)]


def _message(rows: Sequence[dict[str, Any]]) -> Message:
    def bodies(kind: str) -> list[tuple[str, bytes]]:
        return [(row["body"], row["data"] or b"") for row in rows if row["kind"] == kind]

    done = json.loads(bodies(_DONE)[0][0])
    errors = [pickle.loads(data) for _, data in bodies(_ERROR)]
    return Message(
        task=rows[0]["task"],
        attempt=rows[0]["attempt"],
        rows=done["rows"],
        deletes=done["deletes"],
        splits=tuple((place, number) for place, number in done["splits"]),
        partitions=frozenset(done["partitions"]),
        files=tuple(from_object(AddFile, json.loads(body)) for body, _ in bodies(_FILE)),
        matched=tuple(_matched(json.loads(body), data) for body, data in bodies(_MATCHED)),
        carried=b"".join(data for _, data in bodies(_CARRIED)),
        error=errors[0] if errors else None,
    )


def _matched_row(one: Matched) -> tuple[str, str, bytes]:
    vectors: list[bytes] = []

    def entries(files: Sequence[tuple[AddFile, BitMap64]]) -> list[tuple[dict[str, Any], int]]:
        parts = [encode(dead) if dead else b"" for _, dead in files]
        vectors.extend(parts)
        return [(to_object(add), len(part)) for (add, _), part in zip(files, parts, strict=True)]

    body = {
        "place": one.unit.place,
        "numbers": sorted(one.unit.numbers),
        "leaving": [to_object(add) for add in one.leaving],
        "staying": entries(one.staying),
        "fresh": entries(one.fresh),
        "deleted": one.deleted,
    }
    return _MATCHED, _text(body), b"".join(vectors)


def _matched(body: dict[str, Any], data: bytes) -> Matched:
    start = 0

    def files(entries: Sequence[tuple[dict[str, Any], int]]) -> Iterator[tuple[AddFile, BitMap64]]:
        nonlocal start
        for entry, size in entries:
            add: AddFile = from_object(AddFile, entry)
            yield add, decode(data[start : start + size], f"dead rows of {add.path}") if size else BitMap64()
            start += size

    return Matched(
        unit=Unit(body["place"], frozenset(body["numbers"])),
        leaving=[from_object(AddFile, entry) for entry in body["leaving"]],
        staying=list(files(body["staying"])),
        fresh=list(files(body["fresh"])),
        deleted=body["deleted"],
    )


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
