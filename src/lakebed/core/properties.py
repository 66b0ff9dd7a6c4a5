"""Table properties: set once at creation or by ``alter``, kept in the open log's table configuration.

>>> to_configuration({"checkpoint-interval": 50, "team.owner": "shop"})
{'delta.checkpointInterval': '50', 'team.owner': 'shop'}
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lakebed.core.errors import InputError, OptionError
from lakebed.core.instant import to_duration_ms

COLUMN_MAPPING_MODE = "delta.columnMapping.mode"
MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"
TYPE_WIDENING = "delta.enableTypeWidening"
DELETION_VECTORS = "delta.enableDeletionVectors"

SYSTEM_CONFIGURATION: Mapping[str, str] = {
    DELETION_VECTORS: "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_lakebed_row_id",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_lakebed_row_version",
}
"""What every table of ours has; not a user's to change."""

_KEYED = frozenset({"lakebed.primary-key", "lakebed.buckets", "lakebed.merge-engine", "lakebed.sequence"})
_MANAGED = frozenset({*SYSTEM_CONFIGURATION, COLUMN_MAPPING_MODE, MAX_COLUMN_ID, TYPE_WIDENING, *_KEYED})


_ENGINES = ("delta.", "lakebed.")

FIELDS = "fields."
"""What the names of properties begin with that say how a column of a key table is merged."""


def is_mapped(configuration: Mapping[str, str]) -> bool:
    """Whether a column mapping is on; other writers may say ``none``.

    >>> is_mapped({COLUMN_MAPPING_MODE: "none"}), is_mapped({COLUMN_MAPPING_MODE: "name"})
    (False, True)
    """
    return configuration.get(COLUMN_MAPPING_MODE, "none") != "none"


@dataclass(frozen=True)
class Property:
    """One table property."""

    name: str
    key: str
    """Its key in the open log's configuration."""
    default: str
    description: str
    parse: Callable[[str], str]
    """Checks a value and returns its canonical text; raises ValueError with what was expected."""
    keyed: bool = False
    """Whether only a table with a primary key can have it."""


def _positive(text: str) -> str:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("a whole number of at least 1")
    return str(int(text))


def _not_negative(text: str) -> str:
    if not text.isdecimal():
        raise ValueError("a whole number of at least 0")
    return str(int(text))


def _duration(text: str) -> str:
    try:
        to_duration_ms(text)
    except InputError as error:
        raise ValueError(error.expected) from error
    return text


def _at_least_minus_one(text: str) -> str:
    try:
        number = int(text)
    except ValueError:
        number = -2
    if number < -1:
        raise ValueError("a whole number of at least 0, or -1 for all columns")
    return str(number)


def _boolean(text: str) -> str:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower()


def _merge(text: str) -> str:
    if text not in ("on-write", "on-read", "copy-on-write"):
        raise ValueError("on-write, on-read or copy-on-write")
    return text


def _ratio(text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number <= 1:
        raise ValueError("a number above 0 and up to 1")
    return str(number)


def _row_kinds(text: str) -> str:
    """Texts of a row-kind column, like ``c=insert, u=update, d=delete``."""
    pairs = [pair.split("=") for pair in text.split(",") if pair.strip()]
    if not all(len(pair) == 2 and pair[0].strip() and pair[1].strip().lower() in ROW_KINDS for pair in pairs):
        raise ValueError(f"pairs like c=insert,u=update,d=delete, with {', '.join(ROW_KINDS)}")
    return ",".join(f"{text.strip()}={kind.strip().lower()}" for text, kind in pairs)


ROW_KINDS = ("insert", "update", "delete", "update_before", "update_after")


PROPERTIES: Mapping[str, Property] = {
    p.name: p
    for p in (
        Property(
            "checkpoint-interval",
            "delta.checkpointInterval",
            "100",
            "versions between two checkpoints of the published log",
            _positive,
        ),
        Property(
            "append-only",
            "delta.appendOnly",
            "false",
            "refuse delete, update, overwrite and restore",
            _boolean,
        ),
        Property(
            "statistics-columns",
            "delta.dataSkippingNumIndexedCols",
            "32",
            "leaf columns that get minimum, maximum and null count per file; -1 for all",
            _at_least_minus_one,
        ),
        Property(
            "compaction-small-files",
            "lakebed.compaction-small-files",
            "5",
            "small files of one bucket or partition from which compact() packs them",
            _positive,
        ),
        Property(
            "compaction-dead-ratio",
            "lakebed.compaction-dead-ratio",
            "0.2",
            "share of dead rows from which compact() rewrites a file",
            _ratio,
        ),
        Property(
            "retain",
            "lakebed.retain",
            "7 days",
            "how long maintain() keeps versions that are not the newest, and their files",
            _duration,
        ),
        Property(
            "merge", "lakebed.merge", "on-write", "when an upsert is settled: by itself or later", _merge, keyed=True
        ),
        Property(
            "settle-on-read",
            "lakebed.settle-on-read",
            "false",
            "a read of the newest version keeps what it has to settle, as a commit",
            _boolean,
            keyed=True,
        ),
        Property(
            "compact-on-write",
            "lakebed.compact-on-write",
            "100000",
            "dead rows, in files almost dead, from which upserts that settle rewrite them; 0: nor do they pack",
            _not_negative,
            keyed=True,
        ),
        Property(
            "dynamic-bucket.target-rows",
            "lakebed.dynamic-bucket.target-rows",
            "2000000",
            "rows from which a dynamic bucket is split",
            _positive,
            keyed=True,
        ),
        Property(
            "row-kind", "lakebed.row-kind", "", "column of the incoming rows that says put or delete", str, keyed=True
        ),
        Property(
            "row-kind-values",
            "lakebed.row-kind-values",
            "",
            "what that column's texts mean, like c=insert,u=update,d=delete",
            _row_kinds,
            keyed=True,
        ),
        Property(
            "ignore-delete", "lakebed.ignore-delete", "false", "incoming deletes are passed over", _boolean, keyed=True
        ),
        Property(
            "remove-record-on-delete",
            "lakebed.remove-record-on-delete",
            "false",
            "a delete takes the whole row away where the merge engine would refuse or retract",
            _boolean,
            keyed=True,
        ),
        Property(
            "remove-record-on-sequence-group",
            "lakebed.remove-record-on-sequence-group",
            "",
            "sequence columns whose delete takes the whole row of a partial-update table away",
            str,
            keyed=True,
        ),
    )
}
_BY_KEY: Mapping[str, Property] = {p.key: p for p in PROPERTIES.values()}


def to_configuration(properties: Mapping[str, object]) -> dict[str, str]:
    """Properties as the open log's configuration. Raises OptionError on an unknown name or a wrong value.

    Names with a dot that no engine owns are the user's own and are kept as they are.
    """
    configuration: dict[str, str] = {}
    for name, value in named(properties).items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        known = PROPERTIES.get(name) or _BY_KEY.get(name)
        if known is not None:
            configuration[known.key] = _parsed(known, text)
        elif _is_own(name):
            configuration[name] = text
        else:
            raise _unknown(name)
    return configuration


def refuse_keyed(table: str, configuration: Mapping[str, str]) -> None:
    """Raise OptionError if there is a property that means nothing to a table without a primary key.

    >>> refuse_keyed("shop.log", {"lakebed.row-kind": "op", "team.owner": "shop"})
    Traceback (most recent call last):
    lakebed.core.errors.OptionError: table shop.log has no primary key; found property 'row-kind'; fix: leave it out
    """
    names = [
        _BY_KEY[key].name if key in _BY_KEY else key
        for key in configuration
        if key.startswith(FIELDS) or (key in _BY_KEY and _BY_KEY[key].keyed)
    ]
    if names:
        listed = " and ".join(f"property {name!r}" for name in names)
        fix = "leave it out" if len(names) == 1 else "leave them out"
        raise OptionError(f"table {table} has no primary key", found=listed, fix=fix)


def named(properties: Any) -> Mapping[str, Any]:
    """The properties themselves if they are named values. Raises OptionError."""
    if not isinstance(properties, Mapping) or not all(isinstance(name, str) for name in properties):
        raise OptionError("properties= maps names to values", expected="{'team.owner': 'shop'}", found=repr(properties))
    return properties


def _is_own(name: str) -> bool:
    """Whether the name is the user's to give."""
    return "." in name and not name.startswith(_ENGINES)


def _parsed(known: Property, text: str) -> str:
    try:
        return known.parse(text)
    except ValueError as error:
        raise OptionError(
            f"table property {known.name!r} has a wrong value", expected=str(error), found=repr(text)
        ) from error


def _unknown(name: str) -> OptionError:
    if name in _MANAGED:
        return OptionError(f"table property {name!r} is managed by Lakebed", fix="leave it out")
    if name.startswith(_ENGINES):
        return OptionError(
            f"table property {name!r} is not known", expected="a name that does not begin with delta. or lakebed."
        )
    if f"lakebed.{name}" in _KEYED:
        argument = f"{name.replace('-', '_')}="
        return OptionError(f"{name!r} is no table property", fix=f"pass {argument} to create_table; it cannot change")
    near = difflib.get_close_matches(name, PROPERTIES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "your own properties need a dot in the name, like 'team.owner'"
    return OptionError(f"unknown table property {name!r}", expected=f"one of {', '.join(sorted(PROPERTIES))}", fix=hint)


def configuration_key(name: str) -> str:
    """The key of a property in the open log's configuration. Raises OptionError for what is not a user's."""
    if name in PROPERTIES:
        return PROPERTIES[name].key
    if name in _BY_KEY or _is_own(name):
        return name
    raise _unknown(name)


def to_properties(configuration: Mapping[str, str]) -> dict[str, str]:
    """The configuration as a user sees it: our names, without what Lakebed manages."""
    return {
        _BY_KEY[key].name if key in _BY_KEY else key: value
        for key, value in configuration.items()
        if key not in _MANAGED
    }


def value_of(name: str, configuration: Mapping[str, str]) -> str:
    """The value of a known property, or its default."""
    known = PROPERTIES[name]
    return configuration.get(known.key, known.default)
