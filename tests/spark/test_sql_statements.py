"""Generated MERGE, UPDATE, DELETE and INSERT statements give the rows that plain DataFrames give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sql_statements import NAMES, SCHEMA, SHAPES, Model, Statements, comparable

import lakebed

pytestmark = pytest.mark.spark


def run_statements(spark: Any, folder: Path, shape: str, seed: int, count: int) -> int:
    """Run statements on one table, and compare its rows after each; returns how many changed it."""
    with lakebed.connect(folder / "warehouse", spark=spark) as lake:
        lake.sql(SHAPES[shape])
        lake.create_table("src", SCHEMA)
        table, source = lake.table("t"), lake.table("src")
        model = Model(spark, keyed=bool(table.primary_key))
        statements = Statements(seed, model)
        model.put(statements.rows(14, unique=model.keyed))
        table.append(_table(model.rows))
        changed = 0
        for number in range(count):
            src = statements.rows(statements.random.randrange(0, 9), unique=model.keyed or number % 2 == 0)
            source.overwrite(_table(src))
            before = list(model.rows)
            kind = statements.random.choice(["merge", "merge", "update", "delete", "insert"])
            made = getattr(statements, kind)(src)
            text, several = made if isinstance(made, tuple) else (made, False)
            try:
                if several:
                    with pytest.raises(lakebed.DataError, match="several rows of the source"):
                        lake.sql(text)
                else:
                    lake.sql(text)
                found = [tuple(row.values()) for row in table.to_arrow().to_pylist()]
                assert comparable(found) == comparable(model.rows)
            except BaseException as error:
                raise AssertionError(f"{shape}, seed {seed}, number {number}: {text}\n{before}\n{src}") from error
            changed += comparable(before) != comparable(model.rows)
            if len(model.rows) < 5:
                more = statements.rows(8, unique=True)
                model.put(more)
                table.append(_table(more))
        return changed


def _table(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.table([pa.array([row[at] for row in rows], f.type) for at, f in enumerate(SCHEMA)], schema=SCHEMA)


@pytest.mark.parametrize("shape", ["partitions", "key"])
def test_some_statements(spark: Any, tmp_path: Path, shape: str) -> None:
    assert NAMES[0] == "id"
    assert run_statements(spark, tmp_path, shape, seed=7, count=12) > 4


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", list(SHAPES))
def test_many_statements(spark: Any, tmp_path: Path, shape: str, seed: int) -> None:
    assert run_statements(spark, tmp_path, shape, seed, count=30) > 10
