"""The address of a metastore: which ones there are, and how to show them without the password."""

from __future__ import annotations

import os
import re
from pathlib import Path

from lakebed.core.errors import OptionError
from lakebed.core.location import Location
from lakebed.core.secret import MASK

_POSTGRES = re.compile(r"(postgresql|postgres|postgresql\+psycopg)://(?=.)")
_SQLITE = "sqlite:///"
_EXPECTED = "postgresql://user@host/database, sqlite:///path or a path that ends in .db"


def masked_url(url: str) -> str:
    """The URL with every password replaced.

    >>> masked_url("postgresql://ann:hunter2@db/lake?password=hunter2&sslmode=require")
    'postgresql://ann:***@db/lake?password=***&sslmode=require'
    >>> masked_url("postgresql:ann:hunter2@db/lake")
    '***@db/lake'
    """
    if "://" not in url:
        url = re.sub(r"(?s)^.*@", f"{MASK}@", url)  # mistyped: nobody knows where the password begins
    # Greedy up to the last @: a password that was not escaped may itself contain one.
    url = re.sub(r"(://[^:/@]*):.*@", rf"\1:{MASK}@", url)
    return re.sub(r"(?i)((?:^|[?&;\s])(?:ssl)?pass(?:word|wd)?=)[^&;\s]*", rf"\1{MASK}", url)


def parse_metastore_url(text: str, directory: str | os.PathLike[str] = ".") -> str:
    """The metastore's URL in one form; a relative SQLite path starts at ``directory``.

    Raises ``OptionError`` for anything but PostgreSQL and SQLite.

    >>> parse_metastore_url("postgres://ann@db/lake")
    'postgresql+psycopg://ann@db/lake'
    >>> parse_metastore_url("meta.db", "/srv")
    'sqlite:////srv/meta.db'
    """
    text = text.strip()
    if _POSTGRES.match(text):
        return _POSTGRES.sub("postgresql+psycopg://", text, count=1)
    path = text[len(_SQLITE) :] if text.startswith(_SQLITE) else text
    is_path = text.startswith(_SQLITE) or (text.endswith(".db") and "://" not in text)
    if not is_path or not path or path == ":memory:":
        raise OptionError("this is no address of a metastore", expected=_EXPECTED, found=masked_url(text))
    return _sqlite_url(str(Path(os.path.abspath(directory), os.path.expanduser(path))))


def default_metastore(warehouse: Location) -> str:
    """The metastore inside a local warehouse. Raises ``OptionError`` for a warehouse elsewhere."""
    if not warehouse.is_local:
        raise OptionError(
            f"the warehouse {warehouse} needs a metastore: SQLite cannot live there",
            expected=_EXPECTED,
            fix='pass metastore="postgresql://user@host/database" or set LAKEBED_METASTORE',
        )
    return _sqlite_url(f"{warehouse.path.rstrip('/')}/.lakebed/metastore.db")


def _sqlite_url(path: str) -> str:
    if "?" in path:
        raise OptionError(
            f"a SQLite metastore cannot be at {path!r}: '?' ends the path in a URL",
            fix="choose another directory, or pass another metastore",
        )
    return f"{_SQLITE}{os.path.normpath(path)}"
