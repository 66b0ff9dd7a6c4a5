"""Tables of Spark's catalog: their options reach no reader, so that the columns themselves say which table they are of.

Only readers believe them. The columns of a frame keep what they say wherever they go: a writer that believed them
would write to the table that the rows come from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakebed.spark.addressed import PATH, READING, of_catalog, sorted_out

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_KEY = "lakebed.options"


def labelled(schema: StructType, given: Mapping[str, str], own: tuple[str, ...]) -> StructType:
    """The columns with the options of their reader, where the catalog asks for them.

    Options of a connection may be secret, and stay out; such a table cannot be read by its name.
    """
    from pyspark.sql.types import StructField, StructType

    if not of_catalog(given):
        return schema
    mine, connection = sorted_out(given, own)
    if connection:
        return schema
    label = {_KEY: json.dumps({name: text for name, text in mine.items() if name in READING})}
    return StructType([StructField(f.name, f.dataType, f.nullable, label) for f in schema.fields])


def named_by(schema: StructType) -> str | None:
    """The table that all columns tell alike; None if they do not.

    It is for messages only: it may be the table that an INSERT is about, or the one that its rows come from.
    """
    labels = {f.metadata.get(_KEY) for f in schema.fields}
    label = labels.pop() if len(labels) == 1 else None
    return None if label is None else json.loads(label).get(PATH)


def options_of(schema: StructType, given: Mapping[str, str]) -> dict[str, str]:
    """The options of a read: those that are given, or else those that all columns tell alike."""
    labels = {f.metadata.get(_KEY) for f in schema.fields}
    if PATH in given or len(labels) != 1:
        return dict(given)
    label = labels.pop()
    return dict(given) if label is None else {**json.loads(label), **given}
