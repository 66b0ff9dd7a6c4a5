"""Processes that look after a warehouse, or write to it, or are killed meanwhile. Run by test_maintaining_crowd.py."""

from __future__ import annotations

import os
import random
import signal
import traceback
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import lakebed
from lakebed.core.steps import Step, observe

AT_ONCE = timedelta(0)
KEYED = {"dedup": "deduplicate", "sums": "aggregation"}
TABLES = (*KEYED, "plain")
KEYS = 40
CLEANED = "vacuum has deleted"


@dataclass(frozen=True)
class Order:
    """What to do in which warehouse."""

    role: str
    warehouse: str
    metastore: str | None
    retain: timedelta = AT_ONCE
    rounds: int = 0
    table: str = ""
    dies_at: int = 0
    """At which of the steps that maintenance passes, counted from 1."""


@dataclass
class Answer:
    """What became of an order."""

    passes: int = 0
    changed: int = 0
    """How many buckets they have settled or compacted."""
    errors: list[str] = field(default_factory=list)
    """What maintenance has told of tables that it left to the next pass."""
    written: list[tuple[str, list[dict[str, Any]], bool]] = field(default_factory=list)
    """What has landed, by table, in order: rows, and whether they are deletes."""
    failure: str = ""


def serve(pipe: Connection) -> None:
    """Follow one order after the other, until the pipe is closed."""
    while True:
        try:
            order: Order = pipe.recv()
        except EOFError:
            return
        with lakebed.connect(order.warehouse, order.metastore) as lake:
            pipe.send("ready")
            pipe.recv()
            if order.role == "write":
                pipe.send(write(lake, order))
            else:
                answer = maintain(lake, order, pipe.poll)
                pipe.recv()
                pipe.send(answer)


def maintain(lake: lakebed.Warehouse, order: Order, is_over: Any) -> Answer:
    """Pass after pass until told to stop, and one more."""
    answer, ends = Answer(), False
    try:
        while not ends:
            ends = is_over()
            done = lake.maintain(retain=order.retain)
            assert {one.table for one in done} == {f"default.{name}" for name in TABLES}
            answer.passes += 1
            answer.changed += sum(work.buckets for one in done for work in (one.settled, one.compacted) if work)
            answer.errors += [f"{one.table}: {one.error}" for one in done if one.error is not None]
    except Exception:
        answer.failure = traceback.format_exc()
    return answer


def write(lake: lakebed.Warehouse, order: Order) -> Answer:
    """Some rounds of small writes into every table; what vacuum took before it could land is written again."""
    answer, chance = Answer(), random.Random(order.rounds)
    try:
        for turn in range(order.rounds):
            for name in TABLES:
                rows = [{"id": chance.randrange(KEYS), "v": 1000 * turn + n} for n in range(chance.randrange(1, 9))]
                deletes = name == "dedup" and turn % 4 == 3
                _landed(lake.table(name), rows, deletes)
                answer.written.append((name, rows, deletes))
    except Exception:
        answer.failure = traceback.format_exc()
    return answer


def _landed(table: lakebed.Table, rows: list[dict[str, Any]], deletes: bool) -> None:
    while True:
        try:
            if deletes:
                table.delete([{"id": row["id"]} for row in rows])
            else:
                table.append(rows)
            return
        except lakebed.ConflictError as error:
            if CLEANED not in str(error):
                raise


def dying(pipe: Connection) -> None:
    """Maintain one table, and be killed at a step."""
    try:
        order: Order = pipe.recv()
    except EOFError:
        return
    lake = lakebed.connect(order.warehouse, order.metastore)
    passed = 0

    def die(_: Step) -> None:
        nonlocal passed
        passed += 1
        if passed == order.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    observe(die)
    lake.maintain([order.table], retain=order.retain)
