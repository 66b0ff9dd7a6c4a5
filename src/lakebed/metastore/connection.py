"""One database: connections, transactions, bounded retries, and the outcome of a commit that was cut off."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from lakebed.core.errors import CommitUnknownError, MetastoreError
from lakebed.metastore.address import Address
from lakebed.metastore.failures import is_lost, is_transient, translate, unstorable

T = TypeVar("T")
Work = Callable[[Connection], T]

ATTEMPTS = 16
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.5
_BUSY_MS = 10_000
# A dead writer whose connection the server still holds must not block a table for ever.
_IDLE_MS = 60_000
_POSTGRES_ARGUMENTS = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}


class _CommitLostError(Exception):
    """The answer to COMMIT never came."""

    def __init__(self, error: DBAPIError) -> None:
        self.error = error


class Database:
    """Runs work in transactions. Safe to share between threads, and to carry over a fork.

    ``patience`` is for how many seconds a commit that was cut off tries to learn its outcome.
    """

    def __init__(self, address: Address, patience: float) -> None:
        self.address = address
        self.is_sqlite = address.is_sqlite
        self._patience = patience
        self._open()
        _databases.add(self)

    def __repr__(self) -> str:
        return f"Database({self.address})"

    def _open(self) -> None:
        if self.is_sqlite:
            self._engine = self._reader = self._single = _sqlite_engine(self.address, synchronous="FULL")
            self._relaxed = _sqlite_engine(self.address, synchronous="NORMAL")
        else:
            self._engine = self._relaxed = _postgres_engine(self.address)
            # Readers see one state over all their statements; with SQLite every transaction does.
            self._reader = self._engine.execution_options(isolation_level="REPEATABLE READ")
            # One statement is consistent by itself: no BEGIN and no ROLLBACK around it, each a round trip.
            self._single = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        # SQLite has one writer; threads queue here instead of polling its lock.
        self._writing: contextlib.AbstractContextManager[Any] = (
            threading.Lock() if self.is_sqlite else contextlib.nullcontext()
        )

    def after_fork(self) -> None:
        """In a child process: leave the parent's connections alone, since closing them would end its sessions."""
        _inherited.extend((self._engine, self._relaxed))
        self._open()

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()
        self._relaxed.dispose()

    def probe(self) -> None:
        """Connect once. Raises MetastoreError if the database cannot be reached.

        Only a busy one is tried again: SQLite does not wait while another process turns a new file to WAL.
        """
        failure: DBAPIError | None = None
        for pause in _pauses():
            try:
                with self._engine.connect():
                    return
            except SQLAlchemyError as error:
                if not isinstance(error, DBAPIError) or not is_transient(error):
                    raise translate(error, str(self.address)) from error
                failure = error
            time.sleep(pause)
        raise self._gave_up(failure)

    def read(self, work: Work[T], *, single: bool = False) -> T:
        """The result of ``work`` in one consistent read.

        ``single``: what ``work`` tells is right even if each of its statements sees a state of its own.
        """
        engine = self._single if single else self._reader
        failure: DBAPIError | None = None
        for pause in _pauses():
            try:
                with engine.connect() as connection:
                    return work(connection)
            except DBAPIError as error:
                if not (is_lost(error) or is_transient(error)):
                    raise translate(error, str(self.address)) from error
                failure = error
            except SQLAlchemyError as error:
                raise translate(error, str(self.address)) from error
            except (UnicodeEncodeError, OverflowError) as error:
                raise unstorable(error) from error
            time.sleep(pause)
        raise self._gave_up(failure)

    def write(self, work: Work[T], *, landed: Work[T | None] | None = None, what: str = "", durable: bool = True) -> T:
        """The result of ``work``, committed. ``work`` may run several times, each in a fresh transaction.

        When the answer to COMMIT is lost, ``landed`` is asked on a new connection: what it returns is the
        result, None means that nothing happened and ``work`` is run again. Raises CommitUnknownError, naming
        ``what``, when the database stays away. An IntegrityError is left to the caller, who knows the rule.
        What is not ``durable`` (with SQLite) does not wait for the disk.
        """
        failure: DBAPIError | None = None
        for pause in _pauses():
            try:
                return self._write_once(work, durable=durable)
            except _CommitLostError as lost:
                failure = lost.error
                found = self._outcome(landed, what, lost.error)
                if found is not None:
                    return found
            except IntegrityError:
                raise
            except DBAPIError as error:
                if not (is_lost(error) or is_transient(error)):
                    raise translate(error, str(self.address)) from error
                failure = error
            except SQLAlchemyError as error:
                raise translate(error, str(self.address)) from error
            except (UnicodeEncodeError, OverflowError) as error:
                raise unstorable(error) from error
            time.sleep(pause)
        raise self._gave_up(failure)

    def touch(self, work: Work[T]) -> T:
        """The result of ``work``, which changes one row in one statement and may run again without harm.

        It does not wait for the disk; a power cut may undo it, and nothing before it. With PostgreSQL the statement
        itself must say so.
        """
        if self.is_sqlite:
            return self.write(work, landed=lambda _connection: None, durable=False)
        return self.read(work, single=True)

    def _write_once(self, work: Work[T], *, durable: bool = True) -> T:
        engine = self._engine if durable else self._relaxed
        with self._writing, engine.connect() as connection:
            connection.execution_options(lakebed_write=True)
            transaction = connection.begin()
            result = work(connection)
            try:
                transaction.commit()
            except DBAPIError as error:
                if is_transient(error) or isinstance(error, IntegrityError):
                    raise
                raise _CommitLostError(error) from error
            return result

    def _outcome(self, landed: Work[T | None] | None, what: str, lost: DBAPIError) -> T | None:
        if landed is None:
            raise MetastoreError(
                f"metastore {self.address}: the connection was lost while committing",
                fix="look whether the change is there, and make it again if not",
            ) from lost
        deadline = time.monotonic() + self._patience
        for pause in _pauses(attempts=None):
            try:
                return self._write_once(landed)
            except (SQLAlchemyError, _CommitLostError) as error:
                # Whatever it is, even a refusal: a server that takes over may still be starting, and what was
                # not answered is not known.
                failure = error.error if isinstance(error, _CommitLostError) else error
                if time.monotonic() + pause > deadline:
                    break
            time.sleep(pause)
        raise CommitUnknownError(
            f"metastore {self.address}: the connection was lost while committing {what}, and within"
            f" {self._patience:g} s nobody could tell its outcome; it may have landed, so no file of it may be deleted",
            found=translate(failure, str(self.address)).what,
            fix="look for this commit id in the table's history when the server is back",
        ) from lost

    def _gave_up(self, failure: DBAPIError | None) -> Exception:
        assert failure is not None
        error = translate(failure, str(self.address))
        error.__cause__ = failure
        return error


_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_inherited: list[Engine] = []


def _after_fork() -> None:
    for database in list(_databases):
        database.after_fork()


os.register_at_fork(after_in_child=_after_fork)


def _pauses(attempts: int | None = ATTEMPTS) -> Iterator[float]:
    """Jittered, doubling pauses: one after each attempt; without end if ``attempts`` is None."""
    longest = _FIRST_PAUSE
    done = 0
    while attempts is None or done < attempts:
        yield random.uniform(longest / 2, longest)
        longest = min(longest * 2, _LONGEST_PAUSE)
        done += 1


def _sqlite_engine(address: Address, *, synchronous: str) -> Engine:
    engine = create_engine(
        address.url, hide_parameters=True, pool_size=8, max_overflow=56, connect_args={"timeout": _BUSY_MS / 1000}
    )

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        # Transactions are begun below: the driver would begin them too late, and never IMMEDIATE.
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", f"synchronous={synchronous}", "foreign_keys=ON", "cache_size=-32768"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        write = connection.get_execution_options().get("lakebed_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def _postgres_engine(address: Address) -> Engine:
    arguments = {key: value for key, value in _POSTGRES_ARGUMENTS.items() if key not in address.url.query}
    engine = create_engine(address.url, hide_parameters=True, pool_size=8, max_overflow=56, connect_args=arguments)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.execute(
            "SELECT set_config('lock_timeout', %s, false),"
            " set_config('idle_in_transaction_session_timeout', %s, false)",
            (str(_BUSY_MS), str(_IDLE_MS)),
        )
        connection.commit()

    return engine
