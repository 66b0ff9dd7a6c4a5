"""Micro-batches into a table, each once: what ``foreachBatch`` is given."""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lakebed.core.errors import InputError, LakebedError
from lakebed.core.options import Options
from lakebed.engine.stream_query import query_id
from lakebed.records import Commit, check_whole
from lakebed.writing import RowWriting

STREAM_MODES = ("append", "upsert", "complete")
_log = logging.getLogger(__name__)


class Upkeep:
    """Looks after a table after every so many commits, in a thread of its own: the writer never waits for it."""

    def __init__(self, work: Callable[[], object], every: int) -> None:
        self._work = work
        self._every = every
        self._commits = 0
        self._running: threading.Thread | None = None

    def committed(self) -> None:
        """Another commit has landed. What is under way is not begun again."""
        self._commits += 1
        if self._commits % self._every == 0 and (self._running is None or not self._running.is_alive()):
            # No daemon: a process that ends lets it finish. One that is killed leaves nothing half done.
            self._running = threading.Thread(target=self._run, name="lakebed-upkeep")
            self._running.start()

    def wait(self) -> None:
        """Until nothing is under way."""
        if self._running is not None:
            self._running.join()

    def _run(self) -> None:
        try:
            self._work()
        except LakebedError as error:
            _log.warning("maintenance beside a stream is left to the next time: %s", error)


@dataclass(frozen=True)
class StreamBatches:
    """Writes the batches of one query, each as one commit; get it from ``table.stream_writer(…)``."""

    write: Callable[[Any, tuple[str, int]], Commit] = field(repr=False)
    options: Options = field(repr=False)
    query: str | None
    checkpoint: str | None
    upkeep: Upkeep | None = field(default=None, repr=False)

    def __call__(self, batch: Any, batch_id: int) -> Commit:
        """Write a batch, unless it has been written before. Returns its commit."""
        commit = self.write(batch, (self.application, int(batch_id)))
        if self.upkeep is not None and not commit.repeated:
            self.upkeep.committed()
        return commit

    def __reduce__(self) -> Any:
        """Spark Connect would send it to the server, where there is no connection to the warehouse."""
        raise InputError(
            "a stream writer belongs to the process that has made it",
            fix="on Spark Connect use writeStream.format('lakebed'), or let the function of foreachBatch connect by "
            "itself: lakebed.connect(…, spark=batch.sparkSession)",
        )

    @cached_property
    def application(self) -> str:
        """What the query is called in the table's transactions."""
        return self.query if self.query is not None else query_id(str(self.checkpoint), self.options)


class StreamWritable(RowWriting[Commit]):
    """A table that takes the batches of a stream."""

    def stream_writer(
        self,
        mode: str = "append",
        *,
        checkpoint: str | None = None,
        query: str | None = None,
        row_kind: str | None = None,
        merge_schema: bool = False,
        explicit_cast: bool = False,
        maintain_every: int | None = None,
    ) -> StreamBatches:
        """A function for ``foreachBatch`` that writes every batch once, though it may be sent again after a crash.

        ``mode`` is ``"append"``, ``"upsert"`` or ``"complete"``, which replaces all rows by those of the batch. A
        batch is known by its query and its number: ``checkpoint`` is the query's ``checkpointLocation``, where its id
        is; or ``query`` names it, and a query with a new checkpoint, which counts its batches from 0, must have a new
        name. After every ``maintain_every`` commits the table is settled and compacted where that pays, in a thread of
        its own, for which no batch waits. The rest is as for ``append`` and ``upsert``.

        >>> import lakebed, tempfile
        >>> t = lakebed.connect(tempfile.mkdtemp()).create_table("n", "n BIGINT")
        >>> write = t.stream_writer(query="loader")
        >>> write([{"n": 1}], 0).version, write([{"n": 2}], 1).version, write([{"n": 2}], 1).repeated
        (1, 2, True)
        >>> t.count()
        2
        """
        if mode not in STREAM_MODES:
            raise InputError(
                f"table {self.name}: a stream is not written so",
                expected=f"one of {', '.join(STREAM_MODES)}",
                found=repr(mode),
            )
        if (checkpoint is None) == (query is None):
            raise InputError(
                f"table {self.name}: a stream is written once only if it is known which one it is",
                expected="checkpoint= or query=",
                found="neither" if query is None else "both",
            )
        if row_kind is not None and mode != "upsert":
            raise InputError(f"table {self.name}: row_kind= is for mode 'upsert'", found=repr(mode))
        if maintain_every is not None and check_whole(maintain_every, "maintain_every=") < 1:
            raise InputError(
                "maintain_every= counts commits", expected="a whole number from 1", found=repr(maintain_every)
            )
        how: dict[str, Any] = {"merge_schema": merge_schema, "explicit_cast": explicit_cast}

        def write(batch: Any, txn: tuple[str, int]) -> Commit:
            if mode == "upsert":
                return self.upsert(batch, row_kind=row_kind, txn=txn, **how)
            if mode == "complete":
                return self.overwrite(batch, txn=txn, **how)
            return self.append(batch, txn=txn, **how)

        upkeep = None if maintain_every is None else Upkeep(self._keep_up, maintain_every)
        return StreamBatches(write, self._options, query, checkpoint, upkeep)

    @abstractmethod
    def _keep_up(self) -> None:
        """Settle and compact where it pays."""
