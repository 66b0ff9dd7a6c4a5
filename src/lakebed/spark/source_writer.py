"""``df.write.format("lakebed")``, ``INSERT INTO``, ``INSERT OVERWRITE``: tasks write files, one commit takes them in.

Spark plans a write, and commits it, in processes of their own. The rows come as Spark has them, without a shuffle;
otherwise it is the command of the table API: the same work orders, the same messages, the same operation on a draft.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lakebed.config import Config
from lakebed.core.actions import AddFile, Metadata, Protocol
from lakebed.core.commit import Claim, Recompute
from lakebed.core.conform import FIX, check_schema
from lakebed.core.errors import ConflictError, DataError, JobError, NotFoundError
from lakebed.core.keyed import KeySpec
from lakebed.core.predicate import parse
from lakebed.core.properties import value_of
from lakebed.core.schema import Struct
from lakebed.engine.draft import Draft
from lakebed.engine.fit import fitted
from lakebed.engine.incoming import Settles
from lakebed.engine.keyed_write import KeyedWriter
from lakebed.engine.land import land
from lakebed.engine.maintain import settle_after
from lakebed.engine.overwrite import append, overwrite_all, overwrite_partitions, overwrite_where
from lakebed.engine.upsert import row_kinds_of, upsert, upsert_order
from lakebed.engine.upsert_order import Upserted, UpsertOrder
from lakebed.engine.workforce import NewFiles, new_prefix
from lakebed.engine.write import WriteOrder
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


@dataclass(frozen=True)
class Prepared:
    """The draft that the write began with, as far as it can be sent."""

    version: int
    metadata: Metadata
    protocol: Protocol
    claims: tuple[Claim, ...]
    parameters: Mapping[str, Any]


@dataclass
class Sent(WriterCommitMessage):
    """What a task reports."""

    message: Message


class LakebedWriter(DataSourceArrowWriter):
    """One write into one table."""

    def __init__(self, config: Config | None, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        self._config = config
        self._options = options
        self._overwrite = overwrite
        self._schema = arrow_schema(schema)
        self._sent_to_tasks = False
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
        return Sent(run_task(self._work, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Take in the files of all tasks, as one version. Raises what makes that impossible; then none remains."""
        done = sorted((m.message for m in messages if isinstance(m, Sent)), key=lambda message: message.task)
        try:
            if self._config is None and not self._options.connection:
                raise JobError(
                    f"table {self._options.path}: this Spark does not tell its commit where the metastore is",
                    fix="write with the table's own methods: lake.table(…).append(df)",
                )
            refuse([message.error for message in done if message.error is not None])
            with self._options.warehouse(self._config) as lake:
                self._land(self._options.table(lake, self._config), done)
        except BaseException:
            remove_all(self._files)
            raise
        # Of a second attempt that came too late Spark does not tell here; vacuum finds its files.
        if any(message.attempt for message in done):
            remove_but(self._files, {path for message in done for path in message.paths})

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """A task has failed for good: the files of all go."""
        remove_all(self._files)

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
            draft.base.version, draft.metadata, draft.protocol, tuple(draft.claims), dict(draft.parameters)
        )
        within = parse(options.replace_where, draft.metadata.schema) if options.replace_where else None
        key = KeySpec.of(draft.metadata)
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

    def _land(self, table: Table, done: Sequence[Message]) -> None:
        prepared, handle = self._prepared, table._handle
        draft = Draft(handle, handle.metastore.state(handle.table_id, prepared.version), alone=True)
        draft.metadata, draft.protocol = prepared.metadata, prepared.protocol
        draft.claims, draft.parameters = list(prepared.claims), dict(prepared.parameters)
        once(draft, self._options.txn)
        self._operate(draft, _Written(self._schema, tuple(done), KeySpec.of(draft.metadata)))
        outcome = land([draft])
        if isinstance(outcome, Recompute):
            raise ConflictError(
                f"table {table.name}: maintenance has replaced files that this write was prepared with",
                fix="nothing was changed; run it again",
            )
        settle_after(draft)

    def _operate(self, draft: Draft, rows: _Written) -> None:
        options = self._options
        if options.replace_where:
            overwrite_where(draft, rows, parse(options.replace_where, draft.metadata.schema))
        elif self._overwrite and options.dynamic:
            overwrite_partitions(draft, rows)
        elif self._overwrite:
            overwrite_all(draft, rows)
        elif options.row_kind:
            upsert(draft, rows, row_kind=options.row_kind)
        else:
            append(draft, rows)


@dataclass(frozen=True)
class _Written:
    """Rows that tasks have written already."""

    schema: pa.Schema
    done: tuple[Message, ...] = ()
    key: KeySpec | None = None

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
