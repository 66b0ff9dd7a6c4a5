"""``df.write.format("lakebed")``, ``INSERT INTO``, ``INSERT OVERWRITE``: tasks write files, one commit takes them in.

Spark plans a write, and commits it, in processes of their own. The rows come as Spark has them, without a shuffle;
otherwise it is the command of the table API: the same work orders, the same messages, the same operation on a draft.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lakebed.config import Config
from lakebed.core.actions import AddFile, Metadata, Protocol, now_ms
from lakebed.core.commit import Claim, PreparedCommit, Recompute
from lakebed.core.conform import FIX, check_schema
from lakebed.core.errors import ConflictError, DataError, JobError, LakebedError, NotFoundError
from lakebed.core.keyed import KeySpec
from lakebed.core.predicate import parse
from lakebed.core.properties import value_of
from lakebed.core.schema import Struct
from lakebed.engine.compact_after import look_after
from lakebed.engine.draft import Draft, LeftoverWarning
from lakebed.engine.fit import fitted
from lakebed.engine.incoming import Settles
from lakebed.engine.keyed_write import KeyedWriter
from lakebed.engine.land import cleaned_is_conflict, land
from lakebed.engine.overwrite import append, overwrite_all, overwrite_partitions, overwrite_where
from lakebed.engine.upsert import key_of, row_kinds_of, upsert, upsert_order
from lakebed.engine.upsert_order import Upserted, UpsertOrder
from lakebed.engine.workforce import NewFiles, new_prefix
from lakebed.engine.write import WriteOrder
from lakebed.metastore import TableState
from lakebed.spark.abandoned import remove_all, remove_but
from lakebed.spark.message import Message
from lakebed.spark.schemas import arrow_schema
from lakebed.spark.write import gathered
from lakebed.spark.write_options import WriteOptions
from lakebed.spark.write_task import UpsertTask, WriteTask, run_task
from lakebed.spark.writing_job import refuse
from lakebed.table import Table
from lakebed.warehouse import Warehouse
from lakebed.writing import once

_PARTITION_MODE = "spark.sql.sources.partitionOverwriteMode"


@dataclass(frozen=True)
class Prepared:
    """The draft that the write began with, as far as it can be sent."""

    table_id: str
    version: int
    metadata: Metadata
    protocol: Protocol
    claims: tuple[Claim, ...]
    parameters: Mapping[str, Any]


@dataclass
class Sent(WriterCommitMessage):
    """What a task reports."""

    message: Message
    dynamic: bool
    """Whether the session wants overwrites to replace only partitions that rows come for; only tasks are told."""


class LakebedWriter(DataSourceArrowWriter):
    """One write into one table."""

    def __init__(self, config: Config | None, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        options.check(overwrite)
        self._config = config
        self._options = options
        self._overwrite = overwrite
        self._schema = arrow_schema(schema)
        self._sent_to_tasks = False
        self._commit_id = str(uuid.uuid4())
        self._shared = False
        """Whether another process may commit the same files."""
        with options.warehouse(config) as lake:
            self._prepared, self._work = self._plan(_found(lake, options, config, schema))

    def __getstate__(self) -> dict[str, Any]:
        """Spark sends a writer twice: first to the tasks, which must not learn how the metastore is reached."""
        state = {**self.__dict__, "_sent_to_tasks": True}
        if not self._sent_to_tasks:
            self._sent_to_tasks = True
            state["_config"] = None
            state["_options"] = replace(self._options, connection={})
        return state

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: write files through the engine."""
        from pyspark import TaskContext

        context = TaskContext.get()
        mode = None if context is None else context.getLocalProperty(_PARTITION_MODE)
        return Sent(run_task(self._work, iterator), (mode or "").lower() == "dynamic")

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Take in the files of all tasks, as one version. Raises what makes that impossible; Spark then aborts."""
        sent = [message for message in messages if isinstance(message, Sent)]
        done = sorted((one.message for one in sent), key=lambda message: message.task)
        if not self._reaches_metastore:
            raise JobError(
                f"table {self._options.path}: this Spark does not tell its commit where the metastore is",
                fix="write with the table's own methods: lake.table(…).append(df)",
            )
        refuse([message.error for message in done if message.error is not None])
        with self._options.warehouse(self._config) as lake:
            self._land(self._options.table(lake, self._config), done, dynamic=self._is_dynamic(sent))
        # Of a second attempt that came too late Spark does not tell here; vacuum finds its files.
        if any(message.attempt for message in done):
            remove_but(self._files, {path for message in done for path in message.paths})

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """A task or the commit has failed: the files of all tasks go, unless the commit may have landed."""
        if self._reaches_metastore:
            try:
                with self._options.warehouse(self._config) as lake:
                    if lake._metastore.has_landed([self._as_commit()]):
                        return
            except LakebedError as error:
                warnings.warn(
                    LeftoverWarning(
                        f"table {self._options.path}: whether the write has landed is not known, so its files stay "
                        f"({error}); if it has not, vacuum will find them"
                    ),
                    stacklevel=2,
                )
                return
        remove_all(self._files)

    @property
    def prepared(self) -> Prepared:
        """The draft that the write began with."""
        return self._prepared

    @property
    def work(self) -> WriteTask | UpsertTask:
        """What every task does."""
        return self._work

    def resume(self, prepared: Prepared, work: WriteTask | UpsertTask) -> None:
        """Be the writer whose tasks have done this work."""
        self._prepared, self._work = prepared, work

    def commit_once(self, messages: Sequence[WriterCommitMessage | None], txn: tuple[str, int]) -> None:
        """As ``commit``, for a transaction of an application; nothing is added if that has landed before.

        Whoever calls may call again, with the same messages or others: files that any version has are never deleted.
        """
        self._options = replace(self._options, txn=txn)
        self._shared = True
        self.commit(messages)

    def abort_once(self, messages: Sequence[Message]) -> None:
        """The files of these tasks go, but for those that a version has; one that is still to land is refused."""
        with self._options.warehouse(self._config) as lake:
            self._remove_unused(self._options.table(lake, self._config), messages)

    @property
    def _reaches_metastore(self) -> bool:
        return self._config is not None or bool(self._options.connection)

    def _is_dynamic(self, sent: Sequence[Sent]) -> bool:
        """Whether partitions are replaced; as for the table's own methods, one without any has no choice."""
        if self._options.dynamic is not None:
            return self._options.dynamic
        partitioned = bool(self._prepared.metadata.partition_columns)
        return partitioned and self._options.replace_where is None and any(one.dynamic for one in sent)

    def _as_commit(self) -> PreparedCommit:
        """The commit of this write, as far as it takes to find it."""
        return PreparedCommit(
            table_id=self._prepared.table_id,
            table_name=self._options.path,
            commit_id=self._commit_id,
            read_version=self._prepared.version,
            claims=(),
            actions=(),
            made_for=self._prepared.metadata,
        )

    @property
    def _files(self) -> NewFiles:
        order = self._work.order
        return NewFiles(order.store, order.metadata, order.table_name, order.prefix)

    def _plan(self, table: Table) -> tuple[Prepared, WriteTask | UpsertTask]:
        draft = Draft(table._handle, table._state(), alone=True)
        draft.refuse_if_unwritable()
        options = self._options
        beside = [options.row_kind] if options.row_kind else []
        fitted(draft, _Written(self._schema), merge_schema=options.merge_schema, explicit_cast=False, beside=beside)
        prepared = Prepared(
            table_id=table._handle.table_id,
            version=draft.base.version,
            metadata=draft.metadata,
            protocol=draft.protocol,
            claims=tuple(draft.claims),
            parameters=dict(draft.parameters),
        )
        within = parse(options.replace_where, draft.metadata.schema) if options.replace_where is not None else None
        key = key_of(draft, "row-kind") if options.row_kind else KeySpec.of(draft.metadata)
        if key is None:
            order = replace(draft.order, within=within, prefix=new_prefix())
            problems = check_schema(self._schema, draft.metadata.schema)
            if problems:
                raise DataError(f"table {table.name}: the rows do not fit", problems, fix=FIX)
            return prepared, WriteTask(order)
        named = options.row_kind or value_of("row-kind", draft.metadata.configuration) or None
        upserts = upsert_order(draft, key, row_kind=named, prefix=new_prefix())
        upserts = replace(upserts, row_kinds=row_kinds_of(draft.metadata), within=within)
        KeyedWriter(upserts).expect(self._schema)
        return prepared, UpsertTask(upserts)

    def _land(self, table: Table, done: Sequence[Message], *, dynamic: bool) -> None:
        if table._handle.table_id != self._prepared.table_id:
            raise NotFoundError(f"table {table.name} was dropped and made anew meanwhile", fix="run the write again")
        if self._shared and self._has_landed(table):
            self._remove_unused(table, done)
            return
        for _ in range(1 + table._options.commit_retries):
            draft = self._drafted(table, done, dynamic=dynamic)
            outcome = land([draft])
            if not isinstance(outcome, Recompute):
                break
            if not self._shared:  # the files have been deleted
                raise self._overtaken(table)
        else:
            raise self._overtaken(table)
        if self._shared and (not outcome or outcome[0].repeated or not _all_stay(draft, done)):
            self._remove_unused(table, done)
        look_after(draft)

    def _has_landed(self, table: Table) -> bool:
        """Whether the transaction is in the table; the commit asks again, and then nobody can come between."""
        return (
            self._options.txn is not None and table.transactions().get(self._options.txn[0], -1) >= self._options.txn[1]
        )

    def _drafted(self, table: Table, done: Sequence[Message], *, dynamic: bool) -> Draft:
        """The change that the files are for; on a version that maintenance has made meanwhile if need be."""
        prepared = self._prepared
        draft = Draft(table._handle, self._base(table), alone=True)
        draft.commit_id = self._commit_id
        draft.metadata, draft.protocol = prepared.metadata, prepared.protocol
        draft.claims, draft.parameters = list(prepared.claims), dict(prepared.parameters)
        try:
            once(draft, self._options.txn)
            with cleaned_is_conflict(draft):
                self._operate(draft, _Written(self._schema, tuple(done)), dynamic=dynamic)
        except BaseException:
            self._let_go(draft, done)
            draft.discard()
            raise
        self._let_go(draft, done)
        return draft

    def _let_go(self, draft: Draft, done: Sequence[Message]) -> None:
        """Files that others may commit are not the draft's to delete."""
        if self._shared:
            others = {path for message in done for path in message.paths}
            draft.written = [path for path in draft.written if path not in others]

    def _remove_unused(self, table: Table, done: Sequence[Message]) -> None:
        """Delete files of tasks that no version has, and let no commit that is still under way have them."""
        handle, paths = table._handle, [path for message in done for path in message.paths]
        free = handle.metastore.condemn(handle.table_id, paths, now_ms(), since=self._prepared.version)
        handle.store.delete_many(free.paths)
        for path in free.paths:
            handle.store.remove_empty_parents(path)

    def _overtaken(self, table: Table) -> ConflictError:
        return ConflictError(
            f"table {table.name}: maintenance has replaced files that this write was prepared with",
            fix="nothing was changed; run it again",
        )

    def _base(self, table: Table) -> TableState:
        """The version that the write was prepared with, or a later one that is like it: if that one has expired, and
        for a batch that takes the place of all rows, whichever there are."""
        newest = table._state()
        like = (newest.metadata, newest.protocol) == (self._prepared.metadata, self._prepared.protocol)
        if like and self._shared and self._overwrite:
            return newest
        try:
            return table._state(self._prepared.version)
        except NotFoundError:
            if not like:
                raise
            return newest

    def _operate(self, draft: Draft, rows: _Written, *, dynamic: bool) -> None:
        options = self._options
        if options.replace_where is not None:
            overwrite_where(draft, rows, parse(options.replace_where, draft.metadata.schema))
        elif self._overwrite and dynamic:
            overwrite_partitions(draft, rows)
        elif self._overwrite:
            overwrite_all(draft, rows)
        elif options.row_kind:
            upsert(draft, rows, row_kind=options.row_kind)
        else:
            append(draft, rows)


def _all_stay(draft: Draft, done: Sequence[Message]) -> bool:
    """Whether the commit of a draft has all files of the tasks; settling may have replaced some."""
    kept = {add.file_path for add in draft.result()[1].values()}
    return all(path in kept for message in done for path in message.paths)


@dataclass(frozen=True)
class _Written:
    """Rows that tasks have written already."""

    schema: pa.Schema
    done: tuple[Message, ...] = ()

    @property
    def replaces_partitions(self) -> bool:
        return False

    def cast(self, schema: Struct, names: object) -> _Written:
        raise NotImplementedError("rows that are in files stay as they are")

    def read(self) -> pa.Table:
        raise NotImplementedError("rows that are in files are not read again")

    def write(self, order: WriteOrder) -> list[AddFile]:
        return [add for message in self.done for add in message.files]

    def upsert(self, order: UpsertOrder, settles: Settles) -> Upserted:
        return gathered(self.done, order.key, whole_buckets=False)


def _found(lake: Warehouse, options: WriteOptions, config: Config | None, schema: StructType) -> Table:
    """The table; one that is named and not there is made. Raises NotFoundError for a place without one."""
    try:
        return options.table(lake, config)
    except NotFoundError:
        if not options.is_name():
            raise
    given = options.creating
    return lake.create_table(
        options.path,
        schema,
        primary_key=_names(given.get("primary-key")),
        partition_by=_names(given.get("partition-by")),
        buckets=_buckets(given.get("buckets")),
        merge=given.get("merge"),
        merge_engine=given.get("merge-engine"),
        sequence=_names(given.get("sequence")),
    )


def _names(text: str | None) -> tuple[str, ...]:
    return () if text is None else tuple(name.strip() for name in text.split(","))


def _buckets(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.strip().isdecimal() else text
