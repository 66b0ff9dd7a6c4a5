"""A reader of Lakebed's tables that was written from docs/explanation/format.md alone, with pyarrow and json.

It imports nothing of Lakebed. It is slow and small on purpose: a second opinion on what a table holds.
"""

import base64
import json
import struct
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

UNSETTLED = "lakebed.unsettled:"
KNOWN_FEATURES = {"deletionVectors", "columnMapping", "timestampNtz", "typeWidening"}
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

ARROW = {
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "string": pa.string(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}


class State:
    """The log up to a version, applied."""

    def __init__(self, table: Path, version: int | None = None) -> None:
        self.table = table
        self.meta: dict[str, Any] = {}
        self.files: dict[str, dict[str, Any]] = {}
        self.domains: dict[str, str] = {}
        log = table / "_delta_log"
        last = max(int(p.stem) for p in log.glob("*.json")) if version is None else version
        starts = [int(p.name[:20]) for p in log.glob("*.checkpoint.parquet")]
        start = max((s for s in starts if s <= last), default=-1)
        if start >= 0:
            for row in pq.read_table(log / f"{start:020}.checkpoint.parquet").to_pylist():
                self._apply({name: body for name, body in row.items() if body is not None and name != "remove"})
        for number in range(start + 1, last + 1):
            for line in (log / f"{number:020}.json").read_text("utf-8").splitlines():
                self._apply(json.loads(line))

    def _apply(self, entry: dict[str, Any]) -> None:
        for name, body in entry.items():
            if name == "protocol":
                unknown = set(body["readerFeatures"] or ()) - KNOWN_FEATURES
                assert not unknown, f"cannot read {unknown}"
            elif name == "metaData":
                self.meta = body | {"configuration": dict(body["configuration"])}
            elif name == "add":
                self.files[body["path"]] = _plain(body)
            elif name == "remove":
                known = self.files.get(body["path"])
                if known is not None and _vector_id(known) == _vector_id(body):
                    del self.files[body["path"]]
            elif name == "domainMetadata":
                if body.get("removed"):
                    self.domains.pop(body["domain"], None)
                else:
                    self.domains[body["domain"]] = body["configuration"]

    @property
    def fields(self) -> list[dict[str, Any]]:
        return list(json.loads(self.meta["schemaString"])["fields"])

    @property
    def unsettled(self) -> list[dict[str, Any]]:
        found = [json.loads(text) for name, text in self.domains.items() if name.startswith(UNSETTLED)]
        return sorted(found, key=lambda add: add["baseRowId"])

    def setting(self, name: str) -> list[str]:
        """The present names of the columns that a setting names by physical name."""
        present = {self.physical(f): f["name"] for f in self.fields}
        return [present[p] for p in json.loads(self.meta["configuration"].get(f"lakebed.{name}", "[]"))]

    def physical(self, field: dict[str, Any]) -> str:
        mapped = self.meta["configuration"].get("delta.columnMapping.mode", "none") == "name"
        return str(field["metadata"]["delta.columnMapping.physicalName"] if mapped else field["name"])

    def rows(self, add: dict[str, Any]) -> list[dict[str, Any]]:
        """All rows of a file, dead ones too, by present names, with their kind."""
        data = pq.ParquetFile(self.table / unquote(add["path"])).read()
        columns: dict[str, Any] = {}
        for field in self.fields:
            name, kind = self.physical(field), ARROW[field["type"]]
            if field["name"] in self.meta["partitionColumns"]:
                text = add["partitionValues"].get(name)
                columns[field["name"]] = pa.array([text or None] * data.num_rows, pa.string()).cast(kind)
            elif name in data.column_names:
                columns[field["name"]] = data[name].cast(kind)
            else:
                columns[field["name"]] = pa.nulls(data.num_rows, kind)
        columns["kind"] = data["_lakebed_kind"] if "_lakebed_kind" in data.column_names else pa.nulls(data.num_rows)
        return list(pa.table(columns).to_pylist())

    def dead(self, add: dict[str, Any]) -> set[int]:
        vector = add.get("deletionVector")
        if not vector:
            return set()
        size = vector["sizeInBytes"]
        if vector["storageType"] == "i":
            return positions(unz85(vector["pathOrInlineDv"])[:size])
        assert vector["storageType"] == "u"
        folder, name = vector["pathOrInlineDv"][:-20], uuid.UUID(bytes=unz85(vector["pathOrInlineDv"][-20:]))
        file = (self.table / folder / f"deletion_vector_{name}.bin").read_bytes()
        at = vector["offset"]
        assert file[0] == 1
        assert struct.unpack(">i", file[at : at + 4])[0] == size
        return positions(file[at + 4 : at + 4 + size])


def read(table: Path, version: int | None = None) -> list[dict[str, Any]]:
    """The rows of a version, in no particular order."""
    state = State(table, version)
    key, sequence = state.setting("primary-key"), state.setting("sequence")
    names = [f["name"] for f in state.fields]
    live: dict[Any, dict[str, Any]] = {}
    gone: dict[Any, tuple[Any, ...]] = {}
    for add in state.files.values():
        dead = state.dead(add)
        tags = add.get("tags") or {}
        past = positions(base64.b64decode(tags.get("lakebed.replaced-tombstones") or _NOTHING))
        for position, row in enumerate(state.rows(add)):
            own = tuple(row[name] for name in key) or (add["path"], position)
            if position not in dead:
                assert own not in live, "a key is in the settled state once"
                live[own] = row
            elif sequence and "lakebed.tombstones" in tags and row["kind"] in (1, 3) and position not in past:
                assert own not in gone, "a key has one tombstone that counts"
                gone[own] = _order(row, sequence)
    candidates: dict[Any, list[dict[str, Any]]] = {}
    for add in state.unsettled:
        assert not add.get("deletionVector")
        for row in state.rows(add):
            candidates.setdefault(tuple(row[name] for name in key), []).append(row)
    engine = state.meta["configuration"].get("lakebed.merge-engine")
    for own, rows in candidates.items():
        if engine == "first-row":
            puts = [row for row in rows if row["kind"] not in (1, 3)]
            if own not in live and puts:
                live[own] = puts[0]
            continue
        assert engine == "deduplicate", f"this reader does not fold {engine}"
        best = max(enumerate(rows), key=lambda pair: (_order(pair[1], sequence), pair[0]))[1]
        present = _order(live[own], sequence) if own in live else gone.get(own)
        if present is None or _order(best, sequence) >= present:
            live.pop(own, None)
            if best["kind"] not in (1, 3):
                live[own] = best
    return [{name: row[name] for name in names} for row in live.values()]


def _order(row: dict[str, Any], sequence: list[str]) -> tuple[Any, ...]:
    """A sequence as something that Python compares; null is lowest."""
    return tuple((row[name] is not None, row[name] if row[name] is not None else 0) for name in sequence)


def _plain(add: dict[str, Any]) -> dict[str, Any]:
    """An add of the log or of a checkpoint, whose maps come as lists of pairs."""
    return add | {name: dict(add[name]) for name in ("tags", "partitionValues") if add.get(name)}


def _vector_id(action: dict[str, Any]) -> Any:
    vector = action.get("deletionVector")
    return vector and (vector["storageType"], vector["pathOrInlineDv"], vector.get("offset"))


def unz85(text: str) -> bytes:
    out = bytearray()
    for at in range(0, len(text), 5):
        value = 0
        for character in text[at : at + 5]:
            value = value * 85 + Z85.index(character)
        out += struct.pack(">I", value)
    return bytes(out)


_MAGIC = 1681511377
_NOTHING = base64.b64encode(struct.pack("<iQ", _MAGIC, 0))


def positions(data: bytes) -> set[int]:
    """A 64-bit Roaring bitmap in the portable format."""
    magic, count = struct.unpack_from("<iQ", data)
    assert magic == _MAGIC
    found: set[int] = set()
    at = 12
    for _ in range(count):
        (high,) = struct.unpack_from("<I", data, at)
        at = _short_bitmap(data, at + 4, high << 32, found)
    return found


def _short_bitmap(data: bytes, at: int, base: int, found: set[int]) -> int:
    """A 32-bit Roaring bitmap from ``at`` on; where it ends."""
    (cookie,) = struct.unpack_from("<I", data, at)
    if cookie & 0xFFFF == 12347:
        size = (cookie >> 16) + 1
        runs = data[at + 4 : at + 4 + (size + 7) // 8]
        at += 4 + len(runs)
    else:
        assert cookie == 12346
        (size,) = struct.unpack_from("<I", data, at + 4)
        runs = bytes((size + 7) // 8)
        at += 8
    heads = [struct.unpack_from("<HH", data, at + 4 * n) for n in range(size)]
    at += 4 * size + (4 * size if cookie == 12346 or size >= 4 else 0)  # the offsets, which a full read does not need
    for number, (high, less_one) in enumerate(heads):
        start = base | high << 16
        if runs[number // 8] >> number % 8 & 1:
            (length,) = struct.unpack_from("<H", data, at)
            for run in range(length):
                first, more = struct.unpack_from("<HH", data, at + 2 + 4 * run)
                found.update(range(start + first, start + first + more + 1))
            at += 2 + 4 * length
        elif less_one < 4096:
            found.update(start + n for n in struct.unpack_from(f"<{less_one + 1}H", data, at))
            at += 2 * (less_one + 1)
        else:
            words = data[at : at + 8192]
            found.update(start + 8 * n + bit for n, byte in enumerate(words) for bit in range(8) if byte >> bit & 1)
            at += 8192
    return at


def spark_hash(values: list[Any], kinds: list[str]) -> int:
    """The hash of a key; unsigned."""
    h = 42
    for value, kind in zip(values, kinds, strict=True):
        if value is None:
            continue
        if kind == "string":
            data = value.encode()
            whole = len(data) // 4 * 4
            words = [struct.unpack_from("<I", data, at)[0] for at in range(0, whole, 4)]
            words += [byte - 256 if byte > 127 else byte for byte in data[whole:]]
            length = len(data)
        elif kind == "long":
            words, length = [value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF], 8
        else:
            words, length = [value], 4
        for word in words:
            k = _rotl(word * 0xCC9E2D51, 15) * 0x1B873593 & 0xFFFFFFFF
            h = _rotl(h ^ k, 13) * 5 + 0xE6546B64 & 0xFFFFFFFF
        h ^= length
        h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
        h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
        h ^= h >> 16
    return h


def _rotl(word: int, by: int) -> int:
    word &= 0xFFFFFFFF
    return (word << by | word >> 32 - by) & 0xFFFFFFFF
