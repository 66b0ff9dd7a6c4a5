"""The metastore's URL: which database, and how to name it without its password."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from lakebed.core.errors import OptionError

_EXPECTED = "sqlite:///path/metastore.db or postgresql://user@host:port/database"
_POSTGRES = frozenset({"postgres", "postgresql", "postgresql+psycopg"})


@dataclass(frozen=True, repr=False)
class Address:
    """A parsed metastore URL. ``str`` and ``repr`` show neither user, password nor options."""

    url: URL
    is_sqlite: bool

    def __str__(self) -> str:
        if self.is_sqlite:
            return str(self.url.database)
        host = self.url.host or self.url.query.get("host") or "localhost"
        return f"postgresql://{host}:{self.url.port or 5432}/{self.url.database or ''}"

    __repr__ = __str__

    @property
    def path(self) -> Path:
        """The database file of SQLite."""
        return Path(str(self.url.database))


def parse_address(text: str) -> Address:
    """The address that a metastore URL names. Raises OptionError.

    >>> parse_address("postgres://ann:secret@db:5433/lake")
    postgresql://db:5433/lake
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        # Not chained: the cause may quote a part of the password.
        raise OptionError("the metastore's URL cannot be parsed", expected=_EXPECTED) from None
    if url.drivername in _POSTGRES:
        return Address(url.set(drivername="postgresql+psycopg"), is_sqlite=False)
    if url.drivername != "sqlite":
        raise OptionError("metastore: unknown database", expected=_EXPECTED, found=url.drivername)
    if not url.database or url.database == ":memory:":
        raise OptionError(
            "metastore: SQLite needs a file, since every thread has its own connection", expected=_EXPECTED
        )
    return Address(url, is_sqlite=True)
