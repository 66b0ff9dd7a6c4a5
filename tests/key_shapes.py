"""Kinds of primary-key tables for random histories: key, buckets, merge engine, sequences, and fitting rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from key_batch import LSN, Batch
from key_functions import Function
from key_merge import RETRACTS, Group, Key, Rules
from key_model import KeyModel, Test
from key_reading import literal, sql_order
from model import ModelColumn

MERGES = ("on-write", "on-read", "copy-on-write")
ENGINES = ("deduplicate", "first-row", "partial-update", "aggregation")
WIDER = {"INT": "BIGINT", "FLOAT": "DOUBLE", "DATE": "TIMESTAMP_NTZ"}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BIGINT": st.integers(-1000, 1000),
    "INT": st.integers(-5, 5),
    "FLOAT": st.sampled_from([0.0, 0.5, -2.25]),
    "DOUBLE": st.sampled_from([0.5, 1.0, 2.0, -4.0]),
    "STRING": st.sampled_from(["", "a", "b", "ü", "日本"]),
    "DATE": st.dates(dt.date(1970, 1, 1), dt.date(1970, 1, 4)),
    "TIMESTAMP_NTZ": st.sampled_from([dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2026, 11, 15)]),
    "DECIMAL(18,3)": st.decimals(-10, 10, places=3, allow_nan=False),
    "BOOLEAN": st.booleans(),
    "ARRAY<INT>": st.lists(st.integers(0, 3), max_size=3),
    "MAP<STRING, BIGINT>": st.dictionaries(st.sampled_from(["k", "ü", ""]), st.integers(0, 9), max_size=2),
    "ARRAY<STRUCT<n: INT, x: STRING>>": st.lists(
        st.fixed_dictionaries({"n": st.integers(0, 2), "x": st.sampled_from(["a", "b"])}), max_size=2
    ),
}
ASKED = frozenset({"BIGINT", "INT", "STRING", "DATE", "BOOLEAN", "BINARY"})
"""Types of columns that predicates ask for."""
WORDS = st.sampled_from(["a", "b", "c"])
PARTS = st.sampled_from(["a", "b", "ü/x=1 %"])
IDS: dict[str, st.SearchStrategy[Any]] = {
    "BIGINT": st.integers(-1, 6),
    "STRING": st.sampled_from(["", "a", "b", "ab", "ü", "日本"]),
    "DATE": VALUES["DATE"],
    "BINARY": st.sampled_from([b"", b"\x00", b"\xff\x00"]),
    "DECIMAL(18,3)": st.sampled_from([Decimal("0.000"), Decimal("-1.500"), Decimal("123456789.125")]),
    "BOOLEAN": st.booleans(),
}
FUNCTIONS: dict[str, tuple[str, Function, dict[str, str]]] = {
    "total": ("BIGINT", Function("sum"), {}),
    "price": ("DECIMAL(18,3)", Function("sum"), {}),
    "product": ("DOUBLE", Function("product"), {}),
    "lowest": ("INT", Function("min", ignore_retract=True), {"ignore-retract": "true"}),
    "highest": ("STRING", Function("max", ignore_retract=True), {"ignore-retract": "true"}),
    "number": ("BIGINT", Function("count"), {}),
    "first": ("STRING", Function("first_value", ignore_retract=True), {"ignore-retract": "true"}),
    "firstset": ("INT", Function("first_non_null_value", ignore_retract=True), {"ignore-retract": "true"}),
    "last": ("STRING", Function("last_value"), {}),
    "lastset": ("INT", Function("last_non_null_value"), {}),
    "every": ("BOOLEAN", Function("bool_and", ignore_retract=True), {"ignore-retract": "true"}),
    "some": ("BOOLEAN", Function("bool_or"), {}),
    "words": ("STRING", Function("listagg", delimiter=";"), {"list-agg-delimiter": ";"}),
    "bag": ("ARRAY<INT>", Function("collect"), {}),
    "set": ("ARRAY<INT>", Function("collect", distinct=True), {"distinct": "true"}),
    "map": ("MAP<STRING, BIGINT>", Function("merge_map"), {}),
    "rows": ("ARRAY<STRUCT<n: INT, x: STRING>>", Function("nested_update", nested_key=("n",)), {"nested-key": "n"}),
}
CANNOT_RETRACT = frozenset({"some", "words"})
"""Of the columns above, those whose table takes no deletes."""


@dataclass(frozen=True)
class Shape:
    """One kind of table: how to create it, its rules for the model, and which row kinds it takes."""

    columns: tuple[ModelColumn, ...]
    rules: Rules
    create: Mapping[str, Any]
    """Keyword arguments of ``create_table``."""
    kinds: tuple[str, ...] = ("+I", "+U")
    never_null: frozenset[int] = field(default_factory=frozenset)
    full: int = 8
    """How many small files of a bucket an upsert packs."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the connections: with little memory a batch becomes several files, and buckets split in the middle of it."""

    @property
    def ddl(self) -> str:
        required = {*self.rules.key}
        return ", ".join(f"`{c.name}` {c.type}{' NOT NULL' * (c.number in required)}" for c in self.columns)

    @property
    def partitioned(self) -> bool:
        return bool(self.create["partition_by"])

    @property
    def spans_partitions(self) -> bool:
        """Buckets belong to no partition: settle and compact take no predicate."""
        return self.partitioned and 1 not in self.rules.key

    @property
    def named(self) -> frozenset[int]:
        """Columns that properties of the table name."""
        groups = (number for group in self.rules.groups for number in (*group.sequence, *group.columns))
        return frozenset({*self.rules.functions, *groups})

    def model(self) -> KeyModel:
        return KeyModel.new(self.rules, self.columns, self.create["merge"])


@st.composite
def shapes(draw: st.DrawFn, *, packing: bool = False) -> Shape:
    """Any kind of table; with ``packing``, of those whose upserts pack small files, and soon."""
    engine = draw(st.sampled_from(ENGINES))
    id_type = draw(st.sampled_from(["BIGINT", "BIGINT", "STRING", "DATE", "BINARY", "DECIMAL(18,3)", "BOOLEAN"]))
    columns = [ModelColumn(0, "id", id_type), ModelColumn(1, "part", "STRING"), ModelColumn(2, "k2", "INT")]
    columns += [ModelColumn(3, "s", "BIGINT"), ModelColumn(4, "t", "INT")]
    partitioned, in_key = draw(st.booleans()), draw(st.booleans())
    key = (0, *((2,) if draw(st.integers(0, 3)) == 0 else ()), *((1,) if in_key else ()))
    sequence = draw(st.sampled_from([(), (3,), (3, 4)] if engine == "deduplicate" else [(), (3,)]))
    if engine == "first-row":
        sequence = ()
    name = {c.number: c.name for c in columns}
    create: dict[str, Any] = {
        "primary_key": [name[n] for n in key],
        "partition_by": ["part"] if partitioned else [],
        "buckets": draw(
            st.sampled_from([1, 1, "dynamic", "postpone"] if packing else [1, 2, 4, "dynamic", "postpone"])
        ),
        "merge": "on-write" if packing else draw(st.sampled_from(MERGES)),
        "merge_engine": engine,
        "sequence": [name[n] for n in sequence],
    }
    properties: dict[str, Any] = {
        "checkpoint-interval": 3,
        "dynamic-bucket.target-rows": 4,
        "compaction-small-files": 2,
        "compact-on-write": draw(st.sampled_from([1, 100_000] if packing else [0, 1])),
    }
    values, rules, kinds = _engine(draw, engine, properties)
    made = Rules(key=key, sequence=sequence, engine=engine, **rules)
    counted = frozenset(n for n, f in made.functions.items() if f.name == "count")
    full = 2 if packing else draw(st.sampled_from([2, 3, 8]))
    options = draw(st.sampled_from([{}, {}, {"writer_memory_limit": 600}]))
    return Shape((*columns, *values), made, {**create, "properties": properties}, kinds, counted, full, options)


ALL_KINDS = ("+I", "+U", *RETRACTS)


def _engine(
    draw: st.DrawFn, engine: str, properties: dict[str, Any]
) -> tuple[list[ModelColumn], dict[str, Any], tuple[str, ...]]:
    """The value columns, the rules that go with them, and the row kinds."""
    plain = [ModelColumn(10, "n", "INT"), ModelColumn(11, "x", "FLOAT"), ModelColumn(12, "note", "STRING")]
    puts = ("+I", "+U")
    if engine == "aggregation":
        return _aggregation(draw, properties)
    choice = draw(st.integers(0, 4))
    if choice == 0:
        properties["ignore-delete"] = True
        return plain, {"ignore_delete": True}, ALL_KINDS
    if engine == "deduplicate":
        return plain, {}, ALL_KINDS
    if engine == "partial-update" and choice == 1:
        properties["remove-record-on-delete"] = True
        return plain, {"remove_on_delete": True}, ALL_KINDS
    if engine == "partial-update" and choice >= 3:
        properties |= {"fields.g.sequence-group": "n,x", "fields.h,i.sequence-group": "total"}
        properties["fields.total.aggregate-function"] = "sum"
        more = [ModelColumn(20 + at, name, "INT") for at, name in enumerate("ghi")] + [
            ModelColumn(23, "total", "BIGINT")
        ]
        groups = (Group((20,), (10, 11)), Group((21, 22), (23,)))
        rules: dict[str, Any] = {"groups": groups, "functions": {23: Function("sum")}}
        if choice == 4:
            properties["remove-record-on-sequence-group"] = "g"
            rules["remove_on_groups"] = frozenset({20})
        return plain + more, rules, ALL_KINDS
    return plain, {}, puts


def _aggregation(
    draw: st.DrawFn, properties: dict[str, Any]
) -> tuple[list[ModelColumn], dict[str, Any], tuple[str, ...]]:
    names = draw(st.lists(st.sampled_from(sorted(FUNCTIONS)), min_size=1, max_size=5, unique=True))
    columns, functions = [], {}
    for number, name in enumerate(names, 30):
        kind, function, settings = FUNCTIONS[name]
        columns.append(ModelColumn(number, name, kind))
        functions[number] = function
        properties[f"fields.{name}.aggregate-function"] = function.name
        properties |= {f"fields.{name}.{setting}": value for setting, value in settings.items()}
    rules: dict[str, Any] = {"functions": functions}
    if draw(st.integers(0, 3)) == 0:
        properties["remove-record-on-delete"] = True
        return columns, {**rules, "remove_on_delete": True}, ("+I", "+U", "-D")
    return columns, rules, ("+I", "+U") if CANNOT_RETRACT & set(names) else ALL_KINDS


@dataclass
class Drawing:
    """Draws rows that fit a table's present columns."""

    shape: Shape
    model: KeyModel
    data: st.DataObject

    def value(self, column: ModelColumn) -> Any:
        if column.number == 0:
            return self.data.draw(IDS[column.type])
        if column.number == 1:
            # A cross-partition table may have rows without partition value.
            return self.data.draw(PARTS if 1 in self.shape.rules.key else st.one_of(st.none(), PARTS))
        if column.number == 2 and 2 in self.shape.rules.key:
            return self.data.draw(st.integers(0, 1))
        if column.number in self.shape.rules.sequence:
            return self.data.draw(st.one_of(st.none(), st.integers(0, 6)))
        if column.name == "words" and column.type == "STRING":  # a new column may have the name of a dropped one
            return self.data.draw(st.one_of(st.none(), WORDS))
        if column.number in self.shape.never_null:
            return self.data.draw(VALUES[column.type])
        return self.data.draw(st.one_of(st.none(), VALUES[column.type]))

    def row(self, wary: bool = False, **fixed: Any) -> dict[str, Any]:
        row = {c.name: fixed.get(c.name) if c.name in fixed else self.value(c) for c in self.model.now.columns}
        return self._certain(row, wary)

    def rows(self, wary: bool = False, most: int = 5, **fixed: Any) -> list[dict[str, Any]]:
        """A batch; ``wary`` of all tombstones, for a commit that may take them along."""
        return [self.row(wary, **fixed) for _ in range(self.data.draw(st.integers(0, most)))]

    def batch(self) -> Batch:
        """An upsert: perhaps with kinds of rows, perhaps with columns that order the rows of one key."""
        rows = self.rows()
        if not rows:
            return Batch(rows)
        kinds = self.kinds(rows) if self.data.draw(st.booleans()) else None
        if self.data.draw(st.integers(0, 2)):
            return Batch(rows, kinds)
        sortable = [LSN, *(c.name for c in self.model.now.columns if "<" not in c.type)]
        sort_by = self.data.draw(st.lists(st.sampled_from(sortable), min_size=1, max_size=2, unique=True))
        lsns = [self.data.draw(st.one_of(st.none(), st.integers(0, 3))) for _ in rows] if LSN in sort_by else ()
        return Batch(rows, kinds, tuple(sort_by), lsns)

    def kinds(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        return [self.data.draw(st.sampled_from(self.shape.kinds)) for _ in rows]

    def keys(self) -> list[dict[str, Any]]:
        """What ``delete(keys)`` takes."""
        needed = {*self.shape.rules.key, *self.shape.rules.sequence}
        names = {c.name for c in self.model.now.columns if c.number in needed}
        return [{name: value for name, value in row.items() if name in names} for row in self.rows(most=3)]

    def predicate(self) -> tuple[str, Test]:
        """SQL text, and the same in Python."""
        text, test = self._comparison()
        if self.data.draw(st.integers(0, 3)):
            return text, test
        (more, also), both = self._comparison(), self.data.draw(st.booleans())
        if both:
            return f"({text}) and ({more})", lambda row: test(row) and also(row)
        return f"({text}) or ({more})", lambda row: test(row) or also(row)

    def _comparison(self) -> tuple[str, Test]:
        column = self.data.draw(st.sampled_from([c for c in self.model.now.columns if c.type in ASKED]))
        name, value = column.name, self.value(column)
        if value is None:
            return f"`{name}` is null", lambda row: row[name] is None
        sign = self.data.draw(st.sampled_from(["=", "<", ">="] if column.type not in ("BOOLEAN", "BINARY") else ["="]))
        tests: dict[str, Test] = {
            "=": lambda row: row[name] is not None and row[name] == value,
            "<": lambda row: row[name] is not None and sql_order(row[name]) < sql_order(value),
            ">=": lambda row: row[name] is not None and sql_order(row[name]) >= sql_order(value),
        }
        return f"`{name}` {sign} {literal(column.type, value)}", tests[sign]

    def key_of(self, row: Mapping[str, Any]) -> Key:
        return tuple(row[self.model.column(number).name] for number in self.shape.rules.key)

    def _certain(self, row: dict[str, Any], wary: bool) -> dict[str, Any]:
        slot = self.model.now.slots.get(self.key_of(row))
        if slot is None or slot.row is not None or not (wary or slot.doubtful):
            return row
        numbers = self.shape.rules.sequence
        above = {self.model.column(n).name: (value or 0) + 1 for n, value in zip(numbers, slot.sequence, strict=True)}
        return {**row, **above}
