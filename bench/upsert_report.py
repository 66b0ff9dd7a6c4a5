"""What the benchmark of upserts found, as figures with goals and as a table of times and memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.peers.contenders import (
    DELTALAKE,
    DELTALAKE_QUERY,
    EVERY_ROW,
    FRAMES,
    ON_READ,
    ON_WRITE,
    POLARS,
    POLARS_BUCKETS,
    POLARS_FLUSHED,
    POLARS_LZ4,
    PYARROW,
    PYICEBERG,
    PYPAIMON,
    PYPAIMON_RUST,
    Contender,
)
from bench.peers.process import Taken
from bench.report import Line, number

ON_READ_GOAL, ON_WRITE_GOAL = 1.3, 2.5
UNSETTLED_GOAL, SETTLED_GOAL, SETTLE_GOAL = 2.5, 1.5, 0.5
PEER_UPSERT_GOAL, PEER_READ_GOAL = 5.0, 2.0
PEER_GOALS = {DELTALAKE: True, DELTALAKE_QUERY: False, PYPAIMON: True, PYPAIMON_RUST: False, PYICEBERG: True}
"""The others, and whether the goals are for them: they are for the ways that the packages offer first."""


@dataclass
class Found:
    """All that was measured."""

    rows: int
    sizes: list[int]
    upserts: int
    input_bytes: dict[str, int] = field(default_factory=dict)
    live_rows: dict[tuple[int, int], int] = field(default_factory=dict)
    """By size of upsert and number of upserts."""
    phases: dict[tuple[int, str, str], Taken] = field(default_factory=dict)
    """By size of upsert, phase and contender."""

    def taken(self, size: int, phase: str, contender: Contender) -> Taken:
        """The place for a contender's figures of a phase."""
        return self.phases.setdefault((size, phase, contender.name), Taken())

    def better(self, size: int, phase: str, contender: Contender, taken: Taken) -> None:
        """Count in what a contender took when it did all the same again: of each request its fastest time."""
        before = self.taken(size, phase, contender)
        totals = [*before.totals, taken.total]
        best = min(before, taken, key=lambda one: (-len(one.seconds), one.total))
        if len(before.seconds) == len(taken.seconds):
            best.seconds = [min(pair) for pair in zip(before.seconds, taken.seconds, strict=True)]
        best.totals = totals
        self.phases[size, phase, contender.name] = best

    def get(self, size: int, phase: str, contender: Contender) -> Taken | None:
        """The figures, if the contender took part."""
        taken = self.phases.get((size, phase, contender.name))
        return taken if taken is not None and taken.seconds else None

    def done(self, size: int, contender: Contender) -> int:
        """How many upserts the table that a contender reads has had."""
        return len(self.taken(size, "upsert", contender.home).seconds)

    def to_json(self) -> dict[str, Any]:
        """All of it for the results file."""
        return {
            "rows": self.rows,
            "sizes": self.sizes,
            "upserts": self.upserts,
            "input_bytes": self.input_bytes,
            "live_rows": [[*key, rows] for key, rows in self.live_rows.items()],
            "phases": [
                {"size": size, "phase": phase, "contender": name, **asdict(taken)}
                for (size, phase, name), taken in self.phases.items()
            ],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Found:
        """The opposite of ``to_json``."""
        found = cls(value["rows"], value["sizes"], value["upserts"], value["input_bytes"])
        found.live_rows = {(size, upserts): rows for size, upserts, rows in value["live_rows"]}
        for one in value["phases"]:
            taken = Taken(one["seconds"], one["cpu"], one["peak"], one.get("totals", []))
            found.phases[one["size"], one["phase"], one["contender"]] = taken
        return found


def lines(found: Found) -> list[Line]:
    """The ratios, with the goals of the design."""
    made: list[Line] = []
    for size in found.sizes:
        made += _upserts(found, size)
        made += _reads(found, size)
        made += _peers(found, size)
    return made


def _upserts(found: Found, size: int) -> Iterator[Line]:
    for contender, goal in ((ON_READ, ON_READ_GOAL), (ON_WRITE, ON_WRITE_GOAL)):
        for plain in (POLARS, POLARS_LZ4, POLARS_FLUSHED, POLARS_BUCKETS):
            ours, theirs = found.get(size, "upsert", contender), found.get(size, "upsert", plain)
            if ours is None or theirs is None:
                continue
            note = (
                f"{len(ours.seconds)} upserts in {ours.total:.2f} s against {theirs.total:.2f} s, each the best of "
                f"{max(1, len(ours.totals))}; medians {median(ours.seconds):.3f} and {median(theirs.seconds):.3f} s; "
                f"{_memory(ours, theirs)}"
            )
            what = f"upsert of {size:,}: {contender.name} / {plain.name} sorted write"
            yield Line(what, ours.total / theirs.total, "x", goal if plain is POLARS else None, note=note)
    least, plain_write = found.get(size, "upsert", POLARS_BUCKETS), found.get(size, "upsert", POLARS)
    if least is not None and plain_write is not None:
        note = f"{least.total:.2f} s against {plain_write.total:.2f} s; {_memory(least, plain_write)}"
        what = f"upsert of {size:,}: {POLARS_BUCKETS.name} / {POLARS.name} sorted write"
        yield Line(what, least.total / plain_write.total, "x", None, note=note)


def _reads(found: Found, size: int) -> Iterator[Line]:
    after = f"after upserts of {size:,}"
    phases = (
        (f"read {after}, unsettled", "read", ON_READ, UNSETTLED_GOAL),
        (f"read {after}, settled by on-write", "read", ON_WRITE, SETTLED_GOAL),
        (f"read {after}, settled by settle()", "read settled", ON_READ, SETTLED_GOAL),
        (f"read {after}, unsettled, second in the process", "read again", ON_READ, None),
        (f"read {after}, compacted", "read compacted", ON_READ, None),
    )
    for what, phase, contender, goal in phases:
        for reader, verb, plain in ((FRAMES[contender], "to_polars", POLARS), (contender, "to_arrow", PYARROW)):
            ours, theirs = found.get(size, phase, reader), found.get(size, phase, plain)
            if ours is not None and theirs is not None:
                yield _best(f"{what}: {verb} / {plain.name}", ours, theirs, goal)
    every, plain_read = found.get(size, "read settled", EVERY_ROW), found.get(size, "read", POLARS)
    own = found.get(size, "read settled", FRAMES[ON_READ])
    if every is not None and own is not None and plain_read is not None:
        yield _best(f"read {after}, settled: to_polars / {EVERY_ROW.name} (dead rows too)", own, every, None)
        yield _best(f"read {after}, settled: {EVERY_ROW.name} (dead rows too) / polars", every, plain_read, None)
    lz4 = found.get(size, "read", POLARS_LZ4)
    if lz4 is not None and plain_read is not None:
        yield _best(f"read {after}: {POLARS_LZ4.name} / polars", lz4, plain_read, None)
    for verb, goal in (("settle", SETTLE_GOAL), ("compact", None)):
        taken = found.get(size, verb, ON_READ)
        if taken is not None and plain_read is not None:
            yield _best(f"{verb} {after} / full read with polars", taken, plain_read, goal)


def _best(what: str, ours: Taken, theirs: Taken, goal: float | None) -> Line:
    note = f"{ours.best:.3f} s against {theirs.best:.3f} s, best of {len(ours.seconds)}; {_memory(ours, theirs)}"
    return Line(what, ours.best / theirs.best, "x", goal, note=note)


def _peers(found: Found, size: int) -> Iterator[Line]:
    for peer, judged in PEER_GOALS.items():
        theirs = found.get(size, "upsert", peer)
        for contender in (ON_READ, ON_WRITE):
            ours = found.get(size, "upsert", contender)
            if ours is None or theirs is None:
                continue
            turns = len(theirs.seconds)
            mine = sum(ours.seconds[:turns]) / turns
            note = (
                f"{mine:.2f} s against {theirs.total / turns:.2f} s each, {_times(turns, found.upserts)}; "
                f"{_memory(ours, theirs)}"
            )
            goal = PEER_UPSERT_GOAL if judged else None
            what = f"upsert of {size:,}: {peer.name} / {contender.name}"
            yield Line(what, theirs.total / turns / mine, "x", goal, at_least=True, note=note)
        read = found.get(size, "read", peer)
        yield from _beside_plain(found, size, peer)
        ways = (("unsettled", "read", ON_READ), ("on-write", "read", ON_WRITE), ("settled", "read settled", ON_READ))
        for way, phase, contender in ways:
            own = found.get(size, phase, contender)
            if own is None or read is None:
                continue
            note = (
                f"{own.best:.3f} s against {read.best:.3f} s; the table of {peer.name} had "
                f"{_times(found.done(size, peer), found.upserts)}; {_memory(own, read)}"
            )
            goal = PEER_READ_GOAL if judged else None
            what = f"read after upserts of {size:,}: {peer.name} / lakebed {way}"
            yield Line(what, read.best / own.best, "x", goal, at_least=True, note=note)


def _beside_plain(found: Found, size: int, peer: Contender) -> Iterator[Line]:
    """What a peer's read takes of a plain one: none can be faster than the peer by more than that and what it lacks."""
    read = found.get(size, "read", peer)
    for plain in (POLARS, PYARROW):
        theirs = found.get(size, "read", plain)
        if read is not None and theirs is not None:
            had = _times(found.done(size, peer), found.upserts)
            what = f"read after upserts of {size:,}: {peer.name} ({had}) / {plain.name} on the live rows"
            yield _best(what, read, theirs, None)


def _times(turns: int, of: int) -> str:
    return f"all {of} upserts" if turns == of else f"only the first {turns} of {of} upserts"


def _memory(ours: Taken, theirs: Taken) -> str:
    return f"peak {ours.peak:.2f} against {theirs.peak:.2f} GiB"


COLUMNS = ("phase", "contender", "upserts", "seconds", "peak memory")


def times(found: Found) -> Iterator[tuple[str, str, str, str, str]]:
    """The absolute figures, a row per phase and contender: seconds per upsert (mean), of a read (best), of a settle."""
    for (size, phase, name), taken in found.phases.items():
        if not taken.seconds or phase.endswith("again"):
            continue
        what = f"load of {found.rows:,}" if phase == "load" else f"{phase}, {size:,}"
        mean = phase == "upsert"
        seconds = taken.total / len(taken.seconds) if mean else taken.best
        count = f"{len(taken.seconds)}" if mean else ""
        yield what, name, count, f"{number(seconds)} s", f"{taken.peak:.2f} GiB"


def render_times(console: Console, found: Found) -> None:
    """Print the absolute figures."""
    table = Table(title="Seconds per upsert (mean), per read, settle or compaction (best); peak memory of the process")
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in COLUMNS[:2] else "right")
    for row in times(found):
        table.add_row(*row)
    console.print(table)
