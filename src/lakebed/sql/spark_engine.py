"""Queries on Spark: our tables go into the text as DataFrames, everything else stays as it was written.

``spark.sql(text, name=frame)`` puts frames into a query on a classic session and on Spark Connect alike: there through
views that are dropped when the query is analysed, here as a part of the plan. So no view is left behind, none can be
another's, and a frame stays what it was however late it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from lakebed.core.errors import LakebedError, SqlError
from lakebed.sql.hints import hint
from lakebed.sql.place import pointed
from lakebed.sql.references import Query, Reference
from lakebed.sql.rows import Rows, columns_of

Reads = Sequence[tuple[Reference, Rows]]


@dataclass(frozen=True)
class Splice:
    """Some text of a statement, and what is put in its place."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class SparkEngine:
    """Runs queries on a session."""

    session: Any

    def run(self, query: Query, reads: Reads, parameters: Mapping[str, Any], start: int | None = None) -> Any:
        """The rows of a query as a DataFrame; ``start`` is where the text begins that Spark gets. Raises SqlError."""
        frames, splices = {}, []
        for number, (reference, rows) in enumerate(reads):
            wanted = hint(query, reference, columns_of(rows), parameters)
            frames[f"lakebed_{number}"] = rows.frame(self.session, wanted.columns, wanted.where)
            splices.append(Splice(reference.start, reference.end, _named(reference, number)))
        splices += qualifiers(query, [reference for reference, _ in reads])
        first = query.span.start if start is None else start
        text, places = spliced(query.source.text, first, query.span.end, splices, escape=bool(frames))
        return self.sql(text, parameters, frames, query.source.text, places)

    def sql(
        self,
        text: str,
        parameters: Mapping[str, Any],
        frames: Mapping[str, Any],
        original: str,
        places: Sequence[tuple[int, int]],
    ) -> Any:
        """What Spark makes of the text. Raises SqlError that points at the place in the original."""
        try:
            return self.session.sql(text, dict(parameters) or None, **frames)
        except LakebedError:
            raise
        except Exception as error:  # of a class that only a classic session has, or only Spark Connect
            raise translated(error, original, places) from error


def _named(reference: Reference, number: int) -> str:
    name = f"{{lakebed_{number}}}"
    if reference.alias is not None:
        return name
    if reference.is_sampled:
        return f"(SELECT * FROM {name})"
    return f"{name} AS {quoted(called(reference))}"


def called(reference: Reference) -> str:
    """What columns of the table are qualified with."""
    return reference.alias or reference.parts[-1]


def quoted(name: str) -> str:
    """A name in backticks.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def qualifiers(query: Query, references: Sequence[Reference]) -> list[Splice]:
    """Columns like ``shop.orders.amount``, whose table has only its last name in the query that Spark gets."""
    shift = query.source.shift
    spelled = {tuple(part.casefold() for part in one.parts): one for one in references if one.alias is None}
    long = {parts: one for parts, one in spelled.items() if len(parts) > 1}
    found = []
    for column in query.tree.find_all(exp.Column) if long else ():
        parts = [part for part in column.parts if isinstance(part, exp.Identifier)]
        for length in (3, 2):
            known = long.get(tuple(part.name.casefold() for part in parts[:length]))
            if known is not None and len(column.parts) > length:
                first, last = parts[0].meta["start"], parts[length - 1].meta["end"]
                found.append(Splice(first - shift, last + 1 - shift, quoted(called(known))))
                break
    return found


def spliced(
    text: str, first: int, last: int, splices: Sequence[Splice], *, escape: bool
) -> tuple[str, list[tuple[int, int]]]:
    """The text with parts replaced, and where its parts were: pairs of places, in the new text and in the old."""
    made, places, at = "", [(0, first)], first

    def plain(piece: str) -> str:
        return piece.replace("{", "{{").replace("}", "}}") if escape else piece

    for splice in sorted(splices, key=lambda one: one.start):
        made += plain(text[at : splice.start])
        places.append((len(made), splice.start))
        made += splice.text
        places.append((len(made), splice.end))
        at = splice.end
    return made + plain(text[at:last]), places


def translated(error: Exception, original: str, places: Sequence[tuple[int, int]]) -> SqlError:
    """What Spark says of a query, as our error; it points at the place if Spark tells one."""
    first = _first_line(error)
    fragment = _fragment(error)
    at = original.find(fragment) if fragment else -1
    if at < 0:
        return SqlError(f"Spark does not run the statement: {first}")
    return pointed(original, at, at + len(fragment), first)


def _fragment(error: Exception) -> str:
    context = getattr(error, "getQueryContext", None)
    try:
        found = context() if callable(context) else []
        return str(found[0].fragment()) if found else ""
    except Exception:
        return ""


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
