"""The metastore: the only arbiter of commits."""

from __future__ import annotations

from lakebed.core.errors import MetastoreError
from lakebed.metastore.address import Address, parse_address
from lakebed.metastore.buckets import Buckets
from lakebed.metastore.changes import Changes
from lakebed.metastore.commits import Commits
from lakebed.metastore.condemned import CondemnedFiles
from lakebed.metastore.connection import Database
from lakebed.metastore.consumers import Consumers
from lakebed.metastore.expiring import Expiries
from lakebed.metastore.expiry import Expiry
from lakebed.metastore.files import Files
from lakebed.metastore.full_state import FullStates
from lakebed.metastore.imports import Imports
from lakebed.metastore.leases import Leases
from lakebed.metastore.migrations import prepare
from lakebed.metastore.namespaces import Namespaces
from lakebed.metastore.publication import Publication
from lakebed.metastore.states import States
from lakebed.metastore.tables import Tables
from lakebed.metastore.tags import Tags


class Metastore(
    Namespaces,
    Tables,
    Imports,
    States,
    Files,
    Buckets,
    Changes,
    FullStates,
    Commits,
    Publication,
    Tags,
    Leases,
    Consumers,
    Expiries,
    Expiry,
    CondemnedFiles,
):
    """A metadata database, made of one small class per concern; get one from ``open_metastore``.

    Safe to share between threads, and usable in a forked process, which opens connections of its own.
    """

    def __repr__(self) -> str:
        return f"<metastore {self._database.address}>"

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def __enter__(self) -> Metastore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_metastore(url: str, *, create: bool = True, patience: float = 30.0) -> Metastore:
    """The metastore at ``sqlite:///path`` or ``postgresql://user@host/database``; made if it is not there.

    ``patience``: for how many seconds a commit whose connection was lost tries to learn its outcome. Raises
    OptionError for another URL, MetastoreError if the database cannot be reached, or has no metastore and
    ``create`` is False, and MetastoreVersionError for a schema that this Lakebed does not know.

    >>> import tempfile
    >>> with open_metastore(f"sqlite:///{tempfile.mkdtemp()}/metastore.db") as metastore:
    ...     metastore.namespaces()
    ['default']
    """
    address = parse_address(url)
    if address.is_sqlite:
        _prepare_file(address, create=create)
    database = Database(address, patience)
    try:
        database.probe()
        prepare(database, create=create)
    except BaseException:
        database.close()
        raise
    return Metastore(database)


def _prepare_file(address: Address, *, create: bool) -> None:
    path = address.path
    if not create and not path.exists():
        raise MetastoreError(f"there is no metastore at {path}", fix="check the path, or create the warehouse first")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MetastoreError(f"the metastore's directory {path.parent} cannot be made", found=str(error)) from error
