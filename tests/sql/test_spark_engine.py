"""What Spark says of a query, as our error: only what Spark itself throws is taken for an answer."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException, UnsupportedOperationException

from lakebed.sql.spark_engine import translated


class Complaint(AnalysisException):
    """An error whose place is asked for in the way that a test wants."""

    def __init__(self, fragment: Any) -> None:
        super().__init__("[UNRESOLVED_COLUMN] A column with name `amuont` cannot be resolved.")
        self._fragment = fragment

    def getQueryContext(self) -> list[Any]:
        return [self]

    def fragment(self) -> str:
        if isinstance(self._fragment, Exception):
            raise self._fragment
        return str(self._fragment)


def test_the_place_that_spark_names_is_pointed_at() -> None:
    assert "line 1, column 8" in str(translated(Complaint("amuont"), "select amuont from t"))


@pytest.mark.parametrize(
    "error", [Complaint(UnsupportedOperationException("no text")), Complaint(""), ValueError("amuont")]
)
def test_a_mistake_without_a_place_is_told_all_the_same(error: Exception) -> None:
    told = str(translated(error, "select amuont from t"))
    assert told.startswith("Spark does not run the statement: ")
    assert "amuont" in told


def test_what_goes_wrong_while_the_place_is_looked_for_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        translated(Complaint(ZeroDivisionError()), "select amuont from t")
