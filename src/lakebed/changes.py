"""The changes of a table between two versions, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakebed.core.actions import Metadata, now_ms
from lakebed.core.change_rows import CHANGE_FIELDS, MODES, ON_EXPIRED
from lakebed.core.errors import InputError, LakebedError
from lakebed.core.instant import to_duration_ms
from lakebed.core.predicate import parse
from lakebed.core.schema import Struct
from lakebed.engine.changes.plan import needed_versions, or_snapshot, plan_changes, seen_by
from lakebed.engine.changes.span import Bound, Span, find_span
from lakebed.engine.changes.step import ChangeOrder, RawStep, Step
from lakebed.engine.distribution import not_distributed
from lakebed.engine.draft import Handle
from lakebed.engine.lease import held, promise_all, stream, take_all
from lakebed.engine.prefetch import prefetch
from lakebed.engine.scan import READ_THREADS, ScanOrder
from lakebed.metastore import VersionRecord
from lakebed.records import Consumer, check_whole, moment
from lakebed.view import Readable

if TYPE_CHECKING:
    import pandas
    import polars
    import pyspark.sql


class Changes:
    """What became of the rows of a table after version ``start`` and up to version ``end``; get it from
    ``table.changes(…)``.

    Each row has the table's columns as they are at ``end`` (wider, if one was in the range and ``restore`` made it
    narrow again), and ``_change_type``, ``_commit_version`` and ``_commit_timestamp``. Rows that have changed several
    times come in the order of their changes.
    """

    def __init__(self, handle: Handle, span: Span, order: ChangeOrder) -> None:
        self._handle = handle
        self._span = span
        self._order = order

    def __repr__(self) -> str:
        return f"<changes of lakebed table {self._handle.name} {self._span}, {self._order.mode}>"

    @property
    def start(self) -> int | None:
        """The version whose rows are the ones before; None if the changes begin with a whole snapshot."""
        return self._span.start

    @property
    def end(self) -> int:
        """The last version whose changes are told."""
        return self._span.end

    @property
    def schema(self) -> pa.Schema:
        """The columns, as an Arrow schema."""
        return self._order.output

    def to_arrow(self) -> pa.Table:
        """All changes as one Arrow table.

        >>> import lakebed, tempfile
        >>> t = lakebed.connect(tempfile.mkdtemp()).create_table("n", "n BIGINT")
        >>> _ = t.append([{"n": 1}]); _ = t.delete("n = 1")
        >>> t.changes(0, mode="all").to_arrow().select(["n", "_change_type", "_commit_version"]).to_pylist()
        [{'n': 1, '_change_type': 'insert', '_commit_version': 1}, {'n': 1, '_change_type': 'delete', ...: 2}]
        """
        with held(take_all(self._handle, needed_versions(self._span, self._order.mode))):
            steps = plan_changes(self._handle, self._span, self._order)
            with ThreadPoolExecutor(READ_THREADS, "lakebed-changes") as pool:
                parts = [part for found in pool.map(_all_of, steps) for part in found]
        return pa.concat_tables([self.schema.empty_table(), *parts])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """All changes as a stream of Arrow batches. What is read stays readable until it has ended or is dropped.

        >>> import lakebed, tempfile
        >>> t = lakebed.connect(tempfile.mkdtemp()).create_table("n", "n BIGINT")
        >>> _ = t.append([{"n": 1}, {"n": 2}])
        >>> sum(batch.num_rows for batch in t.changes("earliest").to_batches())
        2
        """
        lease = take_all(self._handle, needed_versions(self._span, self._order.mode))
        try:
            steps = plan_changes(self._handle, self._span, self._order)
            size = self._order.scan.options.batch_size
            batches = (batch for step in steps for rows in step.tables() for batch in rows.to_batches(size))
            return stream(prefetch(batches, self._order.scan.options.prefetch), lease)
        except BaseException:
            if lease is not None:
                lease.end()
            raise

    def to_polars(self) -> polars.DataFrame:
        """All changes as a polars DataFrame.

        >>> import lakebed, tempfile
        >>> t = lakebed.connect(tempfile.mkdtemp()).create_table("n", "n BIGINT")
        >>> _ = t.append([{"n": 1}])
        >>> t.changes(0).to_polars()["_change_type"].to_list()
        ['insert']
        """
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def to_pandas(self) -> pandas.DataFrame:
        """All changes as a pandas DataFrame; pandas must be installed.

        >>> import lakebed, tempfile
        >>> t = lakebed.connect(tempfile.mkdtemp()).create_table("n", "n BIGINT")
        >>> _ = t.append([{"n": 1}])
        >>> t.changes(0).to_pandas().shape
        (1, 4)
        """
        try:
            import pandas  # noqa: F401 - to_pandas below needs it
        except ImportError as error:
            raise LakebedError("pandas is not installed", fix="pip install 'pandas<3'") from error
        frame: pandas.DataFrame = self.to_arrow().to_pandas()
        return frame

    def df(self) -> pyspark.sql.DataFrame:
        """All changes as a Spark DataFrame; its tasks read them when it is used.

        What it needs stays readable for an hour, whatever expires meanwhile. Changes of one bucket are in one
        partition, in the order of their versions. Raises LakebedError if the warehouse was opened without Spark.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp(), spark=spark)  # doctest: +SKIP
        >>> t = lake.create_table("n", "n BIGINT")  # doctest: +SKIP
        >>> _ = t.append([{"n": 1}])  # doctest: +SKIP
        >>> t.changes(0).df().select("n", "_change_type").collect()  # doctest: +SKIP
        [Row(n=1, _change_type='insert')]
        """
        cluster = self._handle.distribution
        if cluster is None:
            raise not_distributed(self._handle.name)
        promise_all(self._handle, needed_versions(self._span, self._order.mode))
        frame: pyspark.sql.DataFrame = cluster.changes(self._order, plan_changes(self._handle, self._span, self._order))
        return frame


def _all_of(step: Step | RawStep) -> list[pa.Table]:
    return list(step.tables())


class ChangesReadable(Readable):
    """A stored table, whose versions can be compared."""

    _handle: Handle

    def changes(
        self,
        start: Bound,
        end: Bound | None = None,
        *,
        mode: str = "combine",
        columns: Sequence[str] | None = None,
        where: Any = None,
        on_expired: str = "error",
    ) -> Changes:
        """What became of the rows after ``start`` and up to ``end``, which is the newest version by default.

        Applied to the rows of version ``start`` the changes give those of version ``end``. Both are a version, a
        time (the version that was the newest then), a tag, ``"earliest"`` or ``"latest"``. Changes from
        ``"earliest"`` on begin with the whole of the oldest version that is left, as inserts.

        ``mode`` is ``"combine"`` (one net change per key: insert, update_preimage and update_postimage, or delete; none
        where the row is what it was), ``"all"`` (every change of every version), ``"append"`` (the rows
        that were put in and are still there, as they are at the end, as inserts: what they replaced is not looked at,
        so it costs far less) or ``"skip-merge"`` (what the files hold that were
        written in the range, unmerged, by row kind). A table without a primary key has inserts and deletes only.
        Settling and compaction change no row. ``where`` chooses among the change rows, and may look at
        ``_change_type``, ``_commit_version`` and ``_commit_timestamp`` too. Of a net delete the version is ``end``.

        Raises NotFoundError, naming what is left, if versions have expired; with ``on_expired="snapshot"`` all rows
        of ``end`` come instead, as ``snapshot``, and a warning is logged.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("users", "id BIGINT, name STRING", primary_key=["id"], buckets=2)
        >>> _ = t.upsert([{"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}])
        >>> _ = t.upsert([{"id": 2, "name": "bert"}, {"id": 3, "name": "eve"}])
        >>> found = t.changes(start=1, columns=["name"]).to_arrow().drop_columns("_commit_timestamp")
        >>> sorted(tuple(row.values()) for row in found.to_pylist())
        [('bert', 'update_postimage', 2), ('bob', 'update_preimage', 2), ('eve', 'insert', 2)]
        """
        for given, allowed, what in ((mode, MODES, "mode="), (on_expired, ON_EXPIRED, "on_expired=")):
            if given not in allowed:
                raise InputError(
                    f"table {self.name}: {what} has a wrong value",
                    expected=f"one of {', '.join(allowed)}",
                    found=repr(given),
                )
        span = find_span(self._handle, start, end, on_expired=on_expired)
        if on_expired == "snapshot":
            span = or_snapshot(self._handle, span, mode)
        known = self._handle.metastore.history(self._handle.table_id, start=span.first, end=span.end)
        metadata = seen_by(self._handle, span, mode, known)
        return Changes(self._handle, span, self._change_order(known, metadata, mode, columns, where))

    def consumers(self) -> list[Consumer]:
        """The named readers of changes, by name, and how far each has come.

        >>> import lakebed, tempfile
        >>> t = lakebed.connect(tempfile.mkdtemp()).create_table("n", "n BIGINT")
        >>> _ = t.advance_consumer("report", version=0)
        >>> [(consumer.name, consumer.version) for consumer in t.consumers()]
        [('report', 0)]
        """
        found = self._handle.metastore.consumers(self._handle.table_id)
        return [Consumer(c.name, c.version, moment(c.updated), moment(c.until), c.whole) for c in found]

    def advance_consumer(self, name: str, version: int, retain: str | int | timedelta = "7 days") -> Consumer:
        """Note that a reader of changes has read all up to a version, or set it back to one that is still there.

        What comes after that version does not expire for ``retain`` from now on. Streams with the option ``consumer``
        do this by themselves. Raises NotFoundError for a version that is not there.

        >>> import lakebed, tempfile
        >>> t = lakebed.connect(tempfile.mkdtemp()).create_table("n", "n BIGINT")
        >>> _ = t.append([{"n": 1}])
        >>> _ = t.advance_consumer("report", version=0)
        >>> _ = t.append([{"n": 2}])
        >>> t.expire("0 days").earliest, t.changes(t.consumers()[0].version).to_arrow()["n"].to_pylist()
        (0, [1, 2])
        """
        until = now_ms() + to_duration_ms(retain)
        chosen = check_whole(version, "a version")
        made = self._handle.metastore.advance(self._handle.table_id, name, chosen, until)
        return Consumer(made.name, made.version, moment(made.updated), moment(made.until))

    def forget_consumer(self, name: str) -> None:
        """Forget a reader of changes: nothing is kept for it any more.

        >>> import lakebed, tempfile
        >>> t = lakebed.connect(tempfile.mkdtemp()).create_table("n", "n BIGINT")
        >>> _ = t.advance_consumer("report", version=0); t.forget_consumer("report"); t.consumers()
        []
        """
        self._handle.metastore.forget_consumer(self._handle.table_id, name)

    def _change_order(
        self,
        known: Sequence[VersionRecord],
        metadata: Metadata,
        mode: str,
        columns: Sequence[str] | None,
        where: Any,
    ) -> ChangeOrder:
        taken = [f.name for f in CHANGE_FIELDS if metadata.schema.find(f.name) is not None]
        if taken:
            raise InputError(f"table {self.name} has a column {taken[0]!r} of its own", fix="rename it")
        seen = Struct((*metadata.schema, *CHANGE_FIELDS))
        scan = ScanOrder(self._store, self.name, metadata, self._options, metadata.schema.names)
        return ChangeOrder(
            scan=scan,
            columns=self._columns(metadata, columns),
            where=None if where is None else parse(where, seen),
            mode=mode,
            times={record.version: record.timestamp for record in known},
        )
