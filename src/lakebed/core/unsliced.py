"""Arrow rows for those who cannot take a part of an array for an array."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pat


def unsliced(rows: pa.Table) -> pa.Table:
    """The same rows; nested columns are copied, so that they begin where their memory does.

    PySpark cannot make a DataFrame of lists with nulls that are a slice of others.

    >>> lists = pa.array([[{"a": 1}], None, [{"a": 2}]])
    >>> unsliced(pa.table({"l": lists.slice(1)})).column("l").chunk(0).offset
    0
    """
    for at, column in enumerate(rows.columns):
        if pat.is_nested(column.type):
            rows = rows.set_column(at, rows.field(at), column.take(pa.array(np.arange(rows.num_rows))))
    return rows
