"""The methods that change a table, shared by tables and by tables inside a transaction."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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
from lakebed.core.merge_plan import MergeText
from lakebed.core.predicate import Node, parse
from lakebed.core.schema import Type
from lakebed.core.schema_of import type_of
from lakebed.engine.alter import alter_schema, set_comment, set_properties, settle_before
from lakebed.engine.delete import delete
from lakebed.engine.draft import Draft
from lakebed.engine.inputs import is_repeatable
from lakebed.engine.merge import merge
from lakebed.engine.update import parse_values, update
from lakebed.engine.upsert import delete_keys
from lakebed.merging import Merge, condition_of
from lakebed.records import column_names, comment_text
from lakebed.writing import Result, RowWriting, Txn, once, rows_of


class Writable(RowWriting[Result]):
    """A table that can be changed. What the methods return depends on when the change is committed."""

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
        by_keys = not isinstance(where, str | bool | pc.Expression | Node)

        def run(draft: Draft) -> None:
            once(draft, txn)
            if by_keys:
                delete_keys(draft, rows_of(where, draft))
            else:
                delete(draft, parse(where, draft.metadata.schema))

        return self._change(run, repeatable=not by_keys or is_repeatable(where))

    def update(self, set: Any, where: Any = None, *, txn: Txn | None = None) -> Result:
        """Set columns of the rows for which the predicate ``where`` is true; of all rows without one.

        ``set`` maps columns to SQL text, which may name other columns, or to constants of other types. Columns of the
        primary key and of the sequence cannot be set.

        >>> import lakebed, tempfile
        >>> t = lakebed.connect(tempfile.mkdtemp()).create_table("n", "n BIGINT, note STRING")
        >>> _ = t.append([{"n": 1}, {"n": 2}])
        >>> t.update({"n": "n * 10", "note": "'changed'"}, where="n = 2").metrics["numUpdatedRows"]
        1
        >>> t.to_arrow().sort_by("n").to_pylist()
        [{'n': 1, 'note': None}, {'n': 20, 'note': 'changed'}]
        """
        if not isinstance(set, Mapping) or not set:
            raise InputError("update sets columns", expected="{'amount': 'amount * 2'}", found=repr(set))

        def run(draft: Draft) -> None:
            once(draft, txn)
            values = parse_values(draft.metadata, set, draft.metadata.schema, draft.handle.name)
            update(draft, values, parse(where, draft.metadata.schema))

        return self._change(run)

    def merge(self, source: Any, on: Any, *, target_alias: str = "t", source_alias: str = "s") -> Merge[Result]:
        """Begin a merge of ``source`` into this table; see ``Merge`` for its clauses, the last of which is ``execute``.

        ``source`` is what ``append`` takes. ``on`` is SQL that says which rows match, or names of columns that have to
        be equal.

        >>> import lakebed, tempfile
        >>> t = lakebed.connect(tempfile.mkdtemp()).create_table("users", "id BIGINT, name STRING", primary_key=["id"])
        >>> _ = t.upsert([{"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}])
        >>> new = [{"id": 2, "name": "bert"}, {"id": 3, "name": "cleo"}]
        >>> _ = t.merge(new, on="t.id = s.id").when_matched_update().when_not_matched_insert().execute()
        >>> t.to_arrow().sort_by("id")["name"].to_pylist()
        ['ann', 'bert', 'cleo']
        """
        text = MergeText(condition_of(on, target_alias, source_alias), (), target_alias, source_alias)

        def run(whole: MergeText) -> Result:
            return self._change(
                lambda draft: merge(draft, whole, rows_of(source, draft)), repeatable=is_repeatable(source)
            )

        return Merge(text, run)

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
        return self._altered(changes, comment, properties)

    def _altered(
        self,
        changes: Sequence[Change],
        comment: str | None = None,
        properties: Mapping[str, object | None] | None = None,
    ) -> Result:
        """Change the table, all in one version."""

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
