"""How much of a stream Spark asks for at a time. Spark 4.1 does not ask: there a micro-batch takes all there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxFiles,
            SupportsTriggerAvailableNow,
        )
    except ModuleNotFoundError:

        class ReadLimit:
            """Any limit."""

        class ReadAllAvailable(ReadLimit):
            """None."""

        class ReadMaxFiles(ReadLimit):
            """So many files."""

            def __init__(self, max_files: int) -> None:
                self.max_files = max_files

        class SupportsTriggerAvailableNow:
            """A stream that can end where it was when it began."""


__all__ = ["ReadAllAvailable", "ReadLimit", "ReadMaxFiles", "SupportsTriggerAvailableNow"]
