"""Taking in a table that exists: its whole log becomes rows, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from lakebed.core.errors import AlreadyExistsError, MetastoreError
from lakebed.core.names import check_name
from lakebed.metastore.log_rows import LogRows
from lakebed.metastore.part import Part
from lakebed.metastore.records import LoggedVersion, TableRecord
from lakebed.metastore.tables import insert_table


class Imports(Part):
    """The part of the metastore that takes in existing tables."""

    def import_table(
        self, namespace: str, name: str, location: str, table_id: str, history: Iterable[LoggedVersion]
    ) -> TableRecord:
        """Take in a table's published history, oldest version first and without gaps, in one transaction.

        Raises InputError, CorruptFileError for a history with gaps, NotFoundError and AlreadyExistsError; and
        MetastoreError if the connection is lost while ``history`` can be read only once.
        """
        check_name(name, "table")
        once = isinstance(history, Iterator)
        begun = False

        def work(connection: Connection) -> TableRecord:
            nonlocal begun
            if begun and once:
                raise MetastoreError(
                    f"table {namespace}.{name}: the import was interrupted", fix="nothing was changed; start it again"
                )
            begun = True
            if connection.dialect.name == "postgresql":
                # Reading a long history may take longer than a silent transaction is otherwise given.
                connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
            head = insert_table(connection, table_id, namespace, name, location)
            last = LogRows(connection, head).take_in(history)
            return TableRecord(table_id, namespace, name, location, head.created, last)

        try:
            return self._database.write(work)
        except IntegrityError as error:
            raise AlreadyExistsError(
                f"table {namespace}.{name} or its location {location} was taken meanwhile",
                fix="choose another name or location",
            ) from error
