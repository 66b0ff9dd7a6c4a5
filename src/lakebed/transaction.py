"""Several tables, one atomic commit."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from lakebed.core.commit import Committed, Recompute
from lakebed.core.errors import ConflictError, InputError, NotFoundError
from lakebed.engine.compact_after import look_after
from lakebed.engine.draft import Draft, Handle
from lakebed.engine.land import cleaned_is_conflict, discard, land
from lakebed.engine.point import DraftPoint, ReadPoint
from lakebed.metastore import Metastore
from lakebed.writable import Writable


class TransactionTable(Writable[None]):
    """A table inside a transaction: it reads one fixed state plus the transaction's own changes."""

    def __init__(self, draft: Draft, check_open: Callable[[], None]) -> None:
        self._draft = draft
        self._check_open = check_open
        self._name = draft.handle.name
        self._store = draft.handle.store
        self._options = draft.handle.options
        self._distribution = draft.handle.distribution

    def __repr__(self) -> str:
        return f"<lakebed table {self.name} in a transaction>"

    def _point(self) -> ReadPoint:
        self._check_open()
        return DraftPoint(self._draft)

    def _change(self, operation: Callable[[Draft], object], *, repeatable: bool = True) -> None:
        self._check_open()
        self._draft.refuse_if_unwritable()
        with self._draft.all_or_nothing(), cleaned_is_conflict(self._draft):
            operation(self._draft)


class Transaction:
    """Changes of several tables that land together, or not at all.

    Use it as a context manager: leaving it normally commits, leaving it by an exception changes nothing. It belongs
    to one thread.
    ``versions`` then tells the version that each changed table got.

    >>> import lakebed, tempfile
    >>> lake = lakebed.connect(tempfile.mkdtemp())
    >>> orders, audit = lake.create_table("orders", "id BIGINT"), lake.create_table("audit", "note STRING")
    >>> with lake.transaction() as tx:
    ...     tx.table("orders").append([{"id": 1}])
    ...     tx.table("audit").append([{"note": "order 1"}])
    >>> tx.versions
    {'default.orders': 1, 'default.audit': 1}
    """

    def __init__(self, metastore: Metastore, find: Callable[[str], Handle]) -> None:
        self._metastore = metastore
        self._find = find
        self._heads = metastore.heads()
        self._drafts: dict[str, Draft] = {}
        self._open = True
        self.versions: dict[str, int] = {}

    def table(self, name: str) -> TransactionTable:
        """The table as this transaction sees it: as it was at the beginning, plus the transaction's own changes.

        Raises NotFoundError, also for a table that was created later.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> outside = lake.create_table("a", "id BIGINT")
        >>> with lake.transaction() as tx:
        ...     tx.table("a").append([{"id": 1}])
        ...     tx.table("a").count(), outside.count()
        (1, 0)
        """
        self._check_open()
        handle = self._find(name)
        if handle.table_id not in self._drafts:
            if handle.table_id not in self._heads:
                raise NotFoundError(
                    f"table {handle.name} was created after this transaction began", fix="begin a new transaction"
                )
            base = self._metastore.state(handle.table_id, self._heads[handle.table_id])
            self._drafts[handle.table_id] = Draft(handle, base)
        return TransactionTable(self._drafts[handle.table_id], self._check_open)

    def _check_open(self) -> None:
        if not self._open:
            raise InputError("this transaction has ended", fix="begin a new one with lake.transaction()")

    def commit(self) -> dict[str, int]:
        """Land all changes now; returns the new version of each changed table. Raises ConflictError.

        A ``with`` block does this by itself at its end.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> _ = lake.create_table("a", "id BIGINT")
        >>> tx = lake.transaction()
        >>> tx.table("a").append([{"id": 1}])
        >>> tx.commit()
        {'default.a': 1}
        """
        self._check_open()
        self._open = False
        changed = [draft for draft in self._drafts.values() if draft.claims]
        done = land(changed)
        if isinstance(done, Recompute):
            raise ConflictError(
                f"table {done.table_name}: files that this transaction read have been replaced meanwhile, by "
                "maintenance or by an upsert that packed them",
                fix="nothing was changed; run the transaction again",
            )
        self.versions = dict(zip((d.handle.name for d in changed), map(_version, done), strict=True))
        for draft in changed:
            look_after(draft)
        return self.versions

    def rollback(self) -> None:
        """Forget all changes; the files that were written for them are deleted.

        A ``with`` block does this by itself when an exception leaves it.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> table = lake.create_table("a", "id BIGINT")
        >>> tx = lake.transaction()
        >>> tx.table("a").append([{"id": 1}])
        >>> tx.rollback()
        >>> table.version, table.count()
        (0, 0)
        """
        if self._open:
            self._open = False
            discard(list(self._drafts.values()))

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.rollback()
        elif self._open:
            self.commit()


def _version(done: Committed) -> int:
    return done.version
