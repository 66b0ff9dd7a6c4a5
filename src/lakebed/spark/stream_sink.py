"""``writeStream.format("lakebed")``: each micro-batch is one commit, however often Spark sends it.

A batch is known by the query's id, which its checkpoint has, and by its number; both are in the commit as an
application's transaction. A batch that is sent again, since the process died between the commit and the checkpoint,
writes its files again, finds its transaction there, and removes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lakebed.config import Config
from lakebed.core.errors import OptionError
from lakebed.engine.stream_query import query_id
from lakebed.spark.addressed import connected, connection_options
from lakebed.spark.message import Message
from lakebed.spark.source_writer import LakebedWriter, Prepared, Sent
from lakebed.spark.write_options import WriteOptions
from lakebed.spark.write_task import UpsertTask, WriteTask

CHECKPOINT = "checkpointlocation"
QUERY = "query-id"


@dataclass
class StreamSent(WriterCommitMessage):
    """What a task of a micro-batch reports, and what its files were written for."""

    message: Message
    prepared: Prepared
    work: WriteTask | UpsertTask


class StreamWriter(DataSourceStreamArrowWriter):
    """One micro-batch: Spark makes a new writer for the tasks of each, and another one for its commit."""

    def __init__(self, config: Config | None, given: Mapping[str, str], schema: StructType, *, complete: bool) -> None:
        options = {name: text for name, text in given.items() if name.lower() not in (CHECKPOINT, QUERY)}
        named = {name.lower(): text for name, text in given.items()}
        self._query = named.get(QUERY)
        self._checkpoint = named.get(CHECKPOINT)
        parsed = WriteOptions.parse(options)
        if self._query is None and self._checkpoint is None:
            raise OptionError(
                f"table {parsed.path}: a stream is written once only if it is known which one it is",
                expected=f"option 'checkpointLocation', or {QUERY!r} with a name that a new checkpoint does not share",
            )
        if parsed.txn is not None:
            raise OptionError(
                f"table {parsed.path}: the transactions of a stream are its batches",
                fix="leave out txn-app-id and txn-version",
            )
        self._writer = LakebedWriter(config, replace(parsed, dynamic=False), schema, complete)
        self._config = config
        self._connection = parsed.connection

    def __getstate__(self) -> dict[str, object]:
        """Tasks need no connection."""
        return {**self.__dict__, "_config": None, "_connection": {}}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: write files through the engine."""
        sent = self._writer.write(iterator)
        assert isinstance(sent, Sent)
        return StreamSent(sent.message, self._writer.prepared, self._writer.work)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Take in the files of the batch as one version, unless it has been already."""
        sent = [message for message in messages if isinstance(message, StreamSent)]
        writer = self._writer
        if sent:
            writer.resume(sent[0].prepared, sent[0].work)
        writer.commit_once([Sent(one.message, dynamic=False) for one in sent], (self._application(), batchId))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """The files of the tasks that were done go, unless they have landed; vacuum finds those of the others."""
        sent = [message for message in messages if isinstance(message, StreamSent)]
        if sent:
            self._writer.resume(sent[0].prepared, sent[0].work)
            self._writer.abort_once([one.message for one in sent])

    def _application(self) -> str:
        if self._query is not None:
            return self._query
        assert self._checkpoint is not None
        config = connected(self._config, self._connection)
        return query_id(self._checkpoint, connection_options(config, self._connection))
