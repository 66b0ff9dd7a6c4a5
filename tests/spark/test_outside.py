"""Tables that Spark has written and maintained, read by deltalake and polars: every version is the same there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import test_key_outside
import test_outside as keyless
from histories import RandomHistory
from spark_frames import FramedWarehouse
from test_key_outside import CASES, SHAPES, KeyHistory

import lakebed

pytestmark = pytest.mark.spark

OFTEN = [("on-write", "deduplicate", "plain"), ("on-read", "aggregation", "sequence")]
SOAK = [pytest.param(*case, marks=[] if case in OFTEN else pytest.mark.soak) for case in CASES]


@pytest.fixture
def framed(spark: Any, tmp_path: Path) -> Iterator[Any]:
    """A warehouse that gets frames, and leaves all maintenance to Spark."""
    with lakebed.connect(tmp_path / "warehouse", spark=spark, distribute_from=0) as lake:
        yield FramedWarehouse(lake, spark)


@pytest.mark.parametrize(
    ("partitions", "seed"),
    [("several", 2), *(pytest.param(name, 3, marks=pytest.mark.soak) for name in ("none", "one", "times"))],
)
def test_tables_without_a_key(framed: Any, partitions: str, seed: int) -> None:
    history = RandomHistory.begin(framed, seed, partitions, checkpoint_interval=4)
    history.append_many()
    history.run(7, plain=7)
    table = history.table
    compared = keyless.compare(table, table.location, range(table.version + 1))
    assert compared == {"deltalake": table.version + 1, "polars": table.version + 1}


@pytest.mark.parametrize(("merge", "engine", "shape"), SOAK)
def test_tables_with_a_key(framed: Any, merge: str, engine: str, shape: str) -> None:
    history = KeyHistory.begin(framed, merge, engine, CASES.index((merge, engine, shape)), **SHAPES[shape])
    history.run(6)
    table = history.table
    seen = test_key_outside.compare(table, table.location, range(table.version + 1))
    assert seen["all"] > 3
    test_key_outside.check_log(table)
