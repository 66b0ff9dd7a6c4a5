"""Change messages as Debezium, Maxwell and Canal write them."""

from __future__ import annotations

import json
import random
from typing import Any

CUSTOMERS: tuple[dict[str, Any], ...] = (
    {"type": "int32", "optional": False, "field": "id"},
    {"type": "string", "optional": False, "field": "first_name"},
    {"type": "string", "optional": False, "field": "email"},
)
"""The columns of the table in Debezium's documentation, as its schema tells them."""

MYSQL_SOURCE = {
    "version": "3.0.8.Final", "connector": "mysql", "name": "mysql-server-1", "ts_ms": 1465491411000,
    "snapshot": "false", "db": "inventory", "sequence": None, "ts_us": 1465491411000000, "ts_ns": 1465491411000000000,
    "table": "customers", "server_id": 223344, "gtid": None, "file": "mysql-bin.000003", "pos": 484, "row": 0,
    "thread": 7, "query": None,
}  # fmt: skip
POSTGRES_SOURCE = {
    "version": "3.0.8.Final", "connector": "postgresql", "name": "PostgreSQL_server", "ts_ms": 1559033904863,
    "snapshot": "false", "db": "postgres", "sequence": "[\"24023119\",\"24023128\"]", "ts_us": 1559033904863123,
    "ts_ns": 1559033904863123000, "schema": "public", "table": "customers", "txId": 555, "lsn": 24023128, "xmin": None,
}  # fmt: skip


def debezium(
    op: str,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    fields: tuple[dict[str, Any], ...] | None = None,
    **source: Any,
) -> str:
    """A message of the MySQL connector, or of PostgreSQL's if it has an ``lsn``; with a schema if there are fields."""
    known = {**(POSTGRES_SOURCE if "lsn" in source else MYSQL_SOURCE), **source}
    payload = {
        "before": before, "after": after, "source": known, "transaction": None, "op": op, "ts_ms": 1465491411568,
        "ts_us": 1465491411568132, "ts_ns": 1465491411568132000,
    }  # fmt: skip
    if fields is None:
        return json.dumps(payload)
    images = [
        {"type": "struct", "fields": list(fields), "optional": True, "name": "s.customers.Value", "field": side}
        for side in ("before", "after")
    ]
    others = [
        {"type": "string", "optional": False, "field": "op"},
        {"type": "int64", "optional": True, "field": "ts_ms"},
    ]
    schema = {
        "type": "struct", "fields": [*images, *others], "optional": False, "name": "s.customers.Envelope", "version": 2,
    }  # fmt: skip
    return json.dumps({"schema": schema, "payload": payload})


def maxwell(type: str, data: dict[str, Any], old: dict[str, Any] | None = None, **more: Any) -> str:
    """A message as the documentation of Maxwell's daemon has it."""
    message = {
        "database": "test", "table": "e", "type": type, "ts": 1477053217, "xid": 23396, "commit": True,
        "position": "master.000006:800911", "server_id": 23042, "thread_id": 108, "data": data, **more,
    }  # fmt: skip
    return json.dumps(message if old is None else {**message, "old": old})


def canal(
    type: str, data: list[dict[str, Any]] | None, old: list[dict[str, Any] | None] | None = None, **more: Any
) -> str:
    """A flat message of Canal; its values are texts."""
    message = {
        "data": data, "database": "inventory", "es": 1589373560000, "id": 9, "isDdl": False,
        "mysqlType": {"id": "INTEGER", "name": "VARCHAR(255)", "description": "VARCHAR(512)", "weight": "FLOAT"},
        "old": old, "pkNames": ["id"], "sql": "", "sqlType": {"id": 4, "name": 12, "description": 12, "weight": 7},
        "table": "products", "ts": 1589373560798, "type": type, **more,
    }  # fmt: skip
    return json.dumps(message)


class Source:
    """A database that changes at random, and tells of it in one of the formats; its rows are the model."""

    def __init__(self, format: str, chance: random.Random) -> None:
        self.format, self.chance = format, chance
        self.rows: dict[int, dict[str, Any]] = {}
        self.messages: list[str | None] = []
        self.columns = ["id", "name", "amount"]

    def change(self) -> None:
        """One statement: an insert, an update, a delete, or an update of keys."""
        free, taken = sorted(set(range(30)) - self.rows.keys()), sorted(self.rows)
        what = self.chance.choice(["insert", "update", "update", "delete", "move"])
        if what == "insert" or not taken:
            row = self._filled(self.chance.choice(free))
            self.rows[row["id"]] = row
            self._tell("insert", None, row)
        elif what == "delete":
            self._tell("delete", self.rows.pop(self.chance.choice(taken)), None)
        else:
            old = self.rows.pop(self.chance.choice(taken))
            key = self.chance.choice(free) if what == "move" and free else old["id"]
            row = {**old, **self._filled(key)}
            self.rows[key] = row
            self._tell("update", old, row)

    def sent(self) -> list[str | None]:
        """The messages out of order, and some of them again."""
        doubled = [*self.messages, *self.chance.choices(self.messages, k=len(self.messages) // 4)]
        at = {number: number + self.chance.randrange(10) for number in range(len(doubled))}
        return [doubled[number] for number in sorted(at, key=lambda number: at[number])]

    def _filled(self, key: int) -> dict[str, Any]:
        chance = self.chance
        values = {
            "id": key, "name": chance.choice(["ann", "bo", "é", None]), "amount": chance.randrange(10**6),
            "note": f"n{chance.randrange(9)}",
        }  # fmt: skip
        return {name: values[name] for name in self.columns}

    def _tell(self, what: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        self.messages += getattr(self, f"_{self.format}")(what, old, new, len(self.messages))

    def _debezium(self, what: str, old: Any, new: Any, at: int) -> list[str | None]:
        known = [CUSTOMERS[0], {"type": "string", "field": "name"}, {"type": "int64", "field": "amount"}]
        fields = tuple([*known, {"type": "string", "field": "note"}][: len(self.columns)])
        if what == "update" and old["id"] != new["id"]:
            return [*self._debezium("delete", old, None, at), debezium("c", None, new, fields, pos=at)]
        if what == "delete":
            return [debezium("d", old, None, fields, pos=at), None]
        return [debezium("c" if what == "insert" else "u", old, new, fields, pos=at)]

    def _maxwell(self, what: str, old: Any, new: Any, at: int) -> list[str | None]:
        changed = None if what != "update" else {name: old.get(name) for name in new if old.get(name) != new[name]}
        return [maxwell(what, new or old, changed, position=f"master.{6 + at // 9:06}:{at % 9}")]

    def _canal(self, what: str, old: Any, new: Any, at: int) -> list[str | None]:
        def texts(row: dict[str, Any]) -> dict[str, Any]:
            return {name: None if value is None else str(value) for name, value in row.items()}

        changed = {n: v for n, v in texts(old).items() if v != texts(new).get(n)} if what == "update" else None
        types = {"id": "int", "name": "varchar(9)", "amount": "bigint", "note": "varchar(9)"}
        data = [texts(new or old)]
        return [canal(what.upper(), data, changed and [changed], es=1589373560000 + at // 3, ts=at, mysqlType=types)]
