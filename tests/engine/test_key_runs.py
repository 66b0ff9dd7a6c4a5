"""Runs are merged by key: nothing is lost, no key is cut in two, equal keys stay in the order of the runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.engine import key_runs
from lakebed.engine.key_runs import Run, UnsortedError, merge, narrowed, spilled

KEY = ("a", "b")
Rows = list[tuple[int, str]]


def table(rows: Rows, run: int, first: int) -> pa.Table:
    """Rows that say where they come from."""
    return pa.table(
        {
            "a": pa.array([a for a, _ in rows], pa.int64()),
            "b": pa.array([b for _, b in rows], pa.string()),
            "run": pa.array([run] * len(rows), pa.int64()),
            "at": pa.array(range(first, first + len(rows)), pa.int64()),
        }
    )


def tables(rows: Rows, run: int, cuts: list[int]) -> Iterator[pa.Table]:
    edges = sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})
    for start, stop in pairwise(edges):
        yield table(rows[start:stop], run, start)


keys = st.tuples(st.integers(0, 3), st.sampled_from("xy"))
some_runs = st.lists(st.tuples(st.lists(keys, max_size=12).map(sorted), st.lists(st.integers(0, 12))), max_size=9)


def in_order(parts: Sequence[pa.Table]) -> pa.Table:
    return key_runs.in_order(parts, KEY)


@given(some_runs, st.sampled_from([1, 100, 10_000]), st.booleans())
def test_any_runs(made: list[tuple[Rows, list[int]]], share: int, narrow: bool) -> None:
    runs = [Run(str(n), tables(rows, n, cuts), KEY, share) for n, (rows, cuts) in enumerate(made)]
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(key_runs, "FAN_IN", 3)
        patch.setattr(key_runs, "_SPILL_ROWS", 2)
        if narrow:
            runs = narrowed(runs, in_order, folder, KEY, share)
            assert len(runs) <= 3
        found = [part.to_pylist() for part in merge(runs, in_order)]
        assert not list(Path(folder).iterdir())
    rows = [row for part in found for row in part]
    expected = sorted((a, b, n, at) for n, (rows, _) in enumerate(made) for at, (a, b) in enumerate(rows))
    assert [(row["a"], row["b"], row["run"], row["at"]) for row in rows] == expected
    for before, after in pairwise(found):
        assert (before[-1]["a"], before[-1]["b"]) < (after[0]["a"], after[0]["b"])


def test_rows_of_one_key_that_are_more_than_the_share_come_together() -> None:
    many: Rows = [(1, "x")] * 1000
    runs = [Run("long", tables(many, 0, list(range(1000))), KEY, 64), Run("short", tables([(1, "x")], 1, []), KEY, 64)]
    (only,) = merge(runs, in_order)
    assert only["run"].to_pylist() == [0] * 1000 + [1]


def test_a_run_that_is_not_sorted_is_told_wherever_its_tables_end() -> None:
    rows: Rows = [(1, "x"), (3, "x"), (2, "x"), (4, "x")]
    for cut in range(4):
        runs = [Run("wrong", tables(rows, 0, [cut]), KEY, 1), Run("right", tables([(9, "x")], 1, []), KEY, 1)]
        with pytest.raises(UnsortedError, match="wrong"):
            list(merge(runs, in_order))


def test_rows_that_waited_in_a_file_come_back_in_small_tables(tmp_path: Path) -> None:
    wide = pa.table({"a": range(1000), "b": ["x" * 1000] * 1000})
    back = list(spilled([wide], str(tmp_path), 10_000))
    assert pa.concat_tables(back).equals(wide)
    assert max(part.nbytes for part in back) <= 10_000
    assert not list(tmp_path.iterdir())
