"""A condition on many values finds them by an index, whatever the size of the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Executable, create_engine
from sqlalchemy.dialects import sqlite

from lakebed.metastore import cache, changes, commits, condemned, expiry, landing, schema

STATEMENTS: dict[str, tuple[Executable, str]] = {
    "live files": (landing._LIVE_ROWS, "lakebed_files_live (table_num=? AND path=?)"),
    "files that end": (landing._END_FILES, "lakebed_files_1 (table_num=? AND id=?)"),
    "vectors that end": (landing._END_VECTORS, "(table_num=? AND file_id=?"),
    "condemned files": (condemned._FOUND, "lakebed_condemned_1 (table_num=? AND path=? AND is_vector=?)"),
    "files condemned again": (condemned._UNDO, "lakebed_condemned_1 (table_num=? AND path=? AND is_vector=?)"),
    "versions that expire": (expiry._FORGET, "lakebed_versions_1 (table_num=? AND version=?)"),
    "partitions by number": (changes._SOME_PARTITIONS, "lakebed_partitions_1 (table_num=? AND id=?)"),
    "partitions by values": (cache._PARTITIONS, "(table_num=? AND key=?)"),
    "tables of a commit": (commits._LOCKED, "(id=?)"),
}


@pytest.mark.parametrize("what", STATEMENTS)
def test_sqlite_searches_by_all_columns_of_the_index(tmp_path: Path, what: str) -> None:
    statement, by = STATEMENTS[what]
    engine = create_engine(f"sqlite:///{tmp_path}/metastore.db")
    schema.metadata.create_all(engine)
    compiled: Any = statement.compile(dialect=sqlite.dialect())  # type: ignore[attr-defined]
    with engine.connect() as connection:
        values = dict.fromkeys(compiled.params, 1)
        plan = connection.exec_driver_sql(
            f"EXPLAIN QUERY PLAN {compiled}", tuple(values[n] for n in compiled.positiontup)
        )
        details = [row[3] for row in plan]
    assert any(by in detail and detail.startswith("SEARCH") for detail in details), details
    assert not [detail for detail in details if detail.startswith("SCAN") and "json_each" not in detail]
