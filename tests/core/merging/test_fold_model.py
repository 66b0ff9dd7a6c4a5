"""The fold against the dict model, row by row: any engine, functions, sequences, groups, kinds, several commits."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from key_functions import Function
from key_merge import RETRACTS, Group, Rules, Slot, fold_batch, order
from tables import Table

NAMES = ["k", "s", "t", "v", "w", "g", "h"]
NUMBER = {name: number for number, name in enumerate(NAMES)}
KINDS = ("+I", "-U", "+U", "-D")

SMALL = st.integers(-3, 3)
WORD = st.sampled_from(["", "a", "b", "c"])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bigint": SMALL,
    "int": SMALL,
    "tinyint": st.integers(-2, 2),
    "double": st.sampled_from([0.5, 2.0, -4.0, 1.0]),
    "float": st.sampled_from([0.5, 2.0, -4.0, 1.0]),
    "decimal(38,2)": st.sampled_from([Decimal("1.50"), Decimal("-2.25"), Decimal("0.00")]),
    "decimal(12,2)": st.sampled_from([Decimal("1.50"), Decimal("-2.25"), Decimal("0.00")]),
    "string": WORD,
    "date": st.dates(),
    "boolean": st.booleans(),
    "array<int>": st.lists(st.one_of(st.none(), st.integers(0, 2)), max_size=3),
    "array<array<int>>": st.lists(st.lists(st.integers(0, 1), max_size=2), max_size=2),
    "map<string,int>": st.dictionaries(WORD, SMALL, max_size=2).map(lambda entries: list(entries.items())),
    "array<struct<n: int, x: string>>": st.lists(
        st.fixed_dictionaries({"n": st.integers(0, 1), "x": st.sampled_from(["a", "b"])}), max_size=2
    ),
}
ROWS = "array<struct<n: int, x: string>>"
FUNCTIONS: list[tuple[Function, str, dict[str, str]]] = [
    *((Function("sum"), kind, {}) for kind in ("bigint", "int", "tinyint", "double", "decimal(38,2)", "decimal(12,2)")),
    (Function("product"), "double", {}),
    (Function("product"), "float", {}),
    (Function("count"), "bigint", {}),
    (Function("count"), "int", {}),
    *((Function(name), kind, {}) for name in ("min", "max") for kind in ("int", "double", "string", "date")),
    *((Function(name), kind, {}) for name in ("first_value", "last_value") for kind in ("string", "map<string,int>")),
    *((Function(f"{name}_non_null_value"), kind, {}) for name in ("first", "last") for kind in ("int", "array<int>")),
    (Function("bool_and"), "boolean", {}),
    (Function("bool_or"), "boolean", {}),
    (Function("listagg", delimiter=";"), "string", {"list-agg-delimiter": ";"}),
    (Function("listagg", distinct=True), "string", {"distinct": "true"}),
    (Function("collect"), "array<int>", {}),
    (Function("collect", distinct=True), "array<int>", {"distinct": "true"}),
    (Function("collect", distinct=True), "array<array<int>>", {"distinct": "true"}),
    (Function("merge_map"), "map<string,int>", {}),
    (Function("nested_update"), ROWS, {}),
    (Function("nested_update", nested_key=("n",)), ROWS, {"nested-key": "n"}),
]
RETRACTABLE = {
    "sum", "product", "count", "collect", "merge_map", "nested_update", "last_value", "last_non_null_value",
}  # fmt: skip


class Pair:
    """A table, and the model of it."""

    def __init__(self, types: dict[str, str], rules: Rules, options: dict[str, str], sequence: str) -> None:
        ddl = ", ".join(f"{name} {kind}" for name, kind in types.items())
        self.types = types
        self.rules = rules
        self.table = Table(ddl, rules.engine, sequence=sequence, options=options)
        self.slots: dict[Any, Slot | None] = {}

    def commit(self, rows: list[tuple[str, dict[str, Any]]]) -> None:
        batch = [(kind, *(row[name] for name in self.types)) for kind, row in rows]
        if batch:
            self.table.upsert(*batch)
        for key in {row["k"] for _, row in rows}:
            mine = [(self._numbered(row), kind) for kind, row in rows if row["k"] == key]
            columns = [NUMBER[name] for name in self.types]
            self.slots[key] = self._folded(columns, self.slots.get(key), mine)

    def _folded(self, columns: list[int], slot: Slot | None, batch: list[tuple[dict[int, Any], str]]) -> Slot | None:
        """The model's fold, with what it leaves open: nothing is taken back from a group of a key without a row."""
        if not self.rules.groups:
            return fold_batch(self.rules, columns, slot, batch)
        for row, kind in sorted(batch, key=lambda one: order(self.rules.sequence_of(one[0]))):
            sequence = self.rules.sequence_of(row)
            if kind in RETRACTS and (slot is None or slot.row is None):
                newer = slot is None or order(sequence) >= order(slot.sequence)
                slot = Slot(None, sequence) if newer and sequence else slot
            else:
                slot = fold_batch(self.rules, columns, slot, [(row, kind)])
        return slot

    def _numbered(self, row: dict[str, Any]) -> dict[int, Any]:
        return {NUMBER[name]: value for name, value in row.items()}

    def model_rows(self) -> list[tuple[Any, ...]]:
        live = [slot.row for slot in self.slots.values() if slot is not None and slot.row is not None]
        return sorted(tuple(row.get(NUMBER[name]) for name in self.types) for row in live)

    def model_tombstones(self) -> dict[Any, tuple[Any, ...]]:
        return {key: slot.sequence for key, slot in self.slots.items() if slot is not None and slot.row is None}

    def check(self) -> None:
        if self.table.state is None:
            return
        live = [tuple(map(plain, row)) for row in self.table.live()]
        assert live == [tuple(map(plain, row)) for row in sorted(self.model_rows(), key=lambda row: row[0])]
        dead = {row[0]: row[1 : 1 + len(self.rules.sequence)] for row in self.table.tombstones()}
        assert dead == self.model_tombstones()


def plain(value: Any) -> Any:
    """The value without what the two sides may differ in: pairs or dicts, and the order of a map."""
    if isinstance(value, dict):
        return frozenset((name, plain(member)) for name, member in value.items())
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return frozenset(value)
    if isinstance(value, list):
        return tuple(plain(member) for member in value) or frozenset()
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def commits(
    draw: st.DrawFn, types: dict[str, str], kinds: tuple[str, ...], never_null: tuple[str, ...] = ("k",)
) -> list[list[tuple[str, dict[str, Any]]]]:
    def value(name: str) -> st.SearchStrategy[Any]:
        if name == "k":
            return st.integers(0, 1)
        if name in ("s", "t", "g", "h"):
            return st.one_of(st.none(), st.integers(0, 3))
        return VALUES[types[name]] if name in never_null else st.one_of(st.none(), VALUES[types[name]])

    row = st.fixed_dictionaries({name: value(name) for name in types})
    batch = st.lists(st.tuples(st.sampled_from(kinds), row), max_size=5)
    return draw(st.lists(batch, min_size=1, max_size=4))


@st.composite
def aggregations(draw: st.DrawFn, function: Function, kind: str, settings_: dict[str, str]) -> tuple[Pair, Any]:
    sequence = draw(st.sampled_from(["", "s", "s,t"]))
    can = function.name in RETRACTABLE
    # The model lets a late row that is ignored be the first one; the fold does not.
    ignore = not can and function.name != "first_value" and draw(st.booleans())
    function = Function(**{**function.__dict__, "ignore_retract": ignore})
    removes = draw(st.booleans())
    options = {"fields.v.aggregate-function": function.name, **{f"fields.v.{n}": t for n, t in settings_.items()}}
    options |= {"fields.v.ignore-retract": "true"} if ignore else {}
    options |= {"remove-record-on-delete": "true"} if removes else {}
    columns = tuple(sequence.split(",")) if sequence else ()
    types = {"k": "bigint", **dict.fromkeys(columns, "int"), "v": kind, "w": "string"}
    rules = Rules(
        key=(0,),
        sequence=tuple(NUMBER[name] for name in columns),
        engine="aggregation",
        functions={NUMBER["v"]: function},
        remove_on_delete=removes,
    )
    kinds = KINDS if can or ignore else ("+I", "+U", *(("-D",) if removes else ()))
    return Pair(types, rules, options, sequence), commits(draw, types, kinds)


@pytest.mark.parametrize(
    ("function", "kind", "settings_"), FUNCTIONS, ids=[f"{f.name}-{k}-{','.join(s)}" for f, k, s in FUNCTIONS]
)
@settings(max_examples=8)
@given(data=st.data())
def test_aggregation(function: Function, kind: str, settings_: dict[str, str], data: st.DataObject) -> None:
    pair, history = data.draw(aggregations(function, kind, settings_))
    for batch in history:
        pair.commit(batch)
        pair.check()


@st.composite
def whole_rows(draw: st.DrawFn) -> tuple[Pair, Any]:
    engine = draw(st.sampled_from(["deduplicate", "first-row", "partial-update"]))
    sequence = "" if engine == "first-row" else draw(st.sampled_from(["", "s", "s,t"]))
    columns = tuple(sequence.split(",")) if sequence else ()
    ignore, removes = draw(st.booleans()), draw(st.booleans()) and engine == "partial-update"
    ignore = ignore and not removes
    options = {"ignore-delete": "true"} if ignore else {}
    options |= {"remove-record-on-delete": "true"} if removes else {}
    types = {"k": "bigint", **dict.fromkeys(columns, "int"), "v": "string", "w": "array<int>"}
    rules = Rules(
        key=(0,),
        sequence=tuple(NUMBER[name] for name in columns),
        engine=engine,
        ignore_delete=ignore,
        remove_on_delete=removes,
    )
    kinds = KINDS if ignore or removes or engine == "deduplicate" else ("+I", "+U")
    return Pair(types, rules, options, sequence), commits(draw, types, kinds)


@settings(max_examples=40)
@given(drawn=whole_rows())
def test_engines_of_whole_rows(drawn: tuple[Pair, Any]) -> None:
    pair, history = drawn
    for batch in history:
        pair.commit(batch)
        pair.check()


@st.composite
def grouped(draw: st.DrawFn) -> tuple[Pair, Any]:
    sequence = draw(st.sampled_from(["", "s"]))
    columns = ("s",) if sequence else ()
    function, kind, settings_ = draw(st.sampled_from([(None, "string", {}), *FUNCTIONS]))
    many = draw(st.booleans())
    options = {"fields.g,h.sequence-group" if many else "fields.g.sequence-group": "v"}
    if function is not None:
        options["fields.v.aggregate-function"] = function.name
        options |= {f"fields.v.{name}": text for name, text in settings_.items()}
    removes = draw(st.booleans())
    options |= {"remove-record-on-sequence-group": "g"} if removes else {}
    types = {"k": "bigint", **dict.fromkeys(columns, "int"), "v": kind, "w": "string", "g": "int"}
    types |= {"h": "int"} if many else {}
    rules = Rules(
        key=(0,),
        sequence=tuple(NUMBER[name] for name in columns),
        engine="partial-update",
        functions={} if function is None else {NUMBER["v"]: function},
        groups=(Group((5, 6) if many else (5,), (3,)),),
        remove_on_groups=frozenset({5} if removes else ()),
    )
    kinds = KINDS if function is None or function.name in RETRACTABLE else ("+I", "+U")
    return Pair(types, rules, options, sequence), commits(draw, types, kinds)


@settings(max_examples=60)
@given(drawn=grouped())
def test_partial_update_with_groups(drawn: tuple[Pair, Any]) -> None:
    pair, history = drawn
    for batch in history:
        pair.commit(batch)
        pair.check()
