"""Random statements that change a table, and what they come to, computed by plain DataFrames of Spark."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pytest

import lakebed

SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("p", pa.string()),
        ("n", pa.int32()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("dt", pa.date32()),
    ]
)
DDL = "id INT, p STRING, n INT, d DOUBLE, s STRING, dt DATE"
NAMES = SCHEMA.names
SHAPES = {
    "plain": "CREATE TABLE t (" + DDL + ")",
    "partitions": "CREATE TABLE t (" + DDL + ") PARTITIONED BY (p)",
    "key": "CREATE TABLE t (" + DDL + ", PRIMARY KEY (id)) TBLPROPERTIES ('buckets' = 2)",
    "key, on read": "CREATE TABLE t (" + DDL + ", PRIMARY KEY (id)) TBLPROPERTIES ('merge' = 'on-read')",
    "key, partitions": "CREATE TABLE t (" + DDL + ", PRIMARY KEY (id)) PARTITIONED BY (p)",
}
Row = tuple[Any, ...]

# {a} is the row that is looked at.
CONDITIONS = [
    "{a}id > 5", "{a}n IS NULL", "{a}n % 3 = 1", "{a}s LIKE 'a%'", "upper({a}s) = 'A1'", "{a}d > 1.5",
    "{a}n BETWEEN 2 AND 7",
    "{a}p = 'x' AND {a}n > 3", "NOT ({a}n = 4)", "{a}s IN ('a1', NULL)", "{a}dt < DATE '2024-01-05'",
    "coalesce({a}n, 0) = 0",
    "{a}n <=> NULL", "CASE WHEN {a}n > 5 THEN true ELSE {a}s IS NULL END", "isnan({a}d)", "length({a}s) > 1",
    "{a}id = 3",
    "{a}n > 2 OR {a}p = 'y'", "{a}d = {a}d", "{a}p IS NULL", "{a}dt IS NOT NULL AND {a}id <> 2",
    "{a}id IN (1, 4, 9, 12)",
    "month({a}dt) = 1 AND {a}n < 5", "{a}s >= 'b'", "{a}n + {a}id > 9", "true", "{a}id < 0",
]  # fmt: skip
SUBQUERIES = [
    "{a}id IN (SELECT id FROM src)", "{a}n > (SELECT avg(n) FROM src)",
    "EXISTS (SELECT 1 FROM src q WHERE q.id = {a}id AND q.n > 2)",
    "{a}id NOT IN (SELECT id FROM src WHERE id IS NOT NULL)",
]  # fmt: skip
VALUES = {
    "p": ["'x'", "concat({a}p, '')", "NULL", "'y'"],
    "n": ["{a}n + 1", "{a}n * 2 - {a}id", "coalesce({a}n, {a}id)", "length({a}s)", "NULL", "7", "abs({a}n)", "-{a}n",
          "CASE WHEN {a}n > 3 THEN 0 ELSE {a}n END"],
    "d": ["{a}d * 2", "{a}n / 4", "{a}d + {a}n", "NULL", "sqrt(abs({a}d))", "0.5"],
    "s": ["concat({a}s, 'x')", "upper({a}s)", "'k'", "NULL", "substring({a}s, 1, 1)", "{a}s || {a}p",
          "CAST({a}n AS STRING)"],
    "dt": ["date_add({a}dt, 1)", "DATE '2024-02-02'", "NULL", "{a}dt"],
}  # fmt: skip


@dataclass
class Model:
    """The rows that a table should have."""

    spark: Any
    keyed: bool
    rows: list[Row] = field(default_factory=list)

    def query(self, text: str, rows: Sequence[Row], src: Sequence[Row]) -> list[tuple[Any, ...]]:
        """What a query makes of rows that are called t, and src."""
        made = self.spark.sql(text, t=self._frame(rows), src=self._frame(src))
        return [tuple(row.values()) for row in made.toArrow().to_pylist()]

    def _frame(self, rows: Sequence[Row]) -> Any:
        numbered = [(*row, at) for at, row in enumerate(rows)]
        schema = SCHEMA.append(pa.field("rid", pa.int32()))
        columns = [pa.array([row[at] for row in numbered], f.type) for at, f in enumerate(schema)]
        return self.spark.createDataFrame(pa.table(columns, schema=schema))

    def put(self, rows: Sequence[Row]) -> None:
        """Add rows; with a key they take the places of others."""
        if self.keyed:
            new = {row[0]: row for row in rows}
            self.rows = [row for row in self.rows if row[0] not in new] + list(new.values())
        else:
            self.rows = [*self.rows, *rows]


class Statements:
    """Makes statements, and tells what each does to a model."""

    def __init__(self, seed: int, model: Model) -> None:
        self.random = random.Random(seed)
        self.model = model

    def rows(self, count: int, *, unique: bool) -> list[Row]:
        pick = self.random
        ids = pick.sample(range(1, 25), count) if unique else [pick.randrange(1, 16) for _ in range(count)]
        return [self._row(one) for one in ids]

    def _row(self, one: int) -> Row:
        pick = self.random
        return (
            one,
            pick.choice(["x", "y", "z", None]),
            pick.choice([None, *range(10)]),
            pick.choice([None, 0.0, 1.5, 2.25, -3.0, math.nan]),
            pick.choice([None, "a1", "a", "b2", "c'c", "ünï", ""]),
            pick.choice([None, date(2024, 1, 1) + timedelta(days=pick.randrange(40))]),
        )

    def condition(self, alias: str, *, subqueries: bool = True) -> str:
        pool = CONDITIONS if not subqueries or self.random.random() < 0.85 else SUBQUERIES
        return self.random.choice(pool).format(a=alias)

    def assignments(self, alias: str, more: str = "") -> dict[str, str]:
        names = self.random.sample(list(VALUES), self.random.randrange(1, 4))
        return {
            name: self.random.choice(VALUES[name]).format(a=self.random.choice([alias, more or alias]))
            for name in names
        }

    def any(self, src: list[Row]) -> tuple[str, bool]:
        """A statement, and whether it is to fail."""
        kind = self.random.choice(["merge", "merge", "update", "delete", "insert"])
        if kind == "merge":
            return self.merge(src)
        make = {"update": self.update, "delete": self.delete, "insert": self.insert}[kind]
        return make(src), False

    def delete(self, src: list[Row]) -> str:
        """DELETE FROM t."""
        cond = self.condition("t.")
        kept = self.model.query(f"SELECT rid FROM {{t}} t WHERE NOT coalesce({_in(cond)}, false)", self.model.rows, src)
        self.model.rows = [self.model.rows[rid] for (rid,) in kept]
        return f"DELETE FROM t WHERE {cond}"

    def update(self, src: list[Row]) -> str:
        """UPDATE t."""
        cond, values = self.condition("t."), self.assignments("t.")
        new = ", ".join(f"CAST({values.get(c, 't.' + c)} AS {_kind(c)}) AS {c}" for c in NAMES)
        text = f"SELECT rid, {new} FROM {{t}} t WHERE {_in(cond)}"
        changed = {rid: tuple(row) for rid, *row in self.model.query(text, self.model.rows, src)}
        self.model.rows = [changed.get(rid, row) for rid, row in enumerate(self.model.rows)]
        return f"UPDATE t SET {', '.join(f'{c} = {v}' for c, v in values.items())} WHERE {cond}"

    def insert(self, src: list[Row]) -> str:
        """INSERT INTO t, or another form of it."""
        form = self.random.choice(["values", "select", "columns", "name", "where", "overwrite"])
        if form == "values":
            new = self.rows(self.random.randrange(1, 4), unique=True)
            self.model.put(new)
            return "INSERT INTO t VALUES " + ", ".join(f"({', '.join(map(_literal, row))})" for row in new)
        cond = self.condition("", subqueries=False)
        made = self.model.query(f"SELECT id, p, n, d, s, dt FROM {{src}} WHERE {cond}", [], src)
        if form == "columns":
            self.model.put([(row[0], None, row[2], None, row[4], None) for row in made])
            return f"INSERT INTO t (s, id, n) SELECT s, id, n FROM src WHERE {cond}"
        if form == "name":
            self.model.put([(row[0], row[1], None, None, None, row[5]) for row in made])
            return f"INSERT INTO t BY NAME SELECT dt, p, id FROM src WHERE {cond}"
        if form == "where":
            self.model.rows = [row for row in self.model.rows if row[0] < 10]
            self.model.put([row for row in made if row[0] >= 10])
            return f"INSERT INTO t REPLACE WHERE id >= 10 SELECT * FROM src WHERE ({cond}) AND id >= 10"
        if form == "overwrite" and self.random.random() < 0.3:
            self.model.rows = []
            self.model.put(made)
            return f"INSERT OVERWRITE t SELECT * FROM src WHERE {cond}"
        self.model.put(made)
        return f"INSERT INTO t SELECT * FROM src WHERE {cond}"

    def merge(self, src: list[Row]) -> tuple[str, bool]:
        """MERGE INTO t, and whether several rows of the source would change one of the table."""
        ons = [
            "t.id = s.id",
            "t.id = s.id AND t.n > 2",
            "t.id = s.id AND s.p = 'x'",
            "s.id = t.id AND upper(s.s) >= 'A'",
        ]
        if not self.model.keyed:
            ons += ["t.n = s.n AND t.id > s.id", "t.s = s.s", "t.id + 1 = s.id", "t.id < s.id - 12"]
        on = self.random.choice(ons)
        clauses: list[tuple[str, str | None, str, dict[str, str] | None]] = []
        for when, actions in (
            ("matched", ["update", "delete"]),
            ("not matched", ["insert"]),
            ("by source", ["update", "delete"]),
        ):
            count = self.random.choice([0, 1, 1, 2] if when != "by source" else [0, 0, 1])
            for at in range(count):
                last = at == count - 1
                alias = {"matched": self.random.choice(["t.", "s."]), "not matched": "s.", "by source": "t."}[when]
                cond = None if last and self.random.random() < 0.6 else self.condition(alias, subqueries=False)
                clauses.append((when, cond, action := self.random.choice(actions), self._set(when, action)))
        if not clauses:
            clauses = [("matched", None, "update", None), ("not matched", None, "insert", None)]
        return "MERGE INTO t USING src AS s ON " + on + "".join(map(_clause, clauses)), self._merged(on, clauses, src)

    def _set(self, when: str, action: str) -> dict[str, str] | None:
        if action == "delete":
            return {}
        if action == "insert":
            star = self.random.random() < 0.5
            return None if star else {"id": "s.id", **self.assignments("s.")}
        if when == "matched":
            return None if self.random.random() < 0.4 else self.assignments("t.", "s.")
        return self.assignments("t.")

    def _merged(self, on: str, clauses: list[Any], src: list[Row]) -> bool:
        numbers = {when: [] for when in ("matched", "not matched", "by source")}
        for number, (when, cond, _, _) in enumerate(clauses):
            numbers[when].append(f"WHEN {cond or 'true'} THEN {number}")
        choice = {when: f"CASE {' '.join(arms)} END" if arms else "NULL" for when, arms in numbers.items()}
        chosen = (
            f"CASE WHEN t.rid IS NOT NULL AND s.rid IS NOT NULL THEN {choice['matched']}"
            f" WHEN s.rid IS NOT NULL THEN {choice['not matched']} ELSE {choice['by source']} END"
        )
        columns = []
        for name in NAMES:
            arms = ""
            for number, (_, _, action, values) in enumerate(clauses):
                if action != "delete":
                    kept = f"t.{name}" if action == "update" else "NULL"
                    value = f"s.{name}" if values is None else values.get(name, kept)
                    if action == "update" and name == "id" and self.model.keyed:
                        value = "t.id"
                    arms += f" WHEN {number} THEN CAST({value} AS {_kind(name)})"
            columns.append(f"CASE clause{arms} END AS {name}_" if arms else f"CAST(NULL AS {_kind(name)}) AS {name}_")
        join = f"FROM {{t}} t FULL OUTER JOIN {{src}} s ON {on}"
        text = f"SELECT t.rid AS tr, {chosen} AS clause, {', '.join(columns)} {join}"
        found = [row for row in self.model.query(text, self.model.rows, src) if row[1] is not None]
        touched: dict[int, list[int]] = {}
        for rid, clause, *_ in found:
            if rid is not None:
                touched.setdefault(rid, []).append(clause)
        if any(len(some) > 1 and any(clauses[one][2] == "update" for one in some) for some in touched.values()):
            return True
        updated = [tuple(row[2:]) for row in found if row[0] is not None and clauses[row[1]][2] == "update"]
        inserted = [tuple(row[2:]) for row in found if row[0] is None]
        self.model.rows = [row for rid, row in enumerate(self.model.rows) if rid not in touched]
        self.model.put(updated)
        self.model.put(inserted)
        return False


def _clause(clause: Any) -> str:
    when, cond, action, values = clause
    text = {"matched": " WHEN MATCHED", "not matched": " WHEN NOT MATCHED", "by source": " WHEN NOT MATCHED BY SOURCE"}[
        when
    ]
    text += f" AND {cond}" if cond else ""
    if action == "delete":
        return text + " THEN DELETE"
    if action == "update":
        return (
            text + " THEN UPDATE SET " + ("*" if values is None else ", ".join(f"{c} = {v}" for c, v in values.items()))
        )
    if values is None:
        return text + " THEN INSERT *"
    return text + f" THEN INSERT ({', '.join(values)}) VALUES ({', '.join(values.values())})"


def _in(condition: str) -> str:
    return condition.replace("FROM src", "FROM {src}")


def _kind(name: str) -> str:
    return {"id": "INT", "n": "INT", "d": "DOUBLE", "dt": "DATE"}.get(name, "STRING")


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return "double('NaN')" if math.isnan(value) else repr(value)
    if isinstance(value, date):
        return f"DATE '{value}'"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def comparable(rows: Sequence[Row]) -> list[str]:
    """Rows that can be compared, NaN and all, in whatever order they come."""
    return sorted(repr(row) for row in rows)


def run_statements(
    lake: lakebed.Warehouse, model_of: Callable[[bool], Model], shape: str, seed: int, count: int
) -> int:
    """Run statements on one table, and compare its rows after each; returns how many changed it."""
    lake.sql(SHAPES[shape])
    lake.create_table("src", SCHEMA)
    table, source = lake.table("t"), lake.table("src")
    model = model_of(bool(table.primary_key))
    statements = Statements(seed, model)
    model.put(statements.rows(14, unique=model.keyed))
    table.append(_table(model.rows))
    changed = 0
    for number in range(count):
        src = statements.rows(statements.random.randrange(0, 9), unique=model.keyed or number % 2 == 0)
        source.overwrite(_table(src))
        before = list(model.rows)
        text, several = statements.any(src)
        try:
            if several:
                with pytest.raises(lakebed.DataError, match="several rows of the source"):
                    lake.sql(text)
            else:
                lake.sql(text)
            found = [tuple(row.values()) for row in table.to_arrow().to_pylist()]
            assert comparable(found) == comparable(model.rows)
        except BaseException as error:
            raise AssertionError(f"{shape}, seed {seed}, number {number}: {text}\n{before}\n{src}") from error
        changed += comparable(before) != comparable(model.rows)
        if len(model.rows) < 5:
            more = statements.rows(8, unique=True)
            model.put(more)
            table.append(_table(more))
    return changed


def _table(rows: Sequence[Row]) -> pa.Table:
    return pa.table([pa.array([row[at] for row in rows], f.type) for at, f in enumerate(SCHEMA)], schema=SCHEMA)
