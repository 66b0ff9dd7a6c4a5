"""A merge as the caller says it, clause by clause."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from lakebed.core.errors import InputError
from lakebed.core.merge_plan import Action, Clause, MergeText, When
from lakebed.core.predicate import Node

Result = TypeVar("Result")


@dataclass(frozen=True)
class Merge(Generic[Result]):
    """A merge of a source into a table; get one from ``table.merge(source, on=…)``, add clauses, then ``execute``.

    Of several clauses for a row the first whose condition is true counts; a row that no clause is for stays as it is.
    Conditions and values are SQL, in which ``t`` is the table's row and ``s`` the source's.

    >>> import lakebed, tempfile
    >>> lake = lakebed.connect(tempfile.mkdtemp())
    >>> stock = lake.create_table("stock", "item STRING, n BIGINT")
    >>> _ = stock.append([{"item": "apple", "n": 5}, {"item": "pear", "n": 1}])
    >>> sold = [{"item": "apple", "n": 2}, {"item": "pear", "n": 1}, {"item": "fig", "n": 3}]
    >>> _ = (
    ...     stock.merge(sold, on="t.item = s.item")
    ...     .when_matched_delete("t.n = s.n")
    ...     .when_matched_update({"n": "t.n - s.n"})
    ...     .when_not_matched_insert({"item": "s.item", "n": "-s.n"})
    ...     .execute()
    ... )
    >>> stock.to_arrow().sort_by("item").to_pylist()
    [{'item': 'apple', 'n': 3}, {'item': 'fig', 'n': -3}]
    """

    text: MergeText
    run: Callable[[MergeText], Result]

    def when_matched_update(
        self, set: Mapping[str, Any] | None = None, condition: str | Node | None = None
    ) -> Merge[Result]:
        """Set columns of rows that match; by default all that the source has, by name."""
        return self._with(When.MATCHED, Action.UPDATE, condition, set)

    def when_matched_delete(self, condition: str | Node | None = None) -> Merge[Result]:
        """Delete rows that match."""
        return self._with(When.MATCHED, Action.DELETE, condition, {})

    def when_not_matched_insert(
        self, values: Mapping[str, Any] | None = None, condition: str | Node | None = None
    ) -> Merge[Result]:
        """Insert rows of the source that match none; by default all columns that the source has, by name."""
        return self._with(When.NOT_MATCHED, Action.INSERT, condition, values)

    def when_not_matched_by_source_update(
        self, set: Mapping[str, Any], condition: str | Node | None = None
    ) -> Merge[Result]:
        """Set columns of rows of the table that match none of the source."""
        return self._with(When.NOT_MATCHED_BY_SOURCE, Action.UPDATE, condition, set)

    def when_not_matched_by_source_delete(self, condition: str | Node | None = None) -> Merge[Result]:
        """Delete rows of the table that match none of the source."""
        return self._with(When.NOT_MATCHED_BY_SOURCE, Action.DELETE, condition, {})

    def execute(self) -> Result:
        """Do it, as one commit. Raises DataError where several rows of the source would change one of the table."""
        return self.run(self.text)

    def _with(
        self, when: When, action: Action, condition: str | Node | None, values: Mapping[str, Any] | None
    ) -> Merge[Result]:
        if values is not None and not isinstance(values, Mapping):
            raise InputError("the values of a merge map column names", expected="a dict", found=repr(values))
        if condition is not None and not isinstance(condition, str | Node):
            raise InputError("the condition of a clause is SQL", expected="text", found=repr(condition))
        clause = Clause(when, action, condition, values)
        return replace(self, text=replace(self.text, clauses=(*self.text.clauses, clause)))


def condition_of(on: Any, target: str, source: str) -> str | Node:
    """The condition of a merge as SQL; names of columns mean that both rows have the same there.

    >>> condition_of(["id", "dt"], "t", "s")
    '`t`.`id` = `s`.`id` AND `t`.`dt` = `s`.`dt`'
    """
    if isinstance(on, Node) or (isinstance(on, str) and on.strip()):
        return on
    names = list(on) if isinstance(on, Iterable) and not isinstance(on, str | bytes) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(
            "on= says which rows match", expected="a condition like 't.id = s.id', or names of columns", found=repr(on)
        )
    quoted = ["`" + name.replace("`", "``") + "`" for name in names]
    return " AND ".join(f"`{target}`.{name} = `{source}`.{name}" for name in quoted)
