"""A frame of a table: which scan reads which of its files, and why."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from lakebed.core.errors import InputError, StorageError
from lakebed.core.predicate import render
from lakebed.core.schema import LONG, STRING, Field, Struct
from lakebed.core.schema_spark import to_spark
from lakebed.engine.distribution import ARROW, AUTO, NATIVE, FrameOrder
from lakebed.engine.scan import by_field_id, known_dead
from lakebed.engine.source import MergedRows, Source, Sources
from lakebed.spark.arrow_scan import Slice, arrow_frame, local_frame
from lakebed.spark.conditions import untranslatable
from lakebed.spark.dead_blocks import most_bytes
from lakebed.spark.file_schema import outwardly
from lakebed.spark.kept_frames import KeptFrames
from lakebed.spark.native_scan import LiveFile, UnreadableError, native_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_VECTOR_THREADS = 8
_FEW_VECTORS = 64
"""Up to so many are read one after the other: threads would cost more."""
_FACTS = {"_file": STRING, "_row_index": LONG, "_commit_version": LONG, "_bucket": LONG, "_partition": STRING}


@dataclass(frozen=True)
class FramePlan:
    """How a frame is read."""

    order: FrameOrder
    native: tuple[LiveFile, ...] = field(repr=False)
    """What Spark's own reader reads."""
    arrow: Sources = field(repr=False)
    """What the engine reads, in tasks of Spark."""
    why: str
    here: Sources = field(default=(), repr=False)
    """What this process reads itself."""

    @property
    def text(self) -> str:
        """The plan for people."""
        scan = self.order.scan
        lines = [f"table {scan.table_name} at version {self.order.point.version}: {self.why}"]
        if self.native:
            sizes = [most_bytes(file.dead) for file in self.native if file.dead]
            lines.append(
                f"native scan of {len(self.native)} file(s), {len(sizes)} of them with dead rows, "
                f"as bitmaps of up to {sum(sizes)} bytes"
            )
        if self.arrow:
            merged = sum(isinstance(source, MergedRows) for source in self.arrow)
            lines.append(
                f"arrow scan of {len(self.arrow) - merged} file(s), and of the merged rows of {merged} bucket(s)"
            )
        if self.here:
            lines.append(f"{len(self.here)} file(s) read by this process when the frame is made")
        if not self.native and not self.arrow and not self.here:
            lines.append("no file is read")
        return "\n".join(lines)


class Frames:
    """Makes the frames of one session."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._unreadable: dict[tuple[str, str], str] = {}
        """Places that this Spark was found not to read, and why."""
        self._kept = KeptFrames(session)

    def rows(self, order: FrameOrder) -> DataFrame:
        """The frame that is asked for. What was put together for the same state of the table is used again.

        Raises InputError if the native scan is demanded where it is not possible.
        """
        kept = self._kept.find(order)
        if kept is not None:
            return kept
        frame, plan = self.frame(order)
        if plan.arrow or plan.here:
            return frame
        return self._kept.keep(order, frame, sum(map(_bytes, plan.native)))

    def frame(self, order: FrameOrder) -> tuple[DataFrame, FramePlan]:
        """The frame that is asked for, and how it is read.

        Raises InputError if the native scan is demanded where it is not possible.
        """
        sources = order.point.sources(order.scan.predicate)
        if order.engine == AUTO and _is_little(order, sources):
            plan = FramePlan(order, (), (), "so little is left to read that a job would take longer", sources)
            return self._built(plan), plan
        why = self._why_arrow(order)
        if why is None:
            try:
                plan = _native_plan(order, sources)
                return self._built(plan), plan
            except UnreadableError as error:
                why = str(error)
                self._unreadable[_place(order)] = why
            except StorageError as error:
                if order.engine == NATIVE:
                    raise
                why = f"the list of files cannot be written for Spark: {error}"
        if order.engine == NATIVE:
            raise InputError(
                f"table {order.scan.table_name} cannot be read by the native scan: {why}", fix="engine='auto'"
            )
        plan = FramePlan(order, (), sources, why)
        return self._built(plan), plan

    def _why_arrow(self, order: FrameOrder) -> str | None:
        """Why the native scan cannot read it, as far as that can be told before; None if it can."""
        if order.engine == ARROW:
            return "the Arrow scan was asked for"
        if by_field_id(order.scan.metadata):
            return "its columns are matched by field id"
        alien = None if order.scan.predicate is None else untranslatable(order.scan.predicate)
        if alien is not None:
            return f"Spark would not compute {render(alien)} as Lakebed does"
        return self._unreadable.get(_place(order))

    def _built(self, plan: FramePlan) -> DataFrame:
        order, schema = plan.order, frame_schema(plan.order)
        parts = []
        if plan.native:
            parts.append(native_frame(self._session, order, plan.native))
        if plan.arrow:
            parts.append(arrow_frame(self._session, order, plan.arrow, schema))
        if plan.here:
            parts.append(
                local_frame(self._session, Slice(order.scan, order.metadata_columns, tuple(plan.here)), schema)
            )
        return reduce(lambda left, right: left.unionAll(right), parts or [self._session.createDataFrame([], schema)])


def _is_little(order: FrameOrder, sources: Sequence[Source | MergedRows]) -> bool:
    """Whether a predicate leaves so little that this process has read it before Spark would have begun to."""
    if order.scan.predicate is None or not sources or any(isinstance(source, MergedRows) for source in sources):
        return False
    return sum(source.add.size for source in sources if isinstance(source, Source)) <= order.scan.options.read_here


def _place(order: FrameOrder) -> tuple[str, str]:
    return order.scan.store.location.scheme, order.scan.store.location.authority


def frame_schema(order: FrameOrder) -> StructType:
    """The columns of a frame, as Spark sees them."""
    from pyspark.sql.types import StructType

    facts = tuple(Field(name, _FACTS[name]) for name in order.metadata_columns)
    columns = outwardly(order.scan.metadata.schema.select(order.scan.columns))
    return to_spark(Struct((*columns, *facts)), StructType)


def _native_plan(order: FrameOrder, sources: Sources) -> FramePlan:
    """Spark reads what it can; rows that are in no file yet, and files with too many dead rows, are the engine's."""
    files = _live_files(order, [source for source in sources if isinstance(source, Source)])
    native, large = _within(files, order.scan.options.broadcast_limit)
    merged = [source for source in sources if isinstance(source, MergedRows)]
    why = "Spark reads Parquet itself"
    if large:
        why += f", but not {len(large)} file(s) with more dead rows than broadcast_limit allows"
    if merged:
        why += ", and rows that are in no file yet are merged in tasks"
    return FramePlan(order, native, [*(Source(file.source.add, file.dead) for file in large), *merged], why)


def _live_files(order: FrameOrder, sources: Sequence[Source]) -> list[LiveFile]:
    holed = [source for source in sources if source.dead is not None or source.add.deletion_vector is not None]
    if len(holed) <= _FEW_VECTORS and order.scan.store.location.is_local:
        dead = {id(source): known_dead(order.scan, source) for source in holed}
    else:
        with ThreadPoolExecutor(_VECTOR_THREADS, "lakebed-vectors") as pool:
            found = pool.map(lambda source: known_dead(order.scan, source), holed)
            dead = dict(zip(map(id, holed), found, strict=True))
    return [LiveFile(source, dead.get(id(source))) for source in sources]


def _within(files: Sequence[LiveFile], limit: int) -> tuple[tuple[LiveFile, ...], list[LiveFile]]:
    """The files whose dead rows fit into the limit together, the smallest first, and the others."""
    left = limit
    large: set[int] = set()
    for file in sorted((file for file in files if file.dead), key=_bytes):
        left -= _bytes(file)
        if left < 0:
            large.add(id(file))
    return tuple(file for file in files if id(file) not in large), [file for file in files if id(file) in large]


def _bytes(file: LiveFile) -> int:
    return 0 if file.dead is None else most_bytes(file.dead)
