"""The warehouse: namespaces and tables under one root, one metastore."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol

from lakebed.config import Config
from lakebed.copying import FileLoading
from lakebed.core.commit import Claim, Kind, PreparedCommit
from lakebed.core.errors import AlreadyExistsError, ConflictError, InputError
from lakebed.core.key_definition import KeyDefinition
from lakebed.core.location import Location
from lakebed.core.names import TableName, check_name
from lakebed.core.properties import named
from lakebed.core.schema_of import schema_of
from lakebed.core.table_definition import TableDefinition
from lakebed.delta.features import table_protocol
from lakebed.engine.distribution import Distribution
from lakebed.engine.draft import Draft, Handle
from lakebed.engine.imports import import_log
from lakebed.engine.inputs import is_repeatable
from lakebed.engine.lease import end_pending
from lakebed.engine.publication import follow, publish_versions
from lakebed.engine.replace import replace_table
from lakebed.engine.user import user_name
from lakebed.maintaining import Maintaining
from lakebed.metastore import Metastore, open_metastore
from lakebed.records import column_names, comment_text
from lakebed.storage.store import Store, open_store
from lakebed.table import Table
from lakebed.transaction import Transaction
from lakebed.writing import rows_of

_LEASES_SECONDS = 2.0


class StatementRunner(Protocol):
    """Runs SQL on a warehouse; the layer above fills it in."""

    def __call__(self, lake: Warehouse, text: str, parameters: Mapping[str, Any]) -> Any:
        """Rows: a DataFrame where the warehouse knows a Spark session, else an Arrow table."""


class Warehouse(FileLoading, Maintaining):
    """A root directory or bucket with its metastore; get one from ``lakebed.connect``.

    Close it when done, or use it as a context manager.
    """

    def __init__(
        self,
        config: Config,
        distribution: Distribution | None = None,
        statements: StatementRunner | None = None,
        *,
        create: bool = True,
    ) -> None:
        self._config = config
        self._statements = statements
        self._options = config.options
        self._root = Location.parse(config.warehouse, default_fs=config.options.default_fs)
        self._metastore: Metastore = open_metastore(config.metastore_url, create=create)
        self._distribution = distribution

    def __repr__(self) -> str:
        return f"<lakebed warehouse {self._root.uri}>"

    def __enter__(self) -> Warehouse:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the metastore's connections; a ``with`` block does it by itself.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> lake.close()
        """
        # A lease that ended later would open the metastore again, and make an empty one where the warehouse has been
        # moved away. A server that does not answer keeps nobody for long.
        end_pending(_LEASES_SECONDS)
        self._metastore.close()

    @property
    def location(self) -> str:
        """The URI of the root."""
        return self._root.uri

    @property
    def spark(self) -> Any:
        """The Spark session that ``connect`` was given; None without one."""
        return None if self._distribution is None else self._distribution.session

    def create_namespace(
        self, name: str, properties: Mapping[str, str] | None = None, *, if_not_exists: bool = False
    ) -> None:
        """Make a namespace for tables. Raises AlreadyExistsError.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> lake.create_namespace("shop", {"owner": "ann"})
        >>> lake.namespaces()
        ['default', 'shop']
        """
        given = dict(named(properties or {}))
        if not all(isinstance(text, str) for pair in given.items() for text in pair):
            raise InputError(f"namespace {name}: properties are text", expected="{'owner': 'ann'}", found=repr(given))
        self._metastore.create_namespace(check_name(name, "namespace"), given, if_not_exists=if_not_exists)

    def namespaces(self) -> list[str]:
        """The names of all namespaces, sorted.

        >>> import lakebed, tempfile
        >>> lakebed.connect(tempfile.mkdtemp()).namespaces()
        ['default']
        """
        return list(self._metastore.namespaces())

    def namespace_properties(self, name: str) -> dict[str, str]:
        """The properties of a namespace. Raises NotFoundError.

        >>> import lakebed, tempfile
        >>> lakebed.connect(tempfile.mkdtemp()).namespace_properties("default")
        {}
        """
        return dict(self._metastore.namespace(name).properties)

    def alter_namespace(self, name: str, properties: Mapping[str, str | None]) -> None:
        """Set properties of a namespace; a value of None removes one. Raises NotFoundError.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> lake.alter_namespace("default", {"owner": "ann"}); lake.namespace_properties("default")
        {'owner': 'ann'}
        """
        given = dict(named(properties))
        if not all(value is None or isinstance(value, str) for value in given.values()):
            raise InputError(f"namespace {name}: properties are text", expected="{'owner': 'ann'}", found=repr(given))
        self._metastore.set_namespace_properties(name, given)

    def drop_namespace(self, name: str) -> None:
        """Remove an empty namespace. Raises InputError, listing its tables, while there are any.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> lake.create_namespace("old"); lake.drop_namespace("old"); lake.namespaces()
        ['default']
        """
        self._metastore.drop_namespace(name)

    def create_table(  # noqa: PLR0913 - the names are a contract
        self,
        name: str,
        schema: Any,
        *,
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        buckets: int | str | None = None,
        merge: str | None = None,
        merge_engine: str | None = None,
        sequence: Sequence[str] = (),
        properties: Mapping[str, object] | None = None,
        comment: str | None = None,
        location: str | os.PathLike[str] | None = None,
    ) -> Table:
        """Make an empty table. ``schema`` is an Arrow or Spark schema, or SQL text.

        With ``primary_key`` the table takes upserts: ``buckets`` is a number, ``"dynamic"`` (the default) or
        ``"postpone"``; ``merge`` says when an upsert is settled (``"on-write"``, ``"on-read"``,
        ``"copy-on-write"``); ``merge_engine`` how rows of one key become one (``"deduplicate"``, ``"first-row"``,
        ``"partial-update"``, ``"aggregation"``); ``sequence`` names the columns that order them.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("events", "id BIGINT NOT NULL, dt DATE", partition_by=["dt"])
        >>> t.name, t.version
        ('default.events', 0)
        >>> lake.create_table("users", "id BIGINT, name STRING", primary_key=["id"], buckets=4).primary_key
        ('id',)
        """
        definition = _definition(
            name,
            schema,
            KeyDefinition(
                column_names(primary_key, "primary_key="),
                buckets,
                merge,
                merge_engine,
                column_names(sequence, "sequence="),
            ),
            partition_by,
            properties,
            comment,
        )
        table_name, metadata = definition.name, definition.metadata()
        place = self._place(table_name, location)
        store = open_store(place, self._options)
        self._refuse_taken(table_name, store)
        first = PreparedCommit(
            table_id=metadata.id,
            table_name=str(table_name),
            commit_id=str(uuid.uuid4()),
            read_version=-1,
            claims=(Claim(Kind.CREATE),),
            actions=(table_protocol(metadata.schema, metadata.configuration, metadata.partition_columns), metadata),
            info={
                "userName": user_name(),
                "operationParameters": {"partitionBy": json.dumps(list(metadata.partition_columns))},
            },
        )
        self._metastore.namespace(table_name.namespace)  # before a directory is made
        store.make_dir("_delta_log")
        self._metastore.create_table(table_name.namespace, table_name.name, place.uri, first)
        handle = self._handle_of(metadata.id, table_name, store)
        follow(handle)
        return Table(handle)

    def replace_table(  # noqa: PLR0913 - the names are those of create_table
        self,
        name: str,
        schema: Any,
        data: Any = None,
        *,
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        buckets: int | str | None = None,
        merge: str | None = None,
        merge_engine: str | None = None,
        sequence: Sequence[str] = (),
        properties: Mapping[str, object] | None = None,
        comment: str | None = None,
    ) -> Table:
        """Make a table what ``create_table`` would make, with the rows of ``data``, as one new version of it.

        What it was before stays readable as its history. Raises NotFoundError if there is no such table.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("n", "n BIGINT")
        >>> _ = t.append([{"n": 1}])
        >>> t = lake.replace_table("n", "name STRING", [{"name": "ann"}])
        >>> t.to_arrow().to_pylist(), t.at(version=1).to_arrow().to_pylist()
        ([{'name': 'ann'}], [{'n': 1}])
        """
        key = KeyDefinition(
            column_names(primary_key, "primary_key="), buckets, merge, merge_engine, column_names(sequence, "sequence=")
        )
        definition = _definition(name, schema, key, partition_by, properties, comment)
        table = self.table(name)

        def run(draft: Draft) -> None:
            replace_table(draft, definition, lambda: None if data is None else rows_of(data, draft))

        table._change(run, repeatable=data is None or is_repeatable(data))
        return table

    def _place(self, name: TableName, location: str | os.PathLike[str] | None) -> Location:
        if location is None:
            return self._root.child(f"{name.namespace}/{name.name}")
        return Location.parse(location, default_fs=self._options.default_fs)

    def _place_of(self, name: str) -> str:
        """Where a table of that name is, unless its location was given."""
        return self._place(TableName.parse(name), None).uri

    def _refuse_taken(self, name: TableName, store: Store) -> None:
        """Raise if the place is another table's; the metastore decides about names and places once more."""
        place = store.location
        if place == self._root or _is_inside(self._root, place):
            raise InputError(f"table {name} cannot be at {place}: the warehouse itself is there")
        if _has_log(store):
            raise self._taken(name, place)
        stranger = next(iter(store.list()), None)
        if stranger is not None:
            raise AlreadyExistsError(
                f"table {name}: {place} is not empty", found=stranger.path, fix="empty it first, or " + _OTHER_PLACE
            )
        above = place.parent
        while _is_inside(above, self._root):
            if _has_log(open_store(above, self._options)):
                raise AlreadyExistsError(f"table {name}: {place} is inside the table at {above}", fix=_OTHER_PLACE)
            above = above.parent

    def _taken(self, name: TableName, place: Location) -> AlreadyExistsError:
        for record in self._metastore.tables(name.namespace):
            if record.name == name.name:
                return AlreadyExistsError(f"table {name} exists already", fix="choose another name, or drop it first")
            if record.location == place.uri:
                owner = f"{record.namespace}.{record.name}"
                return AlreadyExistsError(f"table {name}: table {owner} is at {place}", fix=_OTHER_PLACE)
        return AlreadyExistsError(
            f"table {name}: there is a Delta table at {place} already",
            fix="take it in with lake.register(name, path), delete it, or pass another location=",
        )

    def _handle_of(self, table_id: str, name: TableName, store: Store) -> Handle:
        return Handle(table_id, str(name), self._metastore, store, self._options, self._distribution)

    def _find(self, name: str) -> Handle:
        table_name = TableName.parse(name)
        record = self._metastore.table(table_name.namespace, table_name.name)
        store = open_store(Location.parse(record.location), self._options)
        return self._handle_of(record.table_id, table_name, store)

    def _target(self, name: str) -> Table:
        return self.table(name)

    def table(self, name: str) -> Table:
        """The table of that name. Raises NotFoundError with the nearest name.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> _ = lake.create_table("orders", "id BIGINT")
        >>> lake.table("orders")
        <lakebed table default.orders>
        """
        return Table(self._find(name))

    def table_at(self, location: str | os.PathLike[str]) -> Table | None:
        """The table whose directory that is; None if it is no table's of this warehouse.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> orders = lake.create_table("orders", "id BIGINT")
        >>> lake.table_at(orders.location), lake.table_at("/tmp")
        (<lakebed table default.orders>, None)
        """
        place = Location.parse(location, default_fs=self._options.default_fs)
        for namespace in self._metastore.namespaces():
            for record in self._metastore.tables(namespace):
                if record.location == place.uri:
                    return self.table(f"{record.namespace}.{record.name}")
        return None

    def tables(self, namespace: str = "default") -> list[str]:
        """The full names of a namespace's tables, sorted. Raises NotFoundError.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> _ = lake.create_table("orders", "id BIGINT")
        >>> lake.tables()
        ['default.orders']
        """
        return [f"{record.namespace}.{record.name}" for record in self._metastore.tables(namespace)]

    def rename_table(self, old: str, new: str) -> None:
        """Give a table another name; its files stay where they are. The new name becomes part of its next version.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> _ = lake.create_table("a", "id BIGINT")
        >>> lake.rename_table("a", "b"); lake.tables()
        ['default.b']
        """
        before, after = TableName.parse(old), TableName.parse(new)
        found = self._find(old)
        if before == after:
            return
        Draft(found, self._metastore.state(found.table_id)).refuse_if_unwritable()  # the name is written too
        self._metastore.rename_table(before.namespace, before.name, after.namespace, after.name)
        self.table(new)._tell_name()

    def drop_table(self, name: str, *, purge: bool = False) -> None:
        """Forget a table; with ``purge`` its files are deleted too, otherwise they stay a valid Delta table.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> _ = lake.create_table("a", "id BIGINT")
        >>> lake.drop_table("a", purge=True); lake.tables()
        []
        """
        handle = self._find(name)
        table_name = TableName.parse(name)
        if purge:
            self._metastore.drop_table(table_name.namespace, table_name.name)
            handle.store.delete_dir("")
            return
        for _ in range(self._options.commit_retries + 1):
            publish_versions(handle)
            if self._metastore.drop_table(table_name.namespace, table_name.name, only_published=True) is not None:
                return
        raise ConflictError(
            f"table {table_name}: others kept committing, so that the open log was never complete",
            fix="the table was not dropped; stop its writers, or pass purge=True",
        )

    def register(self, name: str, path: str | os.PathLike[str]) -> Table:
        """Take in an existing Delta table where it lies; its history becomes the table's history.

        Raises NotFoundError if there is no Delta table, UnsupportedFeatureError for features unknown to Lakebed.

        >>> import lakebed, tempfile
        >>> root = tempfile.mkdtemp()
        >>> lake = lakebed.connect(root)
        >>> t = lake.create_table("a", "id BIGINT")
        >>> lake.drop_table("a")
        >>> lake.register("b", t.location).version
        0
        """
        return self._take_in(TableName.parse(name), Location.parse(path, default_fs=self._options.default_fs))

    def recover(self, path: str | os.PathLike[str], name: str | None = None) -> Table:
        """Rebuild the metastore's rows of a table from its open log alone; the log names the table.

        Its namespace is made if it is not there. Tags are not in the log: make them again. Raises
        AlreadyExistsError while the metastore still knows a table at that place.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("a", "id BIGINT")
        >>> lake.drop_table("a")
        >>> lake.recover(t.location).name
        'default.a'
        """
        place = Location.parse(path, default_fs=self._options.default_fs)
        return self._take_in(None if name is None else TableName.parse(name), place, make_namespace=True)

    def _take_in(self, name: TableName | None, place: Location, *, make_namespace: bool = False) -> Table:
        store = open_store(place, self._options)
        found = import_log(self._metastore, store, name, make_namespace=make_namespace)
        return Table(self._handle_of(found.table_id, found.name, store))

    def sql(self, statement: str, /, **parameters: Any) -> Any:
        """Run one SQL statement, in Spark's dialect: queries, DDL, DML and CALL.

        ``parameters`` are bound to names like ``:limit`` as values, never as text. The result is an Arrow table; if
        the warehouse knows a Spark session, a DataFrame, and what is not about tables of the warehouse goes to Spark
        as it is. Without Spark, SELECT runs on duckdb or polars. Raises SqlError that points at the place in the
        statement.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> _ = lake.sql("CREATE TABLE users (id BIGINT, name STRING, PRIMARY KEY (id))")
        >>> _ = lake.table("users").upsert([{"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}])
        >>> lake.sql("SELECT name FROM users WHERE id > :least", least=1).to_pylist()
        [{'name': 'bob'}]
        """
        if self._statements is None:
            raise InputError("this warehouse was not opened for SQL", fix="open it with lakebed.connect(…)")
        return self._statements(self, statement, parameters)

    def transaction(self) -> Transaction:
        """Begin a transaction over several tables; see ``Transaction``.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> _ = lake.create_table("a", "id BIGINT")
        >>> with lake.transaction() as tx:
        ...     tx.table("a").append([{"id": 1}])
        >>> tx.versions
        {'default.a': 1}
        """
        return Transaction(self._metastore, self._find)


def _definition(
    name: str,
    schema: Any,
    key: KeyDefinition,
    partition_by: Sequence[str],
    properties: Mapping[str, object] | None,
    comment: str | None,
) -> TableDefinition:
    return TableDefinition(
        TableName.parse(name),
        schema_of(schema),
        column_names(partition_by, "partition_by="),
        key,
        properties or {},
        comment_text(comment),
    )


_OTHER_PLACE = "pass another location=, or leave it out"


def _is_inside(inner: Location, outer: Location) -> bool:
    same = (inner.scheme, inner.authority) == (outer.scheme, outer.authority)
    return same and inner != outer and inner.path.startswith(outer.path.rstrip("/") + "/")


def _has_log(store: Store) -> bool:
    return next(iter(store.list("_delta_log", recursive=False)), None) is not None
