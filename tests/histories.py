"""Seeded random histories of one table: every kind of write and of schema change, with awkward values."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import lakebed

DDL = (
    "id BIGINT NOT NULL, part STRING, day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ, price DECIMAL(12,3), n INT, "
    "x FLOAT, flag BOOLEAN, raw BINARY, tags ARRAY<INT>, who STRUCT<name: STRING, age: INT>, counts MAP<STRING, BIGINT>"
)
PARTITIONS: dict[str, list[str]] = {
    "none": [],
    "one": ["part"],
    "several": ["day", "part", "price", "flag"],
    "times": ["at", "wall", "n", "x"],
}
NEW_TYPES = ("INT", "STRING", "DECIMAL(12,3)", "TIMESTAMP_NTZ", "ARRAY<INT>", "DOUBLE", "MAP<STRING, BIGINT>")
WIDER = {"INT": "BIGINT", "FLOAT": "DOUBLE", "DECIMAL(12,3)": "DECIMAL(20,5)"}
KEYS = 40

_ODD_TEXTS = ["a", "b", "ü/x=1 %", "c%20d", "e+f&g", "#?'\"", "null", " lead", "a:b", "日本", "x" * 100]
_BASE = dt.datetime(2026, 11, 15, 10, 20, 30, 123456)
_INSTANTS = [_BASE, dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2100, 2, 28), dt.datetime(1900, 1, 1)]
_VALUES: dict[str, Callable[[random.Random], Any]] = {
    "BIGINT": lambda r: r.choice([0, 1, -1, 2**63 - 1, -(2**63), r.randrange(1000)]),
    "INT": lambda r: r.choice([0, 7, -7, 2**31 - 1, -(2**31)]),
    "STRING": lambda r: r.choice(_ODD_TEXTS),
    "DATE": lambda r: r.choice([dt.date(2026, 11, 15), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31)]),
    "TIMESTAMP": lambda r: r.choice(_INSTANTS).replace(tzinfo=dt.UTC),
    "TIMESTAMP_NTZ": lambda r: r.choice(_INSTANTS),
    "DECIMAL(12,3)": lambda r: r.choice([Decimal("0.000"), Decimal("-1.500"), Decimal("123456789.125")]),
    "DECIMAL(20,5)": lambda r: r.choice([Decimal("0.00000"), Decimal("123456789012.12345")]),
    "FLOAT": lambda r: r.choice([0.0, 0.5, -2.25, 1.5e10, float("inf")]),
    "DOUBLE": lambda r: r.choice([0.0, 0.1, -1e300, float("inf")]),
    "BOOLEAN": lambda r: r.random() < 0.5,
    "BINARY": lambda r: r.choice([b"", b"\x00\xff", b"text"]),
    "ARRAY<INT>": lambda r: [r.choice([None, 1, -5]) for _ in range(r.randrange(3))],
    "STRUCT<name: STRING, age: INT>": lambda r: {"name": r.choice([None, "ann"]), "age": r.choice([None, 5])},
    "MAP<STRING, BIGINT>": lambda r: [(k, r.choice([None, 2**40])) for k in r.sample(["k", "ü", ""], r.randrange(3))],
}


def split_ddl(ddl: str) -> dict[str, str]:
    """The columns of ``DDL``: name to type."""
    columns: dict[str, str] = {}
    depth, text = 0, ""
    for character in ddl + ",":
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            name, _, kind = text.strip().partition(" ")
            columns[name] = kind.removesuffix(" NOT NULL")
            text = ""
        else:
            text += character
    return columns


@dataclass
class RandomHistory:
    """Changes ``table`` by steps; the same seed makes the same steps."""

    table: lakebed.Table
    seed: int
    partition_by: list[str]
    columns: dict[str, str] = field(default_factory=lambda: split_ddl(DDL))
    done: list[str] = field(default_factory=list)
    """The names of the steps so far."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    @classmethod
    def begin(cls, lake: lakebed.Warehouse, seed: int, partitions: str, **properties: Any) -> RandomHistory:
        chosen = PARTITIONS[partitions]
        settings = {name.replace("_", "-"): value for name, value in properties.items()}
        return cls(lake.create_table("t", DDL, partition_by=chosen, properties=settings), seed, chosen)

    def run(self, steps: int, *, plain: int) -> None:
        """The first ``plain`` steps use only what the simplest reader knows."""
        for number in range(steps):
            choices = self._plain_steps() if number < plain else self._plain_steps() + self._evolving_steps()
            step = self.random.choice(choices)
            step()
            self.done.append(step.__name__.strip("_"))

    def _plain_steps(self) -> list[Callable[[], None]]:
        steps = [
            self.append, self.append, self.append_many, self.overwrite, self.overwrite_where, self.delete, self.delete,
            self.delete_scattered, self.delete_partition_or_text, self.restore, self.add_column, self.note,
        ]  # fmt: skip
        return [*steps, self.overwrite_dynamic] if self.partition_by else steps

    def _evolving_steps(self) -> list[Callable[[], None]]:
        return [self.rename_column, self.drop_column, self.widen_column] * 2

    def rows(self, count: int, **fixed: Any) -> list[dict[str, Any]]:
        return [self._row(**fixed) for _ in range(count)]

    def _row(self, **fixed: Any) -> dict[str, Any]:
        row: dict[str, Any] = {"id": self.random.randrange(KEYS)}
        for name, kind in self.columns.items():
            if name != "id" and self.random.random() < 0.8:
                row[name] = _VALUES[kind](self.random)
        return row | fixed

    def append(self) -> None:
        self.table.append(self.rows(self.random.randrange(1, 6)), txn=("loader", len(self.done)))

    def append_many(self) -> None:
        """One file with enough rows for a deletion vector that does not fit into the log."""
        fixed: dict[str, Any] = dict.fromkeys(self.partition_by)
        self.table.append([self._row(**fixed) | {"id": i % KEYS} for i in range(400)])

    def overwrite(self) -> None:
        self.table.overwrite(self.rows(self.random.randrange(6)))

    def overwrite_where(self) -> None:
        key = self.random.randrange(KEYS)
        self.table.overwrite(self.rows(2, id=key), where=f"id = {key}")

    def overwrite_dynamic(self) -> None:
        self.table.overwrite(self.rows(3), where="dynamic")

    def delete(self) -> None:
        self.table.delete(f"id {self.random.choice(['<', '>', '='])} {self.random.randrange(KEYS)}")

    def delete_scattered(self) -> None:
        keys = ", ".join(str(k) for k in self.random.sample(range(KEYS), 9))
        self.table.delete(f"id in ({keys})")

    def delete_partition_or_text(self) -> None:
        texts = [name for name, kind in self.columns.items() if kind == "STRING"]
        if texts:
            value = self.random.choice(_ODD_TEXTS[:4])
            self.table.delete(f"`{texts[0]}` = '{value}'")

    def restore(self) -> None:
        version = self.random.randint(0, self.table.version)
        self.table.restore(version)
        self.columns = self._columns_now()

    def _columns_now(self) -> dict[str, str]:
        from lakebed.core.schema_ddl import type_ddl

        known = {type_name(kind): kind for kind in _VALUES}
        schema = self.table._point().metadata.schema
        return {f.name: known[type_name(type_ddl(f.type))] for f in schema}

    def add_column(self) -> None:
        if len(self.columns) > 18:
            return
        name, kind = f"c{len(self.done)}_{self.table.version}", self.random.choice(NEW_TYPES)
        self.table.alter(add={name: kind})
        self.columns[name] = kind

    def note(self) -> None:
        self.table.alter(properties={"team.note": f"ü {len(self.done)}"}, comment=f"step {len(self.done)}")

    def rename_column(self) -> None:
        old = self.random.choice([name for name in self.columns if name not in {"id", *self.partition_by}])
        new = f"ä b.{len(self.done)}"
        self.table.alter(rename={f"`{old}`": new})
        self.columns = {new if name == old else name: kind for name, kind in self.columns.items()}

    def drop_column(self) -> None:
        name = self.random.choice([name for name in self.columns if name not in {"id", *self.partition_by}])
        self.table.alter(drop=[f"`{name}`"])
        del self.columns[name]

    def widen_column(self) -> None:
        narrow = [name for name, kind in self.columns.items() if kind in WIDER and name not in self.partition_by]
        if narrow:
            name = self.random.choice(narrow)
            self.columns[name] = WIDER[self.columns[name]]
            self.table.alter(widen={f"`{name}`": self.columns[name]})


def type_name(text: str) -> str:
    """A type's SQL text without what may be written in two ways."""
    return text.lower().replace(" ", "").replace("`", "")
