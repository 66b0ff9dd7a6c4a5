"""The methods that change a table, shared by tables and by tables inside a transaction."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.actions import SetTransaction
from lakebed.core.errors import InputError, SchemaError
from lakebed.core.evolve import (
    AddColumn,
    Change,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SetComment,
    SetNullable,
    WidenColumn,
)
from lakebed.core.predicate import parse
from lakebed.core.schema import Type
from lakebed.core.schema_of import type_of
from lakebed.engine.alter import alter_schema, set_comment, set_properties, settle_before
from lakebed.engine.delete import delete
from lakebed.engine.distribution import is_frame, not_distributed
from lakebed.engine.draft import Draft
from lakebed.engine.incoming import ArrowRows, Incoming
from lakebed.engine.inputs import is_repeatable, to_reader
from lakebed.engine.overwrite import append, overwrite_all, overwrite_partitions, overwrite_where
from lakebed.engine.upsert import delete_keys, upsert
from lakebed.records import column_names, comment_text
from lakebed.view import Readable

Result = TypeVar("Result")
Txn = tuple[str, int]
"""An application's id and its own, growing, version: a write is done once for each."""


class Writable(Readable, Generic[Result]):
    """A table that can be changed. What the methods return depends on when the change is committed."""

    @abstractmethod
    def _change(self, operation: Callable[[Draft], object], *, repeatable: bool = True) -> Result:
        """Run ``operation`` on a draft of this table; ``repeatable`` if it may be run again on a newer version."""

    def append(self, data: Any, *, txn: Txn | None = None) -> Result:
        """Add rows. In a table with a primary key this is an upsert: a key has one row.

        ``data`` is a pyarrow Table, RecordBatch or reader, a pandas or polars DataFrame, a list of dicts or
        anything with the Arrow C stream interface. Columns are matched by name; missing nullable columns become
        null. Raises DataError that lists every problem; nothing is written then.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("n", "n BIGINT")
        >>> t.append([{"n": 1}]).version
        1
        """

        def run(draft: Draft) -> None:
            _once(draft, txn)
            append(draft, _rows(data, draft))

        return self._change(run, repeatable=is_repeatable(data))

    def upsert(
        self,
        data: Any,
        *,
        row_kind: str | None = None,
        sort_by: str | Iterable[str] = (),
        txn: Txn | None = None,
    ) -> Result:
        """Put rows by primary key: new keys are added, rows of known keys replaced, or merged by the merge engine.

        Of several rows with one key the one with the highest sequence counts, else the last. ``row_kind`` names a
        column that says what each row does: ``+I``, ``+U``, ``-U``, ``-D``, or ``insert``, ``update``, ``delete``;
        it is stored only if the table has such a column. ``sort_by`` names columns that order rows of one key and
        sequence; they too need not be stored. Upserts of several writers never conflict.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("users", "id BIGINT, name STRING", primary_key=["id"], buckets=2)
        >>> _ = t.upsert([{"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}])
        >>> _ = t.upsert([{"id": 2, "name": "bert", "op": "+U"}, {"id": 1, "op": "-D"}], row_kind="op")
        >>> t.to_arrow().to_pylist()
        [{'id': 2, 'name': 'bert'}]
        """
        if row_kind == "" or (row_kind is not None and not isinstance(row_kind, str)):
            raise InputError("row_kind= is the name of a column", found=repr(row_kind))
        order = column_names(sort_by, "sort_by=")

        def run(draft: Draft) -> None:
            _once(draft, txn)
            upsert(draft, _rows(data, draft), row_kind=row_kind, sort_by=order)

        return self._change(run, repeatable=is_repeatable(data))

    def overwrite(self, data: Any, where: Any = None, *, txn: Txn | None = None) -> Result:
        """Replace rows: all, those of a predicate, or (``where="dynamic"``) the partitions that ``data`` is in.

        With a predicate every new row must satisfy it.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("sales", "dt STRING, n BIGINT", partition_by=["dt"])
        >>> _ = t.append([{"dt": "mon", "n": 1}, {"dt": "tue", "n": 2}])
        >>> _ = t.overwrite([{"dt": "tue", "n": 5}], where="dt = 'tue'")
        >>> sorted(t.to_arrow()["n"].to_pylist())
        [1, 5]
        """

        def run(draft: Draft) -> None:
            _once(draft, txn)
            rows = _rows(data, draft)
            if where is None:
                overwrite_all(draft, rows)
            elif isinstance(where, str) and where.strip().lower() == "dynamic":
                overwrite_partitions(draft, rows)
            else:
                overwrite_where(draft, rows, parse(where, draft.metadata.schema))

        return self._change(run, repeatable=is_repeatable(data))

    def delete(self, where: Any, *, txn: Txn | None = None) -> Result:
        """Remove the rows for which the predicate ``where`` is true, or those with the given keys.

        Keys are rows (a list of dicts, an Arrow table, a DataFrame …) with the primary key's columns, and the
        sequence columns if the table has them: a delete that is older than the row does not remove it.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("n", "n BIGINT")
        >>> _ = t.append([{"n": 1}, {"n": -1}])
        >>> t.delete("n < 0").metrics["numDeletedRows"]
        1
        >>> users = lake.create_table("users", "id BIGINT, name STRING", primary_key=["id"])
        >>> _ = users.upsert([{"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}])
        >>> _ = users.delete([{"id": 1}])
        >>> users.to_arrow()["name"].to_pylist()
        ['bob']
        """
        if where is None:
            raise InputError("delete needs a predicate or keys", fix="delete('true') removes all rows")
        by_keys = not isinstance(where, str | bool | pc.Expression)

        def run(draft: Draft) -> None:
            _once(draft, txn)
            if by_keys:
                delete_keys(draft, _rows(where, draft))
            else:
                delete(draft, parse(where, draft.metadata.schema))

        return self._change(run, repeatable=not by_keys or is_repeatable(where))

    def alter(
        self,
        *,
        add: Mapping[str, Any] | None = None,
        drop: Iterable[str] = (),
        rename: Mapping[str, str] | None = None,
        widen: Mapping[str, Any] | None = None,
        move: Mapping[str, str] | None = None,
        nullable: Mapping[str, bool] | None = None,
        comments: Mapping[str, str | None] | None = None,
        comment: str | None = None,
        properties: Mapping[str, object | None] | None = None,
    ) -> Result:
        """Change columns, comments and properties, all in one version. Nested fields are ``"address.zip"``.

        ``add`` and ``widen`` map a column to a type (pyarrow, or SQL text like ``"DECIMAL(12,2)"``); ``move`` maps
        a column to ``"first"`` or ``"after other"``; a property of None is removed. No data file is rewritten.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("n", "n INT")
        >>> _ = t.alter(add={"note": "STRING"}, widen={"n": "BIGINT"}, rename={"n": "number"})
        >>> t.schema.names
        ['number', 'note']
        """
        changes: list[Change] = [
            *(WidenColumn(path, type_of(kind)) for path, kind in _items("widen", widen)),
            *(SetNullable(path, _flag(path, flag)) for path, flag in _items("nullable", nullable)),
            *(SetComment(path, comment_text(text)) for path, text in _items("comments", comments)),
            *(DropColumn(path) for path in column_names(drop, "drop=")),
            *(RenameColumn(old, _new_name(old, new)) for old, new in _items("rename", rename)),
            *(AddColumn(path, _added_type(path, kind)) for path, kind in _items("add", add)),
            *(_move(path, place) for path, place in _items("move", move)),
        ]
        if not changes and comment is None and not properties:
            raise InputError("alter was asked to change nothing", fix="pass add=, drop=, rename=, widen=, …")

        def run(draft: Draft) -> None:
            before = draft.metadata
            if changes:
                alter_schema(draft, changes)
            if properties:
                set_properties(draft, properties)
            if comment is not None:
                set_comment(draft, comment_text(comment) or None)
            settle_before(draft, before)

        return self._change(run)


def _rows(data: Any, draft: Draft) -> Incoming:
    if is_frame(data):
        if draft.handle.distribution is None:
            raise not_distributed(draft.handle.name)
        return draft.handle.distribution.rows(data)
    return ArrowRows(to_reader(data, draft.metadata.schema, draft.handle.name))


def _once(draft: Draft, txn: Any) -> None:
    if txn is None:
        return
    app_id, version = txn if isinstance(txn, tuple) and len(txn) == 2 else ("", -1)
    if not _is_text(app_id) or type(version) is not int or not 0 <= version < 2**63:
        raise InputError(
            "txn= names an application and its own version of the write",
            expected="text and a whole number from 0, like ('loader', 7)",
            found=repr(txn),
        )
    earlier = draft.transactions.get(app_id)
    if earlier is None or earlier.version < version:  # as in the log, the newest counts
        draft.transactions[app_id] = SetTransaction(app_id, version)


def _is_text(value: object) -> bool:
    """Whether it can be stored as text; half of a surrogate pair cannot."""
    return isinstance(value, str) and value != "" and value == value.encode("utf-8", "ignore").decode()


def _items(argument: str, mapping: Any) -> list[tuple[str, Any]]:
    if mapping is None:
        return []
    if not isinstance(mapping, Mapping) or not all(isinstance(path, str) for path in mapping):
        raise InputError(f"{argument}= maps column names", expected="a dict", found=repr(mapping))
    return list(mapping.items())


def _flag(path: str, flag: object) -> bool:
    if not isinstance(flag, bool):
        raise InputError(f"column {path!r} is nullable or not", expected="True or False", found=repr(flag))
    return flag


def _added_type(path: str, kind: Any) -> Type:
    """The type of a new column; it cannot be required, since the rows that are there have no value for it."""
    required = isinstance(kind, str) and re.search(r"\bnot\s+null\s*$", kind, re.IGNORECASE)
    if required or (isinstance(kind, pa.Field) and not kind.nullable):
        raise SchemaError(
            f"column {path!r} cannot be added as NOT NULL: the rows that are there have no value for it",
            fix=f"add it without NOT NULL, write its values, then alter(nullable={{{path!r}: False}})",
        )
    return type_of(kind.type if isinstance(kind, pa.Field) else kind)


def _new_name(old: str, new: object) -> str:
    if not isinstance(new, str):
        raise InputError(f"column {old!r} is renamed to another name", expected="text", found=repr(new))
    return new


def _move(path: str, place: Any) -> MoveColumn:
    words = place.split(maxsplit=1) if isinstance(place, str) else []
    if words == ["first"]:
        return MoveColumn(path, first=True)
    if len(words) == 2 and words[0].lower() == "after":
        return MoveColumn(path, after=words[1])
    raise InputError(f"column {path!r} cannot be moved", expected="'first' or 'after <column>'", found=repr(place))
