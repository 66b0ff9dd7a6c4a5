"""Frames that were put together, for whoever asks for the same state of a table again.

To put one together takes Spark as long as to read a small table. A version never changes, so its frame can serve again;
but two frames of a join must not share the identities of their columns, so everybody gets new ones.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from lakebed.engine.distribution import FrameOrder
from lakebed.spark.conditions import quoted
from lakebed.spark.job import setting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FRAMES = 16
_COLUMNS = 500
"""Columns of a frame that is kept: giving new identities to thousands would take longer than what is saved."""
_SECONDS = 60 * 60.0
"""For how long a frame is used again: on Spark Connect its list of files is read anew by every action, and vacuum takes
lists that are a day old."""
_SETTINGS = {"spark.sql.session.timeZone": "UTC", "spark.sql.caseSensitive": "false"}
"""What a frame has taken from the session for good when it was put together; values that Spark Connect accepts."""
_MOST_BYTES = 32 * 1024 * 1024
"""Of bitmaps of dead rows in all frames that are kept, which the driver has in memory for so long."""


@dataclass(frozen=True)
class _Kept:
    frame: DataFrame
    num_bytes: int
    since: float


class KeptFrames:
    """The frames that were asked for last."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._lock = Lock()
        self._frames: OrderedDict[Hashable, _Kept] = OrderedDict()

    def find(self, order: FrameOrder) -> DataFrame | None:
        """The frame of an earlier order of the same, with columns of its own."""
        key = self._key(order)
        with self._lock:
            kept = self._frames.get(key)
            if kept is None or time.monotonic() - kept.since > _SECONDS:
                return None
            self._frames.move_to_end(key)
        return _own(kept.frame)

    def keep(self, order: FrameOrder, frame: DataFrame, num_bytes: int) -> DataFrame:
        """Keep a frame with bitmaps of so many bytes, if they are not too many; the frame for whoever has asked."""
        key = self._key(order)
        if key is None or num_bytes > _MOST_BYTES:
            return frame
        with self._lock:
            self._frames[key] = _Kept(frame, num_bytes, time.monotonic())
            while len(self._frames) > _FRAMES or sum(one.num_bytes for one in self._frames.values()) > _MOST_BYTES:
                self._frames.popitem(last=False)
        return _own(frame)

    def _key(self, order: FrameOrder) -> Hashable | None:
        """What two orders of the same rows share; None if the rows may change, or are only some."""
        state = order.point.state_id
        if state is None or order.scan.predicate is not None or len(order.scan.columns) > _COLUMNS:
            return None
        settings = tuple(setting(self._session, name, default) for name, default in _SETTINGS.items())
        return state, order.scan.columns, order.metadata_columns, order.engine, settings


def _own(frame: DataFrame) -> DataFrame:
    """The same rows; a column of the frame that is kept, and is part of all others, would be ambiguous in a join."""
    return frame.selectExpr(*(f"{name} AS {name}" for name in map(quoted, frame.columns)))
