"""What Lakebed wants to reach against each peer, and whether it did."""

from __future__ import annotations

from collections.abc import Iterator

from bench.report import Line
from bench.spark_peers.contenders import BY_NAME, CONTENDERS, Contender, yardstick
from bench.spark_peers.found import Found

OURS = "lakebed on-write"
"""The default of Lakebed is what is judged."""
DELTA_UPSERT, PEER_UPSERT, READ = 10.0, 3.0, 1.0
READS = {
    "upserts": ("read", "aggregate"),
    "tpch": ("query",),
    "changes": ("changes",),
    "lookups": ("point", "range"),
}
"""Where Lakebed wants to be the fastest."""


def lines(found: Found) -> list[Line]:
    """Peers' times as multiples of Lakebed's, with the goals."""
    made: list[Line] = []
    for peer in (one for one in CONTENDERS if not one.plain and not one.ours):
        goal = DELTA_UPSERT if peer.name == "delta" else PEER_UPSERT
        made += _times(found, peer, "upserts", "upsert", goal)
        for workload, steps in READS.items():
            for step in steps:
                made += _times(found, peer, workload, step, READ)
    return made + list(_failed(found))


def _times(found: Found, peer: Contender, workload: str, step: str, goal: float) -> Iterator[Line]:
    theirs, ours = found.figure(workload, peer.name, step), found.figure(workload, OURS, step)
    if theirs is None or ours is None:
        return
    plain = found.figure(workload, yardstick(peer).name, step)
    own = found.figure(workload, yardstick(BY_NAME[OURS]).name, step)
    note = f"{theirs:.3g} s against {ours:.3g} s"
    if plain and own:
        note += f"; each beside plain Parquet on its Spark: {theirs / plain:.2f} against {ours / own:.2f}"
    yield Line(f"{workload}, {step}: {peer.name} / {OURS}", theirs / ours, "x", goal, at_least=True, note=note)


def _failed(found: Found) -> Iterator[Line]:
    failed = found.figure("writers", OURS, "writers", "failed")
    if failed is not None:
        yield Line(f"writers: failed upserts of {OURS}", failed, "upserts", 0.0)
