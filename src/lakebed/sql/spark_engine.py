"""Queries on Spark: our tables go into the text as DataFrames, everything else stays as it was written.

``spark.sql(text, name=frame)`` puts frames into a query on a classic session and on Spark Connect alike: there through
views that are dropped when the query is analysed, here as a part of the plan. So no view is left behind, none can be
another's, and a frame stays what it was however late it is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from lakebed.core.errors import LakebedError, SqlError
from lakebed.sql.hints import hint
from lakebed.sql.place import pointed
from lakebed.sql.references import Query, Reference, split_text
from lakebed.sql.rows import Rows, columns_of

Reads = Sequence[tuple[Reference, Rows]]
_PLACE = re.compile(r"\s*SQLSTATE: \w+;?(\s*line \d+,? pos \d+;?)?")
"""Where Spark sees the mistake, in a text that the user did not write."""
_MISSING = re.compile(r"\[TABLE_OR_VIEW_NOT_FOUND\] The table or view (\S+) cannot")


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
    near: Callable[[Sequence[str]], str | None] = lambda _: None
    """A hint with the nearest name of a table of ours."""

    def run(self, query: Query, reads: Reads, parameters: Mapping[str, Any], start: int | None = None) -> Any:
        """The rows of a query as a DataFrame; ``start`` is where the text begins that Spark gets. Raises SqlError."""
        frames, splices = {}, []
        for number, (reference, rows) in enumerate(reads):
            wanted = hint(query, reference, columns_of(rows), parameters)
            frames[f"lakebed_{number}"] = rows.frame(self.session, wanted.columns, wanted.where)
            splices.append(Splice(reference.start, reference.end, _named(reference, number)))
        splices += qualifiers(query, [reference for reference, _ in reads])
        first = query.span.start if start is None else start
        text = spliced(query.source.text, first, query.span.end, splices, escape=bool(frames))
        return self.sql(text, parameters, frames, query.source.written)

    def sql(
        self,
        text: str,
        parameters: Mapping[str, Any],
        frames: Mapping[str, Any],
        written: str,
    ) -> Any:
        """What Spark makes of the text. Raises SqlError that points at the place in what the user wrote."""
        try:
            return self.session.sql(text, dict(parameters) or None, **frames)
        except LakebedError:
            raise
        except Exception as error:  # of a class that only a classic session has, or only Spark Connect
            raise translated(error, written, self.near) from error


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
    known_as = [(one.full or (one.parts if one.alias is None else ()), one) for one in references]
    spelled = {tuple(part.casefold() for part in parts): one for parts, one in known_as}
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


def spliced(text: str, first: int, last: int, splices: Sequence[Splice], *, escape: bool) -> str:
    """The text with parts replaced; ``escape`` keeps Spark from taking its braces for names of frames."""
    made, at = [], first

    def plain(piece: str) -> str:
        return piece.replace("{", "{{").replace("}", "}}") if escape else piece

    for splice in sorted(splices, key=lambda one: one.start):
        made += [plain(text[at : splice.start]), splice.text]
        at = splice.end
    return "".join([*made, plain(text[at:last])])


def translated(
    error: Exception, written: str, near: Callable[[Sequence[str]], str | None] = lambda _: None
) -> SqlError:
    """What Spark says of a query, as our error; it points at the place if Spark tells one."""
    first = _PLACE.sub("", _first_line(error)).strip()
    fragment, missing = _fragment(error), _MISSING.search(first)
    fix = near(split_text(missing[1])) if missing else None
    found = re.search(rf"(?<!\w){re.escape(fragment)}(?!\w)", written) if fragment else None
    if found is None:
        return SqlError(f"Spark does not run the statement: {first}", fix=fix)
    return pointed(written, found.start(), found.end(), first, fix=fix)


def _fragment(error: Exception) -> str:
    """The part of the query that Spark complains of; empty if it names none."""
    from pyspark.errors import PySparkException

    if not isinstance(error, PySparkException):
        return ""
    try:
        found = error.getQueryContext()
        return found[0].fragment() if found else ""
    except PySparkException:  # some contexts know no text, and say so in this way
        return ""


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
