"""A process that upserts, or tidies, or reads, beside many others. Run by test_key_many_writers.py."""

from __future__ import annotations

import logging
import random
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import lakebed
from lakebed.engine import land


@dataclass(frozen=True)
class Order:
    """What the process is to do with the table ``default.t``."""

    role: str
    warehouse: str
    metastore: str | None
    number: int = 0
    rounds: int = 0
    keys: int = 0
    kinds: tuple[str, ...] = ()
    nulls: bool = False
    """Whether every second row has no ``n``, and the others a value of their own."""
    races: int | None = None
    """How many races an upsert may lose before it lands unsettled; None: as many as usual."""
    retain: str = ""
    expires: bool = False


@dataclass
class Answer:
    """What became of an order."""

    result: Any = None
    error: str = ""
    complaints: list[str] = field(default_factory=list)
    """Warnings, and what was logged as one."""
    races_lost: int = 0


def serve(pipe: Connection) -> None:
    """Follow one order after the other, until the pipe is closed."""
    while True:
        try:
            order = pipe.recv()
        except EOFError:
            return
        # A process that failed has not waited for the word that it may stop.
        if isinstance(order, Order):
            pipe.send(follow(order, pipe))


def follow(order: Order, pipe: Connection) -> Answer:
    answer = Answer()
    with listening(answer), counting(order, answer):
        try:
            with lakebed.connect(order.warehouse, order.metastore) as lake:
                table = lake.table("t")
                pipe.send("ready")
                pipe.recv()
                answer.result = ROLES[order.role](table, order, pipe)
        except Exception:
            answer.error = traceback.format_exc()
    return answer


@contextmanager
def listening(answer: Answer) -> Iterator[None]:
    """Every warning of Lakebed is kept."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            answer.complaints.append(record.getMessage())

    handler = Handler(logging.WARNING)
    logging.getLogger("lakebed").addHandler(handler)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        yield
    answer.complaints += [str(warning.message) for warning in caught]
    logging.getLogger("lakebed").removeHandler(handler)


@contextmanager
def counting(order: Order, answer: Answer) -> Iterator[None]:
    """Every race that an upsert loses is counted; perhaps it may lose fewer than usual."""
    catch_up, races = land._catch_up, land._RACES

    def counted(*arguments: Any) -> None:
        answer.races_lost += 1
        catch_up(*arguments)

    land._catch_up = counted
    land._RACES = races if order.races is None else order.races
    try:
        yield
    finally:
        land._catch_up, land._RACES = catch_up, races


def write(table: lakebed.Table, order: Order, pipe: Connection) -> list[Any]:
    """Upsert some batches; what was written, with the version that it got."""
    chance = random.Random(order.number)
    done = []
    for turn in range(order.rounds):
        rows = [
            {
                "id": chance.randrange(order.keys),
                "n": chance.choice([None, order.number * 1000 + turn * 10 + at]) if order.nulls else 1,
                "seq": chance.choice([None, *range(9)]),
                "who": f"{order.number}.{turn}.{at}",
            }
            for at in range(chance.randrange(1, 9))
        ]
        kinds = [chance.choice(order.kinds) for _ in rows]
        commit = table.upsert([{**r, "op": kind} for r, kind in zip(rows, kinds, strict=True)], row_kind="op")
        done.append([commit.version, rows, kinds])
    return done


def tidy(table: lakebed.Table, order: Order, pipe: Connection) -> int:
    """Settle and compact until told to stop; how often."""
    turns = 0
    while not pipe.poll() or turns == 0:
        table.settle()
        table.compact(full=turns % 3 == 0)
        turns += 1
    pipe.recv()
    return turns


def clean(table: lakebed.Table, order: Order, pipe: Connection) -> int:
    """Vacuum until told to stop, and perhaps forget all versions but the newest; how often."""
    turns = 0
    while not pipe.poll() or turns == 0:
        if order.expires:
            table.expire("0 seconds")
        table.vacuum(order.retain)
        turns += 1
    pipe.recv()
    return turns


def read(table: lakebed.Table, order: Order, pipe: Connection) -> list[Any]:
    """Read until told to stop; each version that was read, with its rows."""
    seen: dict[int, list[Any]] = {}
    while not pipe.poll() or not seen:
        assert table.count("id < 0") == 0
        try:
            view = table.at(version=table.version)
            rows = view.to_arrow().to_pylist()
            few = view.to_arrow(where="id % 3 = 0 and who is not null").to_pylist()
            number = view.count()
        except lakebed.NotFoundError:
            if not order.expires:
                raise
            continue
        assert number == len(rows)
        assert ordered(few) == ordered(row for row in rows if row["id"] % 3 == 0)
        seen[view.version] = [tuple(row.values()) for row in rows]
    pipe.recv()
    return list(seen.items())


def ordered(rows: Any) -> list[str]:
    return sorted(map(str, rows))


ROLES = {"write": write, "tidy": tidy, "clean": clean, "read": read}
