"""The part of a metastore that sums up all tables."""

from __future__ import annotations

from sqlalchemy import text

from lakebed.metastore.overview import QUERY, Overview, overviews_of
from lakebed.metastore.part import Part

_QUERY = text(QUERY)


class Overviews(Part):
    """All tables in a few numbers."""

    def overviews(self, namespace: str | None = None) -> list[Overview]:
        """The tables of all namespaces, or of one, by name."""
        return self._database.read(lambda c: overviews_of(c.execute(_QUERY, {"namespace": namespace})))
