"""Which names stand in SQL text as they are, and which need backticks."""

from __future__ import annotations

from sqlglot.dialects.spark import Spark

from lakebed.core.schema_path import quote_name


def quote_word(name: str) -> str:
    """The name as SQL text has it: in backticks unless it is a plain word and no keyword.

    >>> quote_word("id"), quote_word("date")
    ('id', '`date`')
    """
    quoted = quote_name(name)
    if quoted != name:
        return quoted
    tokens = Spark().tokenize(name)
    plain = len(tokens) == 1 and tokens[0].token_type.name == "VAR"
    return name if plain else f"`{name}`"
