"""Rows of tasks that have few of them: they travel to the driver in the task's message, and become files there.

Tasks that each write their own leave a file per task and bucket, however few the rows are, and every reader opens them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from lakebed.core.errors import LakebedError
from lakebed.spark.job import is_final
from lakebed.spark.message import Message

if TYPE_CHECKING:
    from lakebed.spark.write_task import UpsertTask, WriteTask

_FIRST = 8
"""So many tasks share the limit evenly; how many there are in all, no task is told."""


def share(limit: int, task: int) -> int:
    """How many bytes of rows a task may send. Eight tasks send the limit at most, a thousand six times as much.

    >>> share(800, 0), share(800, 7), share(800, 99)
    (100, 100, 8)
    """
    return limit // max(_FIRST, task + 1)


def few(batches: Iterator[pa.RecordBatch], most: int) -> tuple[bytes | None, Iterator[pa.RecordBatch]]:
    """All rows as bytes if they are no more than ``most`` in memory, else None; and the rows, as before."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            size += batch.nbytes
        if size > most:
            return None, chain(held, batches)
    return _packed(held), iter(held)


def written_here(done: Sequence[Message], work: WriteTask | UpsertTask) -> list[Message]:
    """In the driver: write the rows that tasks have sent, those of neighbours together, so that files are still in
    the order of the rows. What is wrong with them is in the messages, as if their tasks had found it."""
    made: list[Message] = []
    for here, group in groupby(done, key=lambda message: not message.files):
        messages = list(group)
        if not here or not any(message.carried for message in messages):
            made += messages
            continue
        made += [message for message in messages if not message.carried]
        told: dict[str, object] = {"task": messages[0].task, "attempt": messages[0].attempt}
        try:
            work.run(chain.from_iterable(_unpacked(message.carried) for message in messages), told)
        except LakebedError as error:
            if not is_final(error):
                raise
            told["error"] = error
        build: Callable[..., Message] = Message
        made.append(build(**told))
    return made


def _packed(batches: Sequence[pa.RecordBatch]) -> bytes:
    if not batches:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return bytes(sink.getvalue())


def _unpacked(data: bytes) -> Iterator[pa.RecordBatch]:
    if data:
        with pa.ipc.open_stream(data) as stream:
            yield from stream
