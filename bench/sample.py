"""Rows like those of a real table: numbers, few and many different texts, times, truth values, some nulls."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SEED = 7
_START = np.datetime64("2026-11-15T00:00:00", "us")


def rows(count: int, *, seed: int = SEED, ids: npt.NDArray[np.int64] | None = None) -> pa.Table:
    """Always the same ``count`` rows of ten columns for a seed; ``ids`` are 0, 1, 2, … unless given."""
    random = np.random.default_rng(seed)
    cities = np.array([f"city-{number:03}" for number in range(200)])
    times = _START + np.sort(random.integers(0, 86_400_000_000, count)).astype("timedelta64[us]")
    return pa.table(
        {
            "id": pa.array(np.arange(count, dtype=np.int64) if ids is None else ids),
            "customer": pa.array(random.integers(0, 1_000_000, count)),
            "quantity": pa.array(random.integers(1, 100, count, dtype=np.int32)),
            "price": pa.array(np.round(random.lognormal(3, 1, count), 2)),
            "discount": pa.array(random.random(count), mask=random.random(count) < 0.1),
            "city": pa.array(cities[random.integers(0, len(cities), count)]),
            "channel": pa.array(np.array(["web", "shop", "phone"])[random.integers(0, 3, count)]),
            "reference": pa.array([f"{number:016x}" for number in random.integers(0, 2**62, count).tolist()]),
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "paid": pa.array(random.random(count) < 0.9),
        }
    )
