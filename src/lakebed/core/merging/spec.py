"""What a table says of merging: its engine, the functions of its columns, its sequence groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lakebed.core.actions import Metadata
from lakebed.core.errors import OptionError
from lakebed.core.keyed import KeySpec, MergeEngine
from lakebed.core.merging import field_options
from lakebed.core.merging.functions import NULLED, RETRACTABLE, WHOLE_NUMBERS, Function, is_exact
from lakebed.core.schema import Array, Decimal, Map, Struct, Type

IGNORE_DELETE = "lakebed.ignore-delete"
REMOVE_ON_DELETE = "lakebed.remove-record-on-delete"
REMOVE_ON_SEQUENCE_GROUP = "lakebed.remove-record-on-sequence-group"

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
"""Row kinds, as in the hidden column."""
RETRACTS = (UPDATE_BEFORE, DELETE)


@dataclass(frozen=True)
class FieldRule:
    """How the values of one column become one."""

    name: str
    type: Type
    function: Function | None
    """None in a partial-update table: a value that is not null replaces; in a sequence group any value does."""
    ignore_retract: bool = False
    delimiter: str = ","
    distinct: bool = False
    nested_key: tuple[str, ...] = ()
    count_limit: int | None = None
    required: bool = False
    """Whether the column is NOT NULL."""

    @property
    def retracts(self) -> bool:
        """Whether the function can take a row back."""
        return self.function is None or self.ignore_retract or self.function in RETRACTABLE

    @property
    def loses_its_value(self) -> bool:
        """Whether a row that is taken back leaves a null in a column that must not have one."""
        return self.required and not self.ignore_retract and self.function in NULLED


@dataclass(frozen=True)
class SequenceGroup:
    """Columns of a partial-update table that are ordered by sequence columns of their own."""

    sequence: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class MergeSpec:
    """How the rows of one key become one; columns by their present names."""

    key: tuple[str, ...]
    sequence: tuple[str, ...]
    engine: MergeEngine
    fields: tuple[FieldRule, ...]
    """The columns that are neither key nor sequence; those of a group's sequence have no function."""
    groups: tuple[SequenceGroup, ...] = ()
    ignore_delete: bool = False
    remove_on_delete: bool = False
    """A row of kind -D takes the whole row away."""
    remove_on_groups: tuple[str, ...] = ()
    """Sequence columns of the groups in which a row of kind -D takes the whole row away."""

    @staticmethod
    def of(metadata: Metadata) -> MergeSpec:
        """What the table's configuration says. Raises OptionError with every problem in it.

        >>> schema = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":false,"metadata":{}},'
        >>> schema += '{"name":"sales","type":"long","nullable":true,"metadata":{}}]}'
        >>> spec = MergeSpec.of(Metadata("t", schema, configuration={
        ...     "lakebed.primary-key": '["id"]', "lakebed.merge-engine": "aggregation",
        ...     "fields.sales.aggregate-function": "sum"}))
        >>> spec.fields[0].name, spec.fields[0].function.value
        ('sales', 'sum')
        """
        # The reader makes a MergeSpec, so it cannot be imported above.
        from lakebed.core.merging.reading import SpecReader

        key = KeySpec.of(metadata)
        if key is None:
            raise OptionError("a table without a primary key merges nothing", fix="set primary_key= at creation")
        reader = SpecReader(metadata, key, field_options.read(metadata.configuration))
        spec = reader.spec()
        if reader.problems:
            lines = "".join(f"\n  - {problem}" for problem in reader.problems)
            raise OptionError(f"merge engine {key.engine.value!r} cannot work with these properties:{lines}")
        return spec

    @property
    def keeps_tombstones(self) -> bool:
        """Whether a deleted key is remembered with its sequence."""
        return bool(self.sequence)

    @property
    def aggregates(self) -> bool:
        """Whether every column has a function."""
        return self.engine is MergeEngine.AGGREGATION

    def required(self, columns: Iterable[str]) -> tuple[str, ...]:
        """The columns that must be read to know what these become, in no particular order of the table.

        >>> spec = MergeSpec(("id",), ("ts",), MergeEngine.PARTIAL_UPDATE, (), (SequenceGroup(("g",), ("a", "b")),))
        >>> spec.required(["a"])
        ('id', 'ts', 'a', 'g')
        """
        wanted = list(columns)
        needed = [*self.key, *self.sequence, *wanted]
        for group in self.groups:
            if set(wanted) & {*group.columns, *group.sequence} or set(group.sequence) & set(self.remove_on_groups):
                needed += group.sequence
        return tuple(dict.fromkeys(needed))


def changes_rows(before: MergeSpec, after: MergeSpec) -> bool:
    """Whether rows that wait to be merged could become something else by other rules than those they came for.

    They do not if a column only becomes wider or nullable; so a value that has no place in it can get one.
    """
    if len(before.fields) != len(after.fields):
        return True
    pairs = zip(before.fields, after.fields, strict=True)
    fields = tuple(replace(a, required=b.required, type=b.type) if _is_looser(b, a) else a for b, a in pairs)
    return replace(after, fields=fields) != before


def _is_looser(before: FieldRule, after: FieldRule) -> bool:
    if after.required and not before.required:
        return False
    if before.type == after.type:
        return True
    if isinstance(before.type, Struct | Array | Map):
        return False
    if after.function not in (Function.SUM, Function.PRODUCT):
        return True
    if after.function is Function.SUM:
        return is_exact(before.type) and is_exact(after.type)
    # Products are rounded to the scale of decimals; whole numbers are not.
    same_scale = isinstance(before.type, Decimal) and before.type.scale == getattr(after.type, "scale", None)
    return same_scale or (before.type in WHOLE_NUMBERS and after.type in WHOLE_NUMBERS)


def check_spec(metadata: Metadata) -> None:
    """Says at creation what the merge engine could not do. Raises OptionError with every problem; effects: none."""
    if KeySpec.of(metadata) is not None:
        MergeSpec.of(metadata)
