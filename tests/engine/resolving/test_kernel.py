"""The kernels against plain Python, with every way of matching forced on small frames."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.engine.resolving import kernel
from lakebed.engine.resolving.kernel import INDEX, at_least, pairs, winners

KEYS = {
    "number": st.tuples(st.integers(-3, 3)),
    "text": st.tuples(st.text("ab", max_size=2)),
    "several": st.tuples(st.text("ab", max_size=1), st.integers(0, 3)),
    "numbers": st.tuples(st.integers(-2, 2), st.integers(0, 3), st.integers(7, 8)),
    "large numbers": st.tuples(st.integers(-1, 1), st.sampled_from([-(2**63), -1, 2**63 - 1])),
}
TYPES = {
    "number": [pl.Int64],
    "text": [pl.String],
    "several": [pl.String, pl.Int64],
    "numbers": [pl.Int64] * 3,
    "large numbers": [pl.Int64] * 2,
}
SEQUENCES = st.tuples(st.none() | st.integers(0, 2), st.none() | st.floats(0, 2))
WITH_PATCHES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def frame(kind: str, keys: list[Any], **more: list[Any]) -> pl.DataFrame:
    columns = [pl.Series(f"k{i}", [key[i] for key in keys], of) for i, of in enumerate(TYPES[kind])]
    return pl.DataFrame([*columns, *(pl.Series(name, values) for name, values in more.items())])


def names(kind: str) -> list[str]:
    return [f"k{i}" for i in range(len(TYPES[kind]))]


@pytest.mark.parametrize("kind", sorted(KEYS))
@pytest.mark.parametrize("few", [0, 64])
@pytest.mark.parametrize("is_sorted", [True, False])
@WITH_PATCHES
@given(data=st.data())
def test_pairs_are_all_rows_with_one_of_the_keys(
    data: Any, kind: str, few: int, is_sorted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "_FEW", few)
    monkeypatch.setattr(kernel, "_WINDOW", 3)  # so that most frames are larger
    rows = data.draw(st.lists(KEYS[kind], max_size=9))
    rows = sorted(rows) if is_sorted else rows
    keys = sorted(data.draw(st.lists(KEYS[kind], max_size=5)))
    found = pairs(
        frame(kind, rows, position=list(range(len(rows)))),
        frame(kind, keys, **{INDEX: list(range(len(keys)))}),
        names(kind),
    )
    assert found.columns == ["position", INDEX]
    assert sorted(found.rows()) == [(p, i) for p, row in enumerate(rows) for i, key in enumerate(keys) if key == row]


@pytest.mark.parametrize("kind", sorted(KEYS))
@pytest.mark.parametrize("first", [True, False])
@given(data=st.data())
def test_each_key_has_one_winner(data: Any, kind: str, first: bool) -> None:
    rows = data.draw(st.lists(KEYS[kind], max_size=9))
    found = winners(frame(kind, rows), names(kind), (), first=first)
    expected: dict[Any, int] = {}
    for number, key in enumerate(rows):
        if not first or key not in expected:
            expected[key] = number
    assert found.rows() == [(*key, number) for key, number in sorted(expected.items())]


@pytest.mark.parametrize("kind", sorted(KEYS))
@given(data=st.data())
def test_the_winner_has_the_highest_sequence(data: Any, kind: str) -> None:
    rows = data.draw(st.lists(st.tuples(KEYS[kind], SEQUENCES), max_size=9))
    columns = {f"s{i}": [sequence[i] for _, sequence in rows] for i in range(2)}
    table = frame(kind, [key for key, _ in rows], **columns).with_columns(pl.col("s0", "s1").cast(pl.Float64))
    expected: dict[Any, int] = {}
    for number, (key, sequence) in enumerate(rows):
        if key not in expected or rank(sequence) >= rank(rows[expected[key]][1]):
            expected[key] = number
    found = winners(table, names(kind), ("s0", "s1"))
    assert found.rows() == [(*key, number) for key, number in sorted(expected.items())]


@given(mine=SEQUENCES, theirs=SEQUENCES)
def test_sequences_are_compared_from_left_to_right_with_nulls_lowest(mine: Any, theirs: Any) -> None:
    values = {"a": mine[0], "b": mine[1], "c": theirs[0], "d": theirs[1]}
    row = pl.DataFrame({name: pl.Series([value], dtype=pl.Float64) for name, value in values.items()})
    assert row.select(at_least(["a", "b"], ["c", "d"])).item() == (rank(mine) >= rank(theirs))


def rank(sequence: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((value is not None, value if value is not None else 0) for value in sequence)
