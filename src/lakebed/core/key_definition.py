"""Making a primary-key table: the key, the buckets and the merge, checked all at once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lakebed.core.bucketing import check_key_type
from lakebed.core.errors import InputError
from lakebed.core.keyed import (
    BUCKETS,
    DYNAMIC,
    MERGE,
    MERGE_ENGINE,
    POSTPONE,
    PRIMARY_KEY,
    SEQUENCE,
    UNAWARE,
    Merge,
    MergeEngine,
)
from lakebed.core.properties import refuse_keyed
from lakebed.core.schema import Array, Map, Struct
from lakebed.core.schema_check import raise_problems
from lakebed.core.schema_ddl import type_ddl
from lakebed.core.suggest import did_you_mean

MAX_BUCKETS = 100_000


@dataclass(frozen=True)
class KeyDefinition:
    """What a user asked for when making a table; ``None`` means the default."""

    primary_key: tuple[str, ...] = ()
    buckets: object = None
    merge: object = None
    merge_engine: object = None
    sequence: tuple[str, ...] = ()

    def checked(self, table: str, schema: Struct) -> tuple[KeyDefinition, Struct]:
        """The definition with the columns' own spelling, and the schema with keys that cannot be null.

        Raises one SchemaError or InputError that lists every problem.
        """
        if not self.primary_key:
            self._refuse_without_key(table)
            return self, schema
        problems = [
            *_column_problems("primary_key=", self.primary_key, schema),
            *_column_problems("sequence=", self.sequence, schema),
            *_choice_problems("merge=", self.merge, Merge),
            *_choice_problems("merge_engine=", self.merge_engine, MergeEngine),
            *_bucket_problems(self.buckets),
        ]
        key, sequence = _spelled(self.primary_key, schema), _spelled(self.sequence, schema)
        problems += [
            f"column {name!r} cannot be a key: {reason}"
            for name in key
            if (reason := check_key_type(schema[name].type)) is not None
        ]
        problems += [
            f"column {name!r} cannot order rows: {type_ddl(schema[name].type)} has no order"
            for name in sequence
            if isinstance(schema[name].type, Struct | Map | Array)
        ]
        problems += [
            f"column {name!r} is in the key: it cannot order rows of one key" for name in sequence if name in key
        ]
        raise_problems(f"table {table}: the primary key is not possible", problems)
        fields = tuple(replace(f, nullable=False) if f.name in key else f for f in schema)
        return replace(self, primary_key=key, sequence=sequence), Struct(fields)

    def _refuse_without_key(self, table: str) -> None:
        given = {"merge=": self.merge, "merge_engine=": self.merge_engine, "sequence=": self.sequence or None}
        if self.buckets not in (None, UNAWARE):
            given["buckets="] = self.buckets
        named = [name for name, value in given.items() if value is not None]
        if named:
            raise InputError(
                f"table {table} has no primary key", found=" and ".join(named), fix="pass primary_key=[…] too"
            )

    def compare(self, table: str, configuration: Mapping[str, str]) -> None:
        """Raise OptionError for properties of key tables if this is none, InputError if ``merge`` is said twice."""
        if not self.primary_key:
            refuse_keyed(table, configuration)
        given = configuration.get(MERGE)
        if given is not None and self.merge not in (None, given):
            raise InputError(f"table {table}: merge= and the property 'merge' differ", found=f"{self.merge}, {given}")

    def configuration(self, schema: Struct) -> dict[str, str]:
        """The entries of the table's configuration; ``schema`` is the final one, with physical names."""
        if not self.primary_key:
            return {}
        found = {
            PRIMARY_KEY: json.dumps([schema[name].physical_name for name in self.primary_key], ensure_ascii=False),
            BUCKETS: str(DYNAMIC if self.buckets is None else self.buckets),
            MERGE_ENGINE: str(self.merge_engine or MergeEngine.DEDUPLICATE),
        }
        if self.merge is not None:
            found[MERGE] = str(self.merge)
        if self.sequence:
            found[SEQUENCE] = json.dumps([schema[name].physical_name for name in self.sequence], ensure_ascii=False)
        return found


def _column_problems(argument: str, names: Sequence[str], schema: Struct) -> list[str]:
    unknown = [name for name in names if schema.find(name) is None]
    problems = [f"{argument} {name!r} is not a column; {_near(name, schema)}" for name in unknown]
    spelled = _spelled(names, schema)
    return problems + [f"{argument} names {name!r} twice" for name in dict.fromkeys(spelled) if spelled.count(name) > 1]


def _spelled(names: Sequence[str], schema: Struct) -> tuple[str, ...]:
    """The names as the schema has them; unknown ones are left out."""
    return tuple(field.name for name in names if (field := schema.find(name)) is not None)


def _near(name: str, schema: Struct) -> str:
    return did_you_mean(name, schema.names) or f"the columns are {', '.join(schema.names)}"


def _choice_problems(argument: str, value: object, choices: type[Merge] | type[MergeEngine]) -> list[str]:
    known = [choice.value for choice in choices]
    if value is None or value in known:
        return []
    return [f"{argument} is one of {', '.join(known)}, not {value!r}"]


def _bucket_problems(buckets: object) -> list[str]:
    if buckets is None or buckets in (DYNAMIC, POSTPONE):
        return []
    if type(buckets) is int and 1 <= buckets <= MAX_BUCKETS:
        return []
    expected = f"a whole number from 1 to {MAX_BUCKETS}, {DYNAMIC!r} or {POSTPONE!r}"
    return [f"buckets= is {expected}, not {buckets!r}"]
