"""The metastore: the only arbiter of commits."""

from __future__ import annotations

from lakebed.metastore.buckets import Buckets
from lakebed.metastore.changes import Changes
from lakebed.metastore.commits import Commits
from lakebed.metastore.condemned import CondemnedFiles
from lakebed.metastore.consumers import Consumers
from lakebed.metastore.expiring import Expiries
from lakebed.metastore.expiry import Expiry
from lakebed.metastore.files import Files
from lakebed.metastore.full_state import FullStates
from lakebed.metastore.imports import Imports
from lakebed.metastore.leases import Leases
from lakebed.metastore.namespaces import Namespaces
from lakebed.metastore.opening import open_database
from lakebed.metastore.overviews import Overviews
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
    Overviews,
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
    return Metastore(open_database(url, create=create, patience=patience))
