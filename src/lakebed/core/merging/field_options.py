"""The properties ``fields.<column>.<option>``: which column says what.

Column names may have dots, so an option is found by the end of the property's name.

>>> read({"fields.a.b.aggregate-function": "sum", "fields.g1,g2.sequence-group": "x, y"}).groups
((('g1', 'g2'), ('x', 'y')),)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakebed.core.properties import FIELDS
from lakebed.core.suggest import did_you_mean

DEFAULT_FUNCTION = "fields.default-aggregate-function"
AGGREGATE_FUNCTION = "aggregate-function"
IGNORE_RETRACT = "ignore-retract"
DELIMITER = "list-agg-delimiter"
DISTINCT = "distinct"
NESTED_KEY = "nested-key"
COUNT_LIMIT = "count-limit"
SEQUENCE_GROUP = "sequence-group"

OPTIONS = (AGGREGATE_FUNCTION, IGNORE_RETRACT, DELIMITER, DISTINCT, NESTED_KEY, COUNT_LIMIT, SEQUENCE_GROUP)

_LISTED = "lakebed.remove-record-on-sequence-group"

Names = tuple[str, ...]


@dataclass
class FieldOptions:
    """What the properties say, not yet compared with the schema."""

    by_column: dict[str, dict[str, str]] = field(default_factory=dict)
    """For each column the text of its options."""
    groups: tuple[tuple[Names, Names], ...] = ()
    """For each sequence group its sequence columns and the columns that they protect."""
    default_function: str | None = None
    problems: list[str] = field(default_factory=list)


def read(configuration: Mapping[str, str]) -> FieldOptions:
    """The options of all columns; a name that cannot be understood becomes a problem."""
    options = FieldOptions(default_function=configuration.get(DEFAULT_FUNCTION))
    for name, text in sorted(configuration.items()):
        if not name.startswith(FIELDS) or name == DEFAULT_FUNCTION:
            continue
        column, _, option = name.removeprefix(FIELDS).rpartition(".")
        if not column or option not in OPTIONS:
            hint = did_you_mean(option, OPTIONS) or f"a column has {', '.join(OPTIONS)}"
            options.problems.append(f"unknown property {name!r}: {hint}")
        elif option == SEQUENCE_GROUP:
            options.groups += ((names(column), names(text)),)
        else:
            options.by_column.setdefault(column, {})[option] = text
    return options


def names(text: str) -> Names:
    """The names of a list that is separated by commas.

    >>> names("a, b,")
    ('a', 'b')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())


def renamed(configuration: Mapping[str, str], new_names: Mapping[str, str]) -> dict[str, str]:
    """The configuration after columns got other names: the properties go with them.

    >>> renamed({"fields.n.aggregate-function": "sum", "fields.g.sequence-group": "n,m"}, {"n": "total"})
    {'fields.total.aggregate-function': 'sum', 'fields.g.sequence-group': 'total,m'}
    """

    def listed(text: str) -> str:
        return ",".join(new_names.get(name, name) for name in names(text))

    found = {}
    for key, text in configuration.items():
        column, _, option = key.removeprefix(FIELDS).rpartition(".")
        if not key.startswith(FIELDS) or key == DEFAULT_FUNCTION or option not in OPTIONS:
            found[key] = listed(text) if key == _LISTED else text
        elif option == SEQUENCE_GROUP:
            found[f"{FIELDS}{listed(column)}.{option}"] = listed(text)
        else:
            found[f"{FIELDS}{new_names.get(column, column)}.{option}"] = text
    return found
