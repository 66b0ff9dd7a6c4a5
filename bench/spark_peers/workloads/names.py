"""The workloads by number and name."""

from __future__ import annotations

from dataclasses import dataclass

ASKED = 5
"""So many answers to the same question count: the last ones."""


@dataclass(frozen=True)
class Workload:
    """One kind of work."""

    number: int
    name: str
    """Of the module, too."""
    title: str
    steps: tuple[tuple[str, str], ...]
    """The steps that are reported, with what each is called in a table."""
    counts: tuple[tuple[tuple[str, str], str], ...] = ()
    """Figures of steps that are no times: step, name of the figure, and what it is called in a table."""
    asked_again: tuple[str, ...] = ()
    """Steps whose rounds all ask the same of the same rows, or the like. Of these the median counts, so that those in
    which a JVM still compiles do not: some contenders have compiled their readers before, while they wrote."""
    firsts: tuple[tuple[str, str], ...] = ()
    """Steps of which the first round is reported too, with what it is called in a table; the figure is of the last."""
    warms_up: bool = True
    """Whether it does anything that the workloads before it have not done, if they were done by the same process."""


WORKLOADS = (
    Workload(
        1,
        "upserts",
        "load, large upserts of random keys, full read and aggregation",
        (("load", "load"), ("upsert", "upsert"), ("read", "full read"), ("aggregate", "aggregation")),
        asked_again=("read", "aggregate"),
        firsts=(("read", "first read"), ("aggregate", "first aggregation")),
    ),
    Workload(
        2,
        "trickle",
        "many small upserts with reads between them, then (9) a compaction",
        (("upsert", "upsert"), ("read", "full read"), ("compact", "compaction"), ("read compacted", "read after it")),
        ((("compact", "written"), "bytes written by compaction"),),
        warms_up=False,
    ),
    Workload(
        3,
        "tpch",
        "TPC-H: load, refreshes, and the 22 queries after them",
        (("load", "load of 8 tables"), ("refresh", "refresh"), ("query", "query (mean of 22)")),
        warms_up=False,
    ),
    Workload(
        4,
        "changes",
        "incremental read of 1 % of the rows",
        (("upsert", "upsert"), ("changes", "read of changes")),
        asked_again=("changes",),
        firsts=(("changes", "first read of changes"),),
        warms_up=False,
    ),
    Workload(
        5,
        "lookups",
        "look-ups by key",
        (("point", "one key"), ("range", "0.1 % of the keys")),
        asked_again=("point", "range"),
        warms_up=False,
    ),
    Workload(
        6,
        "edits",
        "delete 1 % of the rows, scattered, and update 10 %",
        (
            ("delete", "delete"),
            ("read after delete", "full read"),
            ("update", "update"),
            ("read after update", "full read after it"),
        ),
        ((("delete", "written"), "bytes written by delete"), (("update", "written"), "bytes written by update")),
        warms_up=False,
    ),
    Workload(
        7,
        "writers",
        "four writers at the same time on overlapping keys",
        (("writers", "all together"),),
        ((("writers", "per_second"), "upserts per second"), (("writers", "failed"), "failed upserts")),
        warms_up=False,
    ),
    Workload(
        8,
        "partitions",
        "many small partitions",
        (
            ("load", "load"),
            ("append", "append to each"),
            ("plan", "plan"),
            ("plan one", "plan of one"),
            ("count", "count"),
        ),
        asked_again=("plan", "plan one", "count"),
    ),
)


def named(word: str) -> Workload:
    """The workload of a number or a name.

    Raises ValueError if there is none.

    >>> named("1").name
    'upserts'
    >>> named("9").name
    'trickle'
    """
    for one in WORKLOADS:
        if word.strip() in (str(one.number), one.name) or (word.strip(), one.number) == ("9", 2):
            return one
    raise ValueError(f"no workload {word!r}; there are {', '.join(f'{one.number} ({one.name})' for one in WORKLOADS)}")
