"""Opening a metadata database: the file is there, the server answers, and the schema is one that we know."""

from __future__ import annotations

from lakebed.core.errors import MetastoreError
from lakebed.metastore.address import Address, parse_address
from lakebed.metastore.connection import Database
from lakebed.metastore.migrations import prepare


def open_database(url: str, *, create: bool = True, patience: float = 30.0) -> Database:
    """The database at ``sqlite:///path`` or ``postgresql://user@host/database``, with the metastore's schema in it.

    Arguments and errors are those of ``open_metastore``.
    """
    address = parse_address(url)
    if address.is_sqlite:
        prepare_file(address, create=create)
    database = Database(address, patience)
    try:
        database.probe()
        prepare(database, create=create)
    except BaseException:
        database.close()
        raise
    return database


def prepare_file(address: Address, *, create: bool) -> None:
    path = address.path
    if not create and not path.exists():
        raise MetastoreError(f"there is no metastore at {path}", fix="check the path, or create the warehouse first")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MetastoreError(f"the metastore's directory {path.parent} cannot be made", found=str(error)) from error
