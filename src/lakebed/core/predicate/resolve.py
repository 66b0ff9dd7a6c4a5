"""Column names of a predicate, looked up in a schema."""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.core.errors import PredicateError
from lakebed.core.predicate.nodes import Column
from lakebed.core.schema import Struct, Type
from lakebed.core.schema_path import did_you_mean, format_path

_SHOWN = 20


def resolve(names: Sequence[str], schema: Struct, *, exact: bool = False) -> Column:
    """The column that the dotted ``names`` mean, with its logical spelling.

    Case is ignored where it leaves no doubt, unless ``exact``. Raises PredicateError for an unknown or
    ambiguous name, with the nearest names and the list of columns.

    >>> from lakebed.core.schema import Field, LONG
    >>> resolve(["ID"], Struct((Field("id", LONG),))).path
    ('id',)
    """
    kind: Type = schema
    path: list[str] = []
    for name in names:
        if not isinstance(kind, Struct):
            raise PredicateError(
                f"column {format_path(path)} has no member {name!r}: it is not a struct",
                fix=f"write `{'.'.join([*path, name])}` in backticks if that is the column's name",
            )
        found = kind.find(name)
        if exact and found is not None and found.name != name:
            found = None
        if found is None:
            raise _unknown(name, path, kind)
        path.append(found.name)
        kind = found.type
    return Column(tuple(path), kind)


def _unknown(name: str, path: list[str], scope: Struct) -> PredicateError:
    owner = f" in {'.'.join(path)}" if path else ""
    twins = [n for n in scope.names if n.casefold() == name.casefold()]
    if len(twins) > 1:
        return PredicateError(
            f"column {name!r}{owner} is ambiguous", found=", ".join(twins), fix="write the exact name"
        )
    return PredicateError(f"no such column {name!r}{owner}", fix=_suggestion(name, scope))


def _suggestion(name: str, scope: Struct) -> str:
    hint = did_you_mean(name, scope.names)
    if hint.startswith("there"):
        return hint
    listed = ", ".join(scope.names[:_SHOWN]) + (", …" if len(scope.names) > _SHOWN else "")
    return f"{hint} (the columns are {listed})"
