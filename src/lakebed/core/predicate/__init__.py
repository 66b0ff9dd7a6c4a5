"""Predicates: parsed from SQL or Arrow, evaluated on rows, and used to skip files."""

from lakebed.core.predicate.evaluate import evaluate
from lakebed.core.predicate.expression import to_expression
from lakebed.core.predicate.files import may_match_files, must_match_files
from lakebed.core.predicate.nodes import Node, columns, conjunction, disjunction
from lakebed.core.predicate.parse import Predicate, parse, parse_value
from lakebed.core.predicate.prune import may_match, must_match
from lakebed.core.predicate.render import render

__all__ = [
    "Node",
    "Predicate",
    "columns",
    "conjunction",
    "disjunction",
    "evaluate",
    "may_match",
    "may_match_files",
    "must_match",
    "must_match_files",
    "parse",
    "parse_value",
    "render",
    "to_expression",
]
