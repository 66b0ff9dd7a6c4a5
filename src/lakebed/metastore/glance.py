"""What can be told of tables without planning, reading or committing: opened in a fraction of the time."""

from __future__ import annotations

from lakebed.core.errors import NotFoundError
from lakebed.core.names import TableName
from lakebed.core.suggest import did_you_mean
from lakebed.metastore.buckets import Buckets
from lakebed.metastore.namespaces import Namespaces
from lakebed.metastore.opening import open_database
from lakebed.metastore.overview import Overview
from lakebed.metastore.overviews import Overviews
from lakebed.metastore.states import States
from lakebed.metastore.tags import Tags


class Glance(Overviews, Namespaces, States, Buckets, Tags):
    """The parts of a metastore that need the database only; get one from ``open_glance``."""

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def __enter__(self) -> Glance:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find(self, name: str) -> Overview:
        """The table of that name. Raises NotFoundError with the nearest name."""
        wanted = str(TableName.parse(name))
        known = {str(table): table for table in self.overviews()}
        if wanted not in known:
            raise NotFoundError(
                f"there is no table {wanted}", fix=did_you_mean(wanted, list(known)) or "see `lakebed ls`"
            )
        return known[wanted]


def open_glance(url: str) -> Glance:
    """A look at the metastore at a URL, which must be there. Raises what ``open_metastore`` does."""
    return Glance(open_database(url, create=False))
