"""The methods that put rows into a table, shared by tables and by tables inside a transaction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Any, Generic, TypeVar

from lakebed.core.actions import SetTransaction
from lakebed.core.errors import AlreadyExistsError, InputError
from lakebed.core.predicate import parse
from lakebed.engine.distribution import is_frame, not_distributed
from lakebed.engine.draft import Draft
from lakebed.engine.fit import fitted
from lakebed.engine.incoming import ArrowRows, Incoming, Mergeable
from lakebed.engine.inputs import is_repeatable, to_reader
from lakebed.engine.overwrite import append, overwrite_all, overwrite_nothing, overwrite_partitions, overwrite_where
from lakebed.engine.upsert import upsert
from lakebed.records import column_names
from lakebed.view import Readable

Result = TypeVar("Result")
Txn = tuple[str, int]
"""An application's id and its own, growing, version: a write is done once for each."""
MODES = ("append", "upsert", "overwrite", "dynamic", "ignore", "error")


class RowWriting(Readable, Generic[Result]):
    """A table that takes rows. What the methods return depends on when the change is committed."""

    @abstractmethod
    def _change(self, operation: Callable[[Draft], object], *, repeatable: bool = True) -> Result:
        """Run ``operation`` on a draft of this table; ``repeatable`` if it may be run again on a newer version."""

    def append(
        self, data: Any, *, merge_schema: bool = False, explicit_cast: bool = False, txn: Txn | None = None
    ) -> Result:
        """Add rows. In a table with a primary key this is an upsert: a key has one row.

        ``data`` is a Spark, pandas or polars DataFrame, a pyarrow Table, RecordBatch or reader, a list of dicts or
        anything with the Arrow C stream interface. Columns are matched by name; missing nullable columns become
        null. ``merge_schema`` adds columns that the table lacks, nested ones too, and widens types;
        ``explicit_cast`` casts values to the table's types, and fails at those that have no place there. Raises
        DataError that lists every problem; nothing is written then.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("n", "n BIGINT")
        >>> t.append([{"n": 1}]).version
        1
        """

        def run(draft: Draft) -> None:
            once(draft, txn)
            append(draft, _fitted(data, draft, merge_schema, explicit_cast))

        return self._change(run, repeatable=is_repeatable(data))

    def upsert(
        self,
        data: Any,
        *,
        row_kind: str | None = None,
        sort_by: str | Iterable[str] = (),
        merge_schema: bool = False,
        explicit_cast: bool = False,
        txn: Txn | None = None,
    ) -> Result:
        """Put rows by primary key: new keys are added, rows of known keys replaced, or merged by the merge engine.

        Of several rows with one key the one with the highest sequence counts, else the last. ``row_kind`` names a
        column that says what each row does: ``+I``, ``+U``, ``-U``, ``-D``, or ``insert``, ``update``, ``delete``;
        it is stored only if the table has such a column. ``sort_by`` names columns that order rows of one key and
        sequence; they too need not be stored. Upserts of several writers never conflict. The rest is as for
        ``append``.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("users", "id BIGINT, name STRING", primary_key=["id"], buckets=2)
        >>> _ = t.upsert([{"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}])
        >>> _ = t.upsert([{"id": 2, "name": "bert", "op": "+U"}, {"id": 1, "op": "-D"}], row_kind="op")
        >>> t.to_arrow().to_pylist()
        [{'id': 2, 'name': 'bert'}]
        """
        if row_kind == "" or (row_kind is not None and not isinstance(row_kind, str)):
            raise InputError("row_kind= is the name of a column", found=repr(row_kind))
        order = column_names(sort_by, "sort_by=")

        def run(draft: Draft) -> None:
            once(draft, txn)
            beside = order if row_kind is None else (*order, row_kind)
            rows = _fitted(data, draft, merge_schema, explicit_cast, beside)
            upsert(draft, rows, row_kind=row_kind, sort_by=order)

        return self._change(run, repeatable=is_repeatable(data))

    def overwrite(
        self,
        data: Any,
        where: Any = None,
        *,
        merge_schema: bool = False,
        explicit_cast: bool = False,
        txn: Txn | None = None,
    ) -> Result:
        """Replace rows: all, those of a predicate, or (``where="dynamic"``) the partitions that ``data`` is in.

        With a predicate every new row must satisfy it. The rest is as for ``append``.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("sales", "dt STRING, n BIGINT", partition_by=["dt"])
        >>> _ = t.append([{"dt": "mon", "n": 1}, {"dt": "tue", "n": 2}])
        >>> _ = t.overwrite([{"dt": "tue", "n": 5}], where="dt = 'tue'")
        >>> sorted(t.to_arrow()["n"].to_pylist())
        [1, 5]
        """

        def run(draft: Draft) -> None:
            once(draft, txn)
            rows = _fitted(data, draft, merge_schema, explicit_cast)
            if where is None:
                overwrite_all(draft, rows)
            elif isinstance(where, str) and where.strip().lower() == "dynamic":
                overwrite_partitions(draft, rows)
            else:
                overwrite_where(draft, rows, parse(where, draft.metadata.schema))

        return self._change(run, repeatable=is_repeatable(data))

    def write(
        self,
        data: Any,
        mode: str = "append",
        *,
        where: Any = None,
        merge_schema: bool = False,
        explicit_cast: bool = False,
        txn: Txn | None = None,
    ) -> Result | None:
        """Put rows into the table in one of Spark's save modes.

        ``"append"`` and ``"upsert"`` are the methods of that name. ``"overwrite"`` replaces all rows, or those of the
        predicate ``where``; ``"dynamic"``, or ``"overwrite"`` of a Spark DataFrame whose session has
        ``spark.sql.sources.partitionOverwriteMode=dynamic``, only the partitions that the rows are in. ``"ignore"``
        does nothing and returns None, and ``"error"`` raises AlreadyExistsError, if the table has any row.

        >>> import lakebed, tempfile
        >>> t = lakebed.connect(tempfile.mkdtemp()).create_table("n", "n BIGINT")
        >>> t.write([{"n": 1}], "error").version
        1
        >>> t.write([{"n": 2}], "ignore") is None
        True
        >>> t.write([{"n": 3}], "overwrite").version, t.to_arrow()["n"].to_pylist()
        (2, [3])
        """
        chosen = str(mode).strip().lower()
        chosen = "error" if chosen in ("errorifexists", "default") else chosen
        if chosen not in MODES:
            raise InputError("there is no such save mode", expected="one of " + ", ".join(MODES), found=repr(mode))
        if where is not None and chosen != "overwrite":
            raise InputError("where= says what an overwrite replaces", expected="mode 'overwrite'", found=repr(mode))
        how: dict[str, Any] = {"merge_schema": merge_schema, "explicit_cast": explicit_cast, "txn": txn}
        if chosen == "upsert":
            return self.upsert(data, **how)
        if chosen == "append":
            return self.append(data, **how)
        if chosen in ("ignore", "error"):
            return self._begin(data, chosen, **how)
        by_partition = chosen == "dynamic" or (where is None and self._replaces_partitions(data))
        return self.overwrite(data, "dynamic" if by_partition else where, **how)

    def _begin(
        self, data: Any, mode: str, *, merge_schema: bool, explicit_cast: bool, txn: Txn | None
    ) -> Result | None:
        """Write the first rows of a table; another writer that is first makes a conflict."""

        def run(draft: Draft) -> None:
            once(draft, txn)
            overwrite_nothing(draft)
            overwrite_all(draft, _fitted(data, draft, merge_schema, explicit_cast))

        try:
            return self._change(run, repeatable=is_repeatable(data))
        except AlreadyExistsError:
            if mode == "ignore":
                return None
            raise

    def _replaces_partitions(self, data: Any) -> bool:
        """Whether the rows come from where an overwrite replaces partitions only; a table without any has no choice."""
        if not is_frame(data) or self._distribution is None or not self._point().metadata.partition_columns:
            return False
        return self._distribution.rows(data).replaces_partitions


def _fitted(data: Any, draft: Draft, merge_schema: bool, explicit_cast: bool, beside: Collection[str] = ()) -> Incoming:
    rows = rows_of(data, draft)
    return fitted(draft, rows, merge_schema=merge_schema, explicit_cast=explicit_cast, beside=beside)


def rows_of(data: Any, draft: Draft) -> Mergeable:
    """What a caller has passed, as rows that can be written. Raises InputError for what has none."""
    if is_frame(data):
        if draft.handle.distribution is None:
            raise not_distributed(draft.handle.name)
        return draft.handle.distribution.rows(data)
    return ArrowRows(to_reader(data, draft.metadata.schema, draft.handle.name))


def once(draft: Draft, txn: Any) -> None:
    """Let the draft land once for an application's transaction. Raises InputError for one that is none."""
    if txn is None:
        return
    app_id, version = txn if isinstance(txn, tuple) and len(txn) == 2 else ("", -1)
    if not _is_text(app_id) or type(version) is not int or not 0 <= version < 2**63:
        raise InputError(
            "txn= names an application and its own version of the write",
            expected="text and a whole number from 0, like ('loader', 7)",
            found=repr(txn),
        )
    earlier = draft.transactions.get(app_id)
    if earlier is None or earlier.version < version:  # as in the log, the newest counts
        draft.transactions[app_id] = SetTransaction(app_id, version)


def _is_text(value: object) -> bool:
    """Whether it can be stored as text; half of a surrogate pair cannot."""
    return isinstance(value, str) and value != "" and value == value.encode("utf-8", "ignore").decode()
