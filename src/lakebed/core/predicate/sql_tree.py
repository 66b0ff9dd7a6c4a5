"""SQL text to a syntax tree, by sqlglot as a pure parser of Spark's SQL."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError

from lakebed.core.errors import PredicateError
from lakebed.core.sql_tokens import join_quotes


def syntax_tree(text: str) -> exp.Expression:
    """The tree of one SQL expression; raises PredicateError with the position where parsing stopped.

    >>> syntax_tree("a = 'it''s'").expression.this
    "it's"
    """
    if not text.strip():
        raise PredicateError("the predicate is empty", fix="pass None to mean every row")
    dialect = Spark()
    try:
        trees = dialect.parser().parse(join_quotes(dialect.tokenize(text), text), text)
    except ParseError as error:
        raise PredicateError(f"the predicate {text!r} cannot be parsed{_stopped(error)}") from error
    except SqlglotError as error:
        raise PredicateError(f"the predicate {text!r} cannot be parsed: {error}") from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Expression):
        raise PredicateError(f"the predicate {text!r} is not one expression")
    return trees[0]


def _stopped(error: ParseError) -> str:
    # sqlglot's own words name its classes; the place and the word say more to a user.
    first = error.errors[0] if error.errors else {}
    if not first.get("line"):
        return ""
    return f" at line {first['line']}, column {first['col']}, near {first.get('highlight')!r}"
