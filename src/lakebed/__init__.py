"""Lakebed: a lakehouse table engine in Python.

>>> import lakebed, tempfile
>>> lake = lakebed.connect(tempfile.mkdtemp())
>>> orders = lake.create_table("orders", "id BIGINT NOT NULL, amount DOUBLE")
>>> _ = orders.append([{"id": 1, "amount": 9.5}])
>>> orders.to_arrow().to_pylist()
[{'id': 1, 'amount': 9.5}]
"""

from typing import TYPE_CHECKING

from lakebed.core.errors import (
    AccessError,
    AlreadyExistsError,
    CommitError,
    CommitUnknownError,
    ConflictError,
    CorruptFileError,
    DataError,
    FileMissingError,
    InputError,
    JobError,
    LakebedError,
    MetastoreError,
    MetastoreVersionError,
    NoSpaceError,
    NotFoundError,
    OptionError,
    PredicateError,
    SchemaError,
    SqlError,
    StorageError,
    UnsupportedFeatureError,
)
from lakebed.core.lazy import lazily

if TYPE_CHECKING:
    from lakebed.changes import Changes
    from lakebed.connection import connect, read_delta, recover
    from lakebed.engine.draft import LeftoverWarning
    from lakebed.engine.publication import PublicationWarning
    from lakebed.maintaining import Maintained
    from lakebed.records import Commit, Consumer, Copied, Expired, Maintenance, Tag, Vacuumed
    from lakebed.table import Table
    from lakebed.transaction import Transaction
    from lakebed.view import TableView
    from lakebed.warehouse import Warehouse
else:
    # What reads and writes tables is loaded when it is first used: `lakebed ls` needs none of it.
    __getattr__ = lazily(
        __name__,
        {
            "lakebed.changes": ["Changes"],
            "lakebed.connection": ["connect", "read_delta", "recover"],
            "lakebed.engine.draft": ["LeftoverWarning"],
            "lakebed.engine.publication": ["PublicationWarning"],
            "lakebed.maintaining": ["Maintained"],
            "lakebed.records": ["Commit", "Consumer", "Copied", "Expired", "Maintenance", "Tag", "Vacuumed"],
            "lakebed.table": ["Table"],
            "lakebed.transaction": ["Transaction"],
            "lakebed.view": ["TableView"],
            "lakebed.warehouse": ["Warehouse"],
        },
    )

__all__ = [
    "AccessError",
    "AlreadyExistsError",
    "Changes",
    "Commit",
    "CommitError",
    "CommitUnknownError",
    "ConflictError",
    "Consumer",
    "Copied",
    "CorruptFileError",
    "DataError",
    "Expired",
    "FileMissingError",
    "InputError",
    "JobError",
    "LakebedError",
    "LeftoverWarning",
    "Maintained",
    "Maintenance",
    "MetastoreError",
    "MetastoreVersionError",
    "NoSpaceError",
    "NotFoundError",
    "OptionError",
    "PredicateError",
    "PublicationWarning",
    "SchemaError",
    "SqlError",
    "StorageError",
    "Table",
    "TableView",
    "Tag",
    "Transaction",
    "UnsupportedFeatureError",
    "Vacuumed",
    "Warehouse",
    "connect",
    "read_delta",
    "recover",
]
