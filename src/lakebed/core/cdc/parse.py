"""Messages of one format as rows with row kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from lakebed.core.cdc.canal import Canal
from lakebed.core.cdc.change import DELETE, Change, Format, MalformedError, Wanted
from lakebed.core.cdc.debezium import Debezium
from lakebed.core.cdc.encoding import Declared, Encoding
from lakebed.core.cdc.maxwell import Maxwell
from lakebed.core.cdc.messages import read_messages, texts_in
from lakebed.core.cdc.new_columns import found_types
from lakebed.core.cdc.values import UNAVAILABLE, Column
from lakebed.core.errors import DataError
from lakebed.core.schema import BINARY, DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ, Decimal, Field, Struct, Type
from lakebed.core.schema_arrow import to_arrow, type_to_arrow

FORMATS: Mapping[str, Callable[[], Format]] = {"debezium": Debezium, "maxwell": Maxwell, "canal": Canal}
REFUSE, IGNORE, ADD = NEW_COLUMNS = ("refuse", "ignore", "add")
FAIL, ASIDE = MALFORMED = ("fail", "aside")
TIMESTAMPS = {"millis": Encoding.MILLIS, "micros": Encoding.MICROS, "nanos": Encoding.NANOS}
DECIMALS = {"text": Encoding.PLAIN, "base64": Encoding.UNSCALED}

ROW_KIND, POSITION = "_row_kind", "_position"
REASON, MESSAGE = "_malformed", "_message"
ADDED = (Field(ROW_KIND, STRING), Field(POSITION, STRING))
PUT_ASIDE = (Field(REASON, STRING), Field(MESSAGE, STRING))
_RESERVED = {field.name for field in (*ADDED, *PUT_ASIDE)}


@dataclass(frozen=True)
class Parsing:
    """How messages are read; serialisable."""

    format: str
    columns: Struct
    """The columns that rows have, all of which may be null; none of what is added to them."""
    wanted: Wanted = Wanted()
    new_columns: str = REFUSE
    malformed: str = FAIL
    timestamps: str | None = None
    decimals: str | None = None
    time_zone: str = "UTC"
    keeps: bool = False
    """Whether a null leaves a column as it is (partial-update), so that a value may be left out."""

    @staticmethod
    def columns_of(schema: Struct) -> Struct:
        """The columns of a table that messages tell of."""
        return Struct(tuple(Field(f.name, f.type) for f in schema if f.name not in _RESERVED))

    @property
    def schema(self) -> Struct:
        """The columns that come out."""
        return Struct((*self.columns, *ADDED, *(PUT_ASIDE if self.malformed == ASIDE else ())))

    def rows(self, column: pa.Array) -> pa.Table:
        """The rows that the messages tell of, in their order. Raises DataError for one that is malformed."""
        texts, changes, wrong = self._read(column)
        found, unfit = self._columns(changes)
        wrong.update(unfit)
        if wrong and self.malformed == FAIL:
            raise _malformed(texts, wrong)
        if wrong:
            keep = pa.array([number not in wrong for number, _ in changes], pa.bool_())
            found = found.filter(keep)
        if self.malformed == ASIDE:
            found = pa.concat_tables([self._told(found), self._aside(texts, wrong)])
        return found

    def types(self, column: pa.Array) -> dict[str, Type]:
        """The columns in the messages that there are none for, and what type each would have."""
        _, changes, _ = self._read(column)
        return found_types([change for _, change in changes], self.columns)

    def _read(self, column: pa.Array) -> tuple[list[str | None], list[tuple[int, Change]], dict[int, str]]:
        """The texts, the changes by the number of their message, and what is wrong with messages, by number."""
        texts, wrong = texts_in(column)
        messages, not_json = read_messages(texts)
        wrong.update(not_json)
        reader = FORMATS[self.format]()
        changes: list[tuple[int, Change]] = []
        for number, message in enumerate(messages):
            if message is None:  # a tombstone; the message before it has told of the delete
                continue
            try:
                if not isinstance(message, dict):
                    raise MalformedError("it is no object")
                changes += [(number, change) for change in reader.changes(message, self.wanted)]
            except MalformedError as error:
                wrong[number] = str(error)
        return texts, changes, wrong

    def _columns(self, changes: Sequence[tuple[int, Change]]) -> tuple[pa.Table, dict[int, str]]:
        """The rows of changes, and what is wrong with some messages, by number."""
        wrong: dict[int, str] = {}
        parts = []
        # Messages of one schema are told alike, and most messages have that of their neighbours.
        for _, run in groupby(changes, key=lambda one: id(one[1].declared)):
            same = list(run)
            numbers, told = [number for number, _ in same], [change for _, change in same]
            sources, others = _sources(told, self.columns)
            if self.new_columns == REFUSE and others:
                wrong.update(_unknown(same, others))
            arrays = []
            for field in self.columns:
                array, unfit = self._column(field, sources.get(field.name), told)
                arrays.append(array)
                wrong.update({numbers[at]: f"column {field.name!r} has {why}" for at, why in unfit.items()})
            arrays += [pa.array([c.kind for c in told], pa.string()), pa.array([c.position for c in told], pa.string())]
            parts.append(pa.Table.from_arrays(arrays, schema=to_arrow(Struct((*self.columns, *ADDED)))))
        empty = to_arrow(Struct((*self.columns, *ADDED))).empty_table()
        found = pa.concat_tables([empty, *parts])
        return found, {**self._keyless(found, changes), **wrong}

    def _column(self, field: Field, source: str | None, told: Sequence[Change]) -> tuple[pa.Array, dict[int, str]]:
        if source is None:
            return pa.nulls(len(told), type_to_arrow(field.type)), {}
        values = [change.image.get(source) for change in told]
        left_out = {at for at, value in enumerate(values) if value == UNAVAILABLE}
        if left_out:
            values = [None if value == UNAVAILABLE else value for value in values]
        declared = told[0].declared.get(source)
        found, wrong = Column(field.type, self._known(declared, field.type), self.time_zone).read(values)
        if not self.keeps:
            why = "a value that the source left out: let the source's table have REPLICA IDENTITY FULL"
            wrong.update({at: why for at in left_out if told[at].kind != DELETE})
        return found, wrong

    def _known(self, declared: Declared | None, target: Type) -> Declared:
        """How values are written, where the message tells it, and by the format's own rules."""
        if declared is not None and self.format == "debezium":
            return declared
        if target == BINARY:
            return Declared(None, Encoding.LATIN1 if self.format == "canal" else Encoding.BASE64)
        if self.format != "debezium":
            return Declared(None)
        if target == DATE:
            return Declared(None, Encoding.DAYS)
        if target in (TIMESTAMP, TIMESTAMP_NTZ):
            return Declared(None, TIMESTAMPS.get(str(self.timestamps), Encoding.UNKNOWN_UNIT))
        if isinstance(target, Decimal):
            return Declared(None, DECIMALS.get(str(self.decimals), Encoding.UNKNOWN_DECIMAL), target.scale)
        return Declared(None)

    def _keyless(self, rows: pa.Table, changes: Sequence[tuple[int, Change]]) -> dict[int, str]:
        wrong: dict[int, str] = {}
        for name in self.wanted.key:
            column = rows.column(name)
            if column.null_count:
                missing = [at for at, value in enumerate(column.is_null().to_pylist()) if value]
                wrong.update({changes[at][0]: f"column {name!r} of the primary key has no value" for at in missing})
        return wrong

    def _told(self, rows: pa.Table) -> pa.Table:
        nothing = pa.nulls(rows.num_rows, pa.string())
        return rows.append_column(REASON, nothing).append_column(MESSAGE, nothing)

    def _aside(self, texts: Sequence[str | None], wrong: Mapping[int, str]) -> pa.Table:
        schema = to_arrow(self.schema)
        known = {REASON: [wrong[at] for at in sorted(wrong)], MESSAGE: [texts[at] for at in sorted(wrong)]}
        nothing = [pa.nulls(len(wrong), field.type) for field in schema]
        arrays = [
            pa.array(known[f.name], f.type) if f.name in known else n for f, n in zip(schema, nothing, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=schema)


def _sources(told: Sequence[Change], columns: Struct) -> tuple[dict[str, str], set[str]]:
    """Which column of the messages each column is, and the columns of the messages that there is none for."""
    names: set[str] = set().union(*(change.image for change in told))
    known = {name: field.name for name in sorted(names) if (field := columns.find(name)) is not None}
    return {column: name for name, column in known.items()}, names - known.keys()


def _unknown(same: Sequence[tuple[int, Change]], names: set[str]) -> dict[int, str]:
    """The messages that have columns which the table has not."""
    extra = ((number, sorted(names & change.image.keys())) for number, change in same)
    return {
        number: f"column {found[0]!r} is not one of the table: pass new_columns='add' or 'ignore'"
        for number, found in extra
        if found
    }


def _malformed(texts: Sequence[Any], wrong: Mapping[int, str]) -> DataError:
    first = min(wrong)
    text = str(texts[first])
    example = text if len(text) <= 300 else text[:297] + "..."
    others = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return DataError(
        f"a change message cannot be read{others}",
        (f"{wrong[first]}; the message is {example}",),
        fix="malformed='aside' puts such messages into columns of their own",
    )
