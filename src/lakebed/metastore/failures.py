"""What an error of the database means, told by codes and never by message text."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from lakebed.core.errors import InputError, LakebedError, MetastoreError, NoSpaceError

# Serialization failure, deadlock, lock timeout: the transaction is certainly undone and may be tried again.
_TRANSIENT_STATES = frozenset({"40001", "40P01", "55P03"})
_TRANSIENT_SQLITE = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
# The server went away under an open connection, or does not take one now.
_LOST_STATES = frozenset({"57P01", "57P02", "57P03", "25P03", "53300"})
_NO_SPACE = "53100"


def _sqlstate(error: DBAPIError) -> str | None:
    state: str | None = getattr(error.orig, "sqlstate", None)
    return state


def _sqlite_code(error: DBAPIError) -> int | None:
    """The primary result code: the low byte of what SQLite reports."""
    code: int | None = getattr(error.orig, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def is_transient(error: DBAPIError) -> bool:
    """The database undid the transaction and asks to try it again."""
    return _sqlstate(error) in _TRANSIENT_STATES or _sqlite_code(error) in _TRANSIENT_SQLITE


def is_lost(error: DBAPIError) -> bool:
    """The connection is gone, so what it was doing is undone, or not known if it was committing."""
    if error.connection_invalidated:
        return True
    state = _sqlstate(error)
    if state is None:
        # What has no code from the server is libpq's own: it could not connect, send or receive.
        return isinstance(error, OperationalError) and hasattr(error.orig, "sqlstate")
    return state in _LOST_STATES or state.startswith("08")


def is_no_space(error: DBAPIError) -> bool:
    """The database's disk is full."""
    return _sqlstate(error) == _NO_SPACE or _sqlite_code(error) == sqlite3.SQLITE_FULL


def unstorable(error: UnicodeEncodeError | OverflowError) -> InputError:
    """A value that a driver would not even send: half a surrogate pair, or a number of more than 64 bits."""
    return InputError("a text or a number cannot be stored in the metastore", found=str(error))


def translate(error: SQLAlchemyError, place: str) -> LakebedError:
    """The error as one of Lakebed's; ``place`` names the metastore without its password."""
    if isinstance(error, PoolTimeoutError):
        return MetastoreError(f"metastore {place}: no free connection", fix="use fewer threads at the same time")
    if not isinstance(error, DBAPIError):
        return MetastoreError(f"metastore {place}: {type(error).__name__}: {error}")
    reason = str(error.orig).strip().splitlines()
    found = reason[0] if reason else type(error.orig).__name__
    if is_no_space(error):
        return NoSpaceError(f"metastore {place}: the disk is full", found=found, fix="free space and try again")
    if is_lost(error):
        return MetastoreError(
            f"metastore {place} cannot be reached",
            found=found,
            fix="check that the server runs, and the host, port, user and password",
        )
    if is_transient(error):
        return MetastoreError(
            f"metastore {place} is busy: every retry met another transaction",
            found=found,
            fix="try again, or write with fewer processes at the same time",
        )
    code = _sqlite_code(error)
    if code == sqlite3.SQLITE_NOTADB:
        return MetastoreError(
            f"metastore {place} is not a SQLite database", found=found, fix="check the path, or move the file away"
        )
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return MetastoreError(
            f"metastore {place} cannot be opened for writing",
            found=found,
            fix="check that it is a file, and that you may write to it and its directory",
        )
    return MetastoreError(f"metastore {place}: the database refused a statement", found=found)
