"""Reading a table at one version: the methods that every kind of table object shares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from lakebed.core.actions import Metadata
from lakebed.core.errors import InputError, LakebedError
from lakebed.core.keyed import KeySpec
from lakebed.core.options import Options
from lakebed.core.predicate import Node, parse
from lakebed.core.properties import to_properties
from lakebed.core.schema_arrow import to_arrow
from lakebed.core.suggest import did_you_mean
from lakebed.engine.distribution import (
    AUTO,
    ENGINES,
    METADATA_COLUMNS,
    Distribution,
    FrameOrder,
    not_distributed,
)
from lakebed.engine.lease import Lease, held, stream
from lakebed.engine.point import ReadPoint, SettledPoint
from lakebed.engine.scan import ScanOrder, scan
from lakebed.engine.source import Sources
from lakebed.records import column_names
from lakebed.storage.store import Store

if TYPE_CHECKING:
    import pandas
    import polars
    import pyspark.sql

Result = TypeVar("Result")


class Readable(ABC):
    """Anything whose rows can be read. ``columns`` and ``where`` limit what is read.

    ``where`` is SQL text (``"amount < 0 and dt = '2026-11-15'"``) or a pyarrow expression. A comparison with null is
    neither true nor false, in both, and a row comes out only if the predicate is true for it. An expression keeps
    the meaning that Arrow gives it: ``isin`` is false for null, where SQL's ``IN`` is unknown.
    """

    _name: str
    _store: Store
    _options: Options
    _distribution: Distribution | None = None

    @abstractmethod
    def _point(self) -> ReadPoint:
        """The state that is read now."""

    @property
    def name(self) -> str:
        """The full name, like ``shop.orders``."""
        return self._name

    @property
    def version(self) -> int:
        """The version number that is read now."""
        return self._point().version

    @property
    def schema(self) -> pa.Schema:
        """The columns, as an Arrow schema."""
        return to_arrow(self._point().metadata.schema)

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The partition columns, in order."""
        return self._point().metadata.partition_columns

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns of the primary key; empty for a table without one."""
        key = KeySpec.of(self._point().metadata)
        return () if key is None else key.key

    @property
    def key(self) -> KeySpec | None:
        """The primary key with its buckets, merge engine and sequence; None for a table without one."""
        return KeySpec.of(self._point().metadata)

    @property
    def properties(self) -> dict[str, str]:
        """The table properties that were set."""
        return to_properties(self._point().metadata.configuration)

    @property
    def comment(self) -> str | None:
        """What a person said of the table."""
        return self._point().metadata.description

    def to_arrow(self, columns: Sequence[str] | None = None, where: Any = None) -> pa.Table:
        """All qualifying rows as one Arrow table.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("prices", "item STRING, price DOUBLE")
        >>> _ = t.append([{"item": "tea", "price": 2.5}, {"item": "ink", "price": 7.0}])
        >>> t.to_arrow(columns=["item"], where="price > 5").to_pylist()
        [{'item': 'ink'}]
        """
        from lakebed.engine.frames import read_rows

        return self._read(lambda point: read_rows(*self._scan(point, columns, where)))

    def to_batches(self, columns: Sequence[str] | None = None, where: Any = None) -> Iterator[pa.RecordBatch]:
        """All qualifying rows as a stream of Arrow batches; memory stays bounded however large the table.

        The version that is read stays readable, whatever expires meanwhile, until the stream has ended or is dropped.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("n", "n BIGINT")
        >>> _ = t.append([{"n": 1}, {"n": 2}])
        >>> sum(batch.num_rows for batch in t.to_batches())
        2
        """
        point, lease = self._leased()
        try:
            return stream(scan(*self._scan(point, columns, where)), lease)
        except BaseException:
            if lease is not None:
                lease.end()
            raise

    def to_polars(self, columns: Sequence[str] | None = None, where: Any = None) -> polars.DataFrame:
        """All qualifying rows as a polars DataFrame.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("n", "n BIGINT")
        >>> _ = t.append([{"n": 1}])
        >>> t.to_polars()["n"].to_list()
        [1]
        """
        from lakebed.engine.frames import read_frame

        return self._read(lambda point: read_frame(*self._scan(point, columns, where)))

    def to_pandas(self, columns: Sequence[str] | None = None, where: Any = None) -> pandas.DataFrame:
        """All qualifying rows as a pandas DataFrame; pandas must be installed.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("n", "n BIGINT")
        >>> _ = t.append([{"n": 1}])
        >>> t.to_pandas().shape
        (1, 1)
        """
        try:
            import pandas  # noqa: F401 - to_pandas below needs it
        except ImportError as error:
            raise LakebedError("pandas is not installed", fix="pip install 'pandas<3'") from error
        frame: pandas.DataFrame = self.to_arrow(columns, where).to_pandas()
        return frame

    def df(
        self,
        columns: Sequence[str] | None = None,
        where: Any = None,
        *,
        metadata_columns: Sequence[str] = (),
        engine: str = AUTO,
    ) -> pyspark.sql.DataFrame:
        """All qualifying rows as a Spark DataFrame, fixed to the version that is read now.

        ``columns`` and ``where`` keep Spark away from files that are not needed; what is asked of the DataFrame
        later is limited by Spark itself. ``metadata_columns`` are some of ``_file``, ``_row_index``,
        ``_commit_version``, ``_bucket`` and ``_partition``. ``engine`` is ``"native"`` (Spark reads the Parquet files),
        ``"arrow"`` (Lakebed reads them, in tasks of Spark) or ``"auto"``; ``explain`` tells which and why.
        The version stays readable for an hour, whatever expires meanwhile. Raises LakebedError if the warehouse was
        opened without Spark.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp(), spark=spark)  # doctest: +SKIP
        >>> t = lake.create_table("n", "n BIGINT")  # doctest: +SKIP
        >>> _ = t.append([{"n": 1}, {"n": 2}])  # doctest: +SKIP
        >>> t.df(where="n > 1").collect()  # doctest: +SKIP
        [Row(n=2)]
        """
        cluster = self._cluster()

        def make(point: ReadPoint) -> Any:
            point.promise()
            return cluster.frame(self._frame_order(point, columns, where, metadata_columns, engine))

        frame: pyspark.sql.DataFrame = self._read(make)
        return frame

    def explain(
        self,
        columns: Sequence[str] | None = None,
        where: Any = None,
        *,
        metadata_columns: Sequence[str] = (),
        engine: str = AUTO,
    ) -> str:
        """How ``df`` with the same arguments is read, and why.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp(), spark=spark)  # doctest: +SKIP
        >>> t = lake.create_table("n", "n BIGINT")  # doctest: +SKIP
        >>> _ = t.append([{"n": 1}, {"n": 2}])  # doctest: +SKIP
        >>> print(t.explain())  # doctest: +SKIP
        table default.n at version 1: Spark reads Parquet itself
        native scan of 1 file(s), 0 of them with dead rows, as bitmaps of up to 0 bytes
        """
        cluster = self._cluster()
        return self._read(
            lambda point: cluster.explain(self._frame_order(point, columns, where, metadata_columns, engine))
        )

    def _described(self, columns: Sequence[str] | None, where: Any, facts: Sequence[str]) -> pa.Table:
        """What ``to_arrow`` gives, and facts of each row, as in ``df``."""
        from lakebed.engine.described_scan import described, described_schema

        def read(point: ReadPoint) -> pa.Table:
            order, sources = self._scan(point, columns, where)
            return pa.Table.from_batches(described(order, sources, facts), described_schema(order, facts))

        return self._read(read)

    def _cluster(self) -> Distribution:
        if self._distribution is None:
            raise not_distributed(self._name)
        return self._distribution

    def _frame_order(
        self, point: ReadPoint, columns: Sequence[str] | None, where: Any, facts: Sequence[str], engine: str
    ) -> FrameOrder:
        names = column_names(facts, "metadata_columns=")
        if set(names) - set(METADATA_COLUMNS) or len(set(names)) < len(names):
            raise InputError(
                f"table {self._name}: metadata_columns= names each once",
                expected=f"some of {', '.join(METADATA_COLUMNS)}",
                found=", ".join(map(repr, names)),
            )
        taken = [name for name in names if point.metadata.schema.find(name) is not None]
        if taken:
            raise InputError(
                f"table {self._name} has a column {taken[0]!r} of its own", fix="rename it, or leave it out"
            )
        if engine not in ENGINES:
            raise InputError("engine= says who reads", expected=f"one of {', '.join(ENGINES)}", found=repr(engine))
        return FrameOrder(point, self._order(point, columns, where), names, engine)

    def count(self, where: Any = None) -> int:
        """How many rows qualify; without a predicate no data file is opened.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("n", "n BIGINT")
        >>> _ = t.append([{"n": 1}, {"n": 2}])
        >>> t.count(), t.count("n > 1")
        (2, 1)
        """
        return self._read(lambda point: self._count(point, where))

    def read_optimised(self) -> TableView:
        """The table without what is not settled yet: what other Delta readers see, and the fastest to read.

        With ``merge = on-write`` it is the whole table at any time.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("n", "n BIGINT", primary_key=["n"], merge="on-read")
        >>> _ = t.upsert([{"n": 1}])
        >>> t.count(), t.read_optimised().count()
        (1, 0)
        >>> _ = t.settle()
        >>> t.read_optimised().count()
        1
        """
        point = SettledPoint(self._point())
        return TableView(self._name, point, self._store, self._options, self._distribution)

    def files(self, where: Any = None) -> pa.Table:
        """The data files that may hold qualifying rows: path, partition, size, rows, dead rows, version, bucket.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("n", "n BIGINT")
        >>> _ = t.append([{"n": 1}, {"n": 2}])
        >>> t.files().select(["rows", "dead_rows", "added_version"]).to_pylist()
        [{'rows': 2, 'dead_rows': 0, 'added_version': 1}]
        """
        point = self._point()
        return point.describe(_predicate(point, where))

    def _leased(self) -> tuple[ReadPoint, Lease | None]:
        """The state that is read now, which stays readable until the lease ends."""
        point = self._point()
        return point, point.lease()

    def _read(self, work: Callable[[ReadPoint], Result]) -> Result:
        """What ``work`` makes of the state that is read now, which stays readable meanwhile."""
        point, lease = self._leased()
        with held(lease):
            return work(point)

    def _count(self, point: ReadPoint, where: Any) -> int:
        if where is None:
            counts = [source.live_rows for source in point.sources(None)]
            if None not in counts:
                return sum(count for count in counts if count is not None)
        order, sources = self._scan(point, point.metadata.schema.names[:1], where)
        return sum(batch.num_rows for batch in scan(order, sources))

    def _scan(self, point: ReadPoint, columns: Sequence[str] | None, where: Any) -> tuple[ScanOrder, Sources]:
        order = self._order(point, columns, where)
        return order, point.sources(order.predicate)

    def _order(self, point: ReadPoint, columns: Sequence[str] | None, where: Any) -> ScanOrder:
        return ScanOrder(
            store=self._store,
            table_name=self._name,
            metadata=point.metadata,
            options=self._options,
            columns=self._columns(point.metadata, columns),
            predicate=_predicate(point, where),
        )

    def _columns(self, metadata: Metadata, given: Sequence[str] | None) -> tuple[str, ...]:
        if given is None:
            return metadata.schema.names
        columns = () if isinstance(given, str) else column_names(given, "columns=")
        if not columns:
            raise InputError("columns is a list of column names", found=repr(given), fix="columns=['id', 'dt']")
        found = {name: metadata.schema.find(name) for name in columns}
        unknown = [name for name, field in found.items() if field is None]
        if unknown:
            raise InputError(
                f"table {self.name} has no column {', '.join(map(repr, unknown))}",
                expected=f"some of {', '.join(metadata.schema.names)}",
                fix=did_you_mean(unknown[0], metadata.schema.names),
            )
        names = [field.name for name in columns if (field := found[name]) is not None]
        if len(set(names)) < len(names):
            raise InputError(f"table {self.name}: a column is asked for twice", found=", ".join(map(repr, columns)))
        return tuple(names)


def _predicate(point: ReadPoint, where: Any) -> Node | None:
    return None if where is None else parse(where, point.metadata.schema)


class TableView(Readable):
    """A table at a fixed version; it can only be read."""

    def __init__(
        self, name: str, point: ReadPoint, store: Store, options: Options, distribution: Distribution | None = None
    ) -> None:
        self._name = name
        self._fixed = point
        self._store = store
        self._options = options
        self._distribution = distribution

    def _point(self) -> ReadPoint:
        return self._fixed

    def __repr__(self) -> str:
        return f"<lakebed table {self.name} at version {self.version}>"
