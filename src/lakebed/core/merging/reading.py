"""Reads a merge specification from a table's configuration and collects everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakebed.core.actions import Metadata
from lakebed.core.keyed import KeySpec, MergeEngine
from lakebed.core.merging import field_options, sketches
from lakebed.core.merging.field_options import FieldOptions
from lakebed.core.merging.functions import SKETCHES, Function, fits, is_comparable, wanted
from lakebed.core.merging.spec import (
    IGNORE_DELETE,
    REMOVE_ON_DELETE,
    REMOVE_ON_SEQUENCE_GROUP,
    FieldRule,
    MergeSpec,
    SequenceGroup,
)
from lakebed.core.schema import Array, Decimal, Field, Primitive, Struct
from lakebed.core.schema_ddl import type_ddl
from lakebed.core.suggest import did_you_mean

_ONLY_FOR: Mapping[str, tuple[Function, ...]] = {
    field_options.DELIMITER: (Function.LISTAGG,),
    field_options.DISTINCT: (Function.COLLECT, Function.LISTAGG),
    field_options.NESTED_KEY: (Function.NESTED_UPDATE,),
    field_options.COUNT_LIMIT: (Function.NESTED_UPDATE,),
}


@dataclass
class SpecReader:
    """One reading of a configuration; ``problems`` grows while ``spec`` is made."""

    metadata: Metadata
    key: KeySpec
    options: FieldOptions
    problems: list[str] = field(default_factory=list)

    def spec(self) -> MergeSpec:
        """The specification; only valid when there are no problems afterwards."""
        self.problems += self.options.problems
        self._check_columns()
        groups = self._groups()
        spec = MergeSpec(
            key=self.key.key,
            sequence=self.key.sequence,
            engine=self.key.engine,
            fields=tuple(self._rules(groups)),
            groups=groups,
            ignore_delete=self._flag(IGNORE_DELETE),
            remove_on_delete=self._flag(REMOVE_ON_DELETE),
            remove_on_groups=field_options.names(self.metadata.configuration.get(REMOVE_ON_SEQUENCE_GROUP, "")),
        )
        self._check_engine(spec)
        self._check_removal(spec)
        return spec

    def _flag(self, name: str) -> bool:
        return self._boolean(name.removeprefix("lakebed."), self.metadata.configuration.get(name, "false"))

    def _boolean(self, name: str, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            self.problems.append(f"{name!r} is true or false, not {text!r}")
        return text.lower() == "true"

    def _check_columns(self) -> None:
        for name in self.options.by_column:
            if name not in self.metadata.schema:
                self.problems.append(f"property 'fields.{name}.…' names no column{self._near(name)}")

    def _near(self, name: str) -> str:
        hint = did_you_mean(name, self.metadata.schema.names)
        return f": {hint}" if hint else ""

    def _groups(self) -> tuple[SequenceGroup, ...]:
        taken: dict[str, str] = {}
        for sequence, columns in self.options.groups:
            title = f"sequence group {','.join(sequence)!r}"
            if not columns:
                self.problems.append(f"{title} protects no column")
            for name in (*sequence, *columns):
                self._check_member(name, title, taken.get(name))
                taken[name] = title
            self._check_comparable(sequence, title)
            self._check_required(sequence, columns, title)
        return tuple(SequenceGroup(sequence, columns) for sequence, columns in self.options.groups)

    def _check_member(self, name: str, title: str, other: str | None) -> None:
        if name not in self.metadata.schema:
            self.problems.append(f"{title} names no column with {name!r}{self._near(name)}")
        elif other == title:
            self.problems.append(f"{title} names column {name!r} twice")
        elif other is not None:
            self.problems.append(f"column {name!r} is in two groups: {other} and {title}")
        elif name in self.key.key:
            self.problems.append(f"{title} cannot have key column {name!r}")
        elif name in self.key.sequence:
            self.problems.append(f"{title} cannot have column {name!r}, which is in the table's sequence")

    def _check_comparable(self, sequence: Iterable[str], title: str) -> None:
        for column in (self.metadata.schema[name] for name in sequence if name in self.metadata.schema):
            if not is_comparable(column.type):
                self.problems.append(
                    f"{title} cannot be ordered by {column.name!r} of type {type_ddl(column.type)}: "
                    "a number, date or timestamp can"
                )

    def _check_required(self, sequence: Iterable[str], columns: Iterable[str], title: str) -> None:
        """Every row must set a column that is never null; one without the group's sequence sets none."""
        found = [f for f in self.metadata.schema if not f.nullable]
        always = {f.name for f in found}
        for column in found:
            if column.name in columns and not always & set(sequence):
                self.problems.append(
                    f"column {column.name!r} is NOT NULL, but a row without the sequence of {title} does not set it: "
                    "let the column be null, or make the sequence NOT NULL too"
                )

    def _rules(self, groups: tuple[SequenceGroup, ...]) -> Iterable[FieldRule]:
        sequences = {name for group in groups for name in group.sequence}
        for column in self.metadata.schema:
            options = self.options.by_column.get(column.name, {})
            role = self._role(column.name, sequences)
            if role is not None and options:
                self.problems.append(f"column {column.name!r} is {role}: it cannot have {_listed(options)}")
            if column.name in sequences:
                yield FieldRule(column.name, column.type, None)
            elif role is None:
                grouped = any(column.name in group.columns for group in groups)
                yield self._rule(column, options, grouped)

    def _role(self, name: str, group_sequences: set[str]) -> str | None:
        if name in self.key.key:
            return "part of the key"
        if name in self.key.sequence:
            return "part of the sequence"
        return "the sequence of a group" if name in group_sequences else None

    def _rule(self, column: Field, options: Mapping[str, str], grouped: bool) -> FieldRule:
        function = self._function(column, options, grouped)
        for option, functions in _ONLY_FOR.items():
            if option in options and function not in functions:
                names = " or ".join(f.value for f in functions)
                self.problems.append(f"column {column.name!r} has {option!r}, which is only for {names}")
        return FieldRule(
            name=column.name,
            type=column.type,
            function=function,
            ignore_retract=self._option_flag(column, options, field_options.IGNORE_RETRACT),
            delimiter=options.get(field_options.DELIMITER, ","),
            distinct=self._option_flag(column, options, field_options.DISTINCT),
            nested_key=self._nested_key(column, options),
            count_limit=self._count_limit(column, options),
            required=not column.nullable,
        )

    def _option_flag(self, column: Field, options: Mapping[str, str], option: str) -> bool:
        return self._boolean(f"fields.{column.name}.{option}", options.get(option, "false"))

    def _function(self, column: Field, options: Mapping[str, str], grouped: bool) -> Function | None:
        own = options.get(field_options.AGGREGATE_FUNCTION)
        text = own or self.options.default_function
        if text is None:
            aggregates = self.key.engine is MergeEngine.AGGREGATION
            return Function.LAST_NON_NULL_VALUE if aggregates else None
        try:
            function = Function(text)
        except ValueError:
            hint = did_you_mean(text, [f.value for f in Function]) or f"one of {', '.join(Function)}"
            self.problems.append(f"column {column.name!r} has unknown function {text!r}: {hint}")
            return None
        self._check_function(column, function, grouped)
        return function

    def _check_function(self, column: Field, function: Function, grouped: bool) -> None:
        if not fits(function, column.type):
            self.problems.append(
                f"column {column.name!r} of type {type_ddl(column.type)} cannot have {function.value}: "
                f"it takes {wanted(function)}"
            )
        if function in SKETCHES and not sketches.available():
            self.problems.append(f"column {column.name!r} with {function.value} needs the package 'datasketches'")
        free = grouped or function is Function.LAST_NON_NULL_VALUE
        if self.key.engine is MergeEngine.PARTIAL_UPDATE and not free:
            self.problems.append(
                f"column {column.name!r} with {function.value} is in no sequence group: "
                f"add it to one, 'fields.<sequence column>.sequence-group': {column.name!r}"
            )

    def _nested_key(self, column: Field, options: Mapping[str, str]) -> tuple[str, ...]:
        names = field_options.names(options.get(field_options.NESTED_KEY, ""))
        element = column.type.element if isinstance(column.type, Array) else None
        if not isinstance(element, Struct):
            return names
        for name in names:
            if name not in element:
                hint = did_you_mean(name, element.names)
                self.problems.append(
                    f"nested key {name!r} is not in column {column.name!r}" + (f": {hint}" if hint else "")
                )
            elif not isinstance(element[name].type, (Primitive, Decimal)):
                self.problems.append(f"nested key {name!r} of column {column.name!r} is not of a plain type")
        return names

    def _count_limit(self, column: Field, options: Mapping[str, str]) -> int | None:
        text = options.get(field_options.COUNT_LIMIT)
        if text is None:
            return None
        if not text.isdecimal() or int(text) < 1:
            self.problems.append(f"count-limit of column {column.name!r} is a whole number of at least 1, not {text!r}")
            return None
        return int(text)

    def _check_engine(self, spec: MergeSpec) -> None:
        engine = self.key.engine
        if engine is MergeEngine.FIRST_ROW and spec.sequence:
            self.problems.append("first-row keeps the row that came first: it cannot have a sequence")
        if spec.groups and engine is not MergeEngine.PARTIAL_UPDATE:
            self.problems.append("sequence groups are for partial-update")
        if not self.key.combines and (self.options.by_column or self.options.default_function):
            self.problems.append("functions of columns are for partial-update and aggregation")

    def _check_removal(self, spec: MergeSpec) -> None:
        removal = [name for name, is_set in (
            ("remove-record-on-delete", spec.remove_on_delete),
            ("remove-record-on-sequence-group", bool(spec.remove_on_groups)),
        ) if is_set]  # fmt: skip
        if removal and not self.key.combines:
            self.problems.append(f"{_listed(removal)} is for partial-update and aggregation")
        if spec.ignore_delete and removal:
            self.problems.append(f"ignore-delete and {_listed(removal)} contradict each other")
        if spec.groups and spec.remove_on_delete:
            self.problems.append("sequence groups and remove-record-on-delete contradict each other: "
                                 "use remove-record-on-sequence-group")  # fmt: skip
        known = {name for group in spec.groups for name in group.sequence}
        for name in spec.remove_on_groups:
            if name not in known:
                self.problems.append(f"remove-record-on-sequence-group: {name!r} is not the sequence of a group")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
