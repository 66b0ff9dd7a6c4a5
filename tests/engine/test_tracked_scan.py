"""Row ids and row versions of files that carry them, and of files that do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from data_files import Lake, metadata
from pyroaring import BitMap64

from lakebed.core.file_tags import KIND_COLUMN, ROW_ID_COLUMN, ROW_VERSION_COLUMN
from lakebed.core.predicate import parse
from lakebed.core.schema import INTEGER, LONG, MAPPING_ID, MAPPING_NAME, STRING, Field, Struct
from lakebed.engine.source import Source
from lakebed.engine.tracked_scan import read_tracked, tracked


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def ids(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return [(row["id"], row[ROW_ID_COLUMN], row[ROW_VERSION_COLUMN]) for row in rows]


def test_a_file_as_it_was_written(lake: Lake) -> None:
    of = metadata("id BIGINT")
    source = lake.add(of, [{"id": n} for n in range(4)], base=100, version=7, dead=[1])
    assert ids(lake.tracked(of, [source])) == [(0, 100, 7), (2, 102, 7), (3, 103, 7)]


def test_materialised_columns_win_where_they_are_not_null(lake: Lake) -> None:
    of = metadata("id BIGINT")
    rows = [
        {"id": 1, ROW_ID_COLUMN: 5, ROW_VERSION_COLUMN: 2},
        {"id": 2, ROW_ID_COLUMN: None, ROW_VERSION_COLUMN: 3},
        {"id": 3, ROW_ID_COLUMN: 9, ROW_VERSION_COLUMN: None},
    ]
    source = lake.add(of, rows, base=100, version=7, hidden=[ROW_ID_COLUMN, ROW_VERSION_COLUMN])
    assert ids(lake.tracked(of, [source])) == [(1, 5, 2), (2, 101, 3), (3, 9, 7)]


def test_a_file_that_is_not_committed_has_no_ids(lake: Lake) -> None:
    of = metadata("id BIGINT")
    source = lake.add(of, [{"id": 1}], base=None, version=None)
    assert ids(lake.tracked(of, [source])) == [(1, None, None)]


def test_dead_rows_that_are_known_already(lake: Lake) -> None:
    of = metadata("id BIGINT")
    source = lake.add(of, [{"id": n} for n in range(4)])
    assert [row["id"] for row in lake.tracked(of, [Source(source.add, BitMap64([0, 3]))])] == [1, 2]


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_positions_go_on_over_batches(lake: Lake, rows: int) -> None:
    of = metadata("id BIGINT")
    source = lake.add(of, [{"id": n} for n in range(5)], base=10, dead=[2])
    tables = list(tracked(lake.scan(of), source, batch_rows=rows, buffer_size=64))
    found = [row for table in tables for row in table.to_pylist()]
    assert ids(found) == [(0, 10, 1), (1, 11, 1), (3, 13, 1), (4, 14, 1)]
    assert max(table.num_rows for table in tables) <= rows


def test_tombstones_only_if_they_are_asked_for(lake: Lake) -> None:
    of = metadata("id BIGINT NOT NULL, n BIGINT NOT NULL", key=["id"], sequence=["n"])
    rows = [
        {"id": 1, "n": 1, KIND_COLUMN: None},
        {"id": 2, "n": 2, KIND_COLUMN: 3},
        {"id": 3, "n": 3, KIND_COLUMN: 2},
        {"id": 4, "n": 4, KIND_COLUMN: 1},
        {"id": 5, "n": 5, KIND_COLUMN: 0},
    ]
    source = lake.add(of, rows, bucket=0, hidden=[KIND_COLUMN], dead=[1, 3, 4])
    assert [row["id"] for row in lake.tracked(of, [source])] == [1, 3]
    assert KIND_COLUMN not in lake.tracked(of, [source])[0]
    found = lake.tracked(of, [source], tombstones=True)
    assert [(row["id"], row[KIND_COLUMN]) for row in found] == [(1, 0), (2, 3), (3, 2), (4, 1)]


def test_tombstones_of_a_file_without_kinds(lake: Lake) -> None:
    of = metadata("id BIGINT NOT NULL", key=["id"])
    source = lake.add(of, [{"id": 1}], bucket=0)
    assert [row[KIND_COLUMN] for row in lake.tracked(of, [source], tombstones=True)] == [0]


def test_partition_columns_come_from_the_log(lake: Lake) -> None:
    of = metadata("id BIGINT, dt DATE", partitions=["dt"])
    source = lake.add(of, [{"id": 1}], values={"dt": "2026-11-16"})
    assert str(lake.tracked(of, [source])[0]["dt"]) == "2026-11-16"


def test_columns_that_were_added_widened_and_renamed_since(lake: Lake) -> None:
    was = metadata(Struct((Field("id", INTEGER, metadata={MAPPING_NAME: "c-1"}), Field("gone", LONG))))
    fields = (
        Field("name", STRING),
        Field("number", LONG, metadata={MAPPING_NAME: "c-1"}),
    )
    of = metadata(Struct(fields), **{"delta.columnMapping.mode": "name"})
    source = lake.add(was, [{"id": 1, "gone": 2}], base=4)
    (row,) = lake.tracked(of, [source])
    assert row == {"name": None, "number": 1, ROW_ID_COLUMN: 4, ROW_VERSION_COLUMN: 1}


def test_a_file_with_none_of_the_present_columns(lake: Lake) -> None:
    source = lake.add(metadata("old BIGINT"), [{"old": 1}, {"old": 2}], base=4)
    assert ids(lake.tracked(metadata("id BIGINT"), [source])) == [(None, 4, 1), (None, 5, 1)]


def test_other_writers_name_the_hidden_columns_differently(lake: Lake) -> None:
    of = metadata("id BIGINT", **{"delta.rowTracking.materializedRowIdColumnName": "_row-id-7"})
    with_ids = replace(of, schema_string=metadata("id BIGINT, `_row-id-7` BIGINT").schema_string)
    source = lake.add(with_ids, [{"id": 1, "_row-id-7": 40}], base=100)
    assert ids(lake.tracked(of, [source])) == [(1, 40, 1)]


def test_a_predicate_and_some_columns(lake: Lake) -> None:
    of = metadata("id BIGINT, n BIGINT")
    source = lake.add(of, [{"id": 1, "n": 5}, {"id": 2, "n": 6}])
    order = replace(lake.scan(of), columns=("id",), predicate=parse("n = 6", of.schema))
    assert read_tracked(order, [source]).to_pylist() == [{"id": 2, ROW_ID_COLUMN: 1, ROW_VERSION_COLUMN: 1}]


def test_no_sources(lake: Lake) -> None:
    table = read_tracked(lake.scan(metadata("id BIGINT")), [], tombstones=True)
    assert (table.num_rows, table.schema.names) == (0, ["id", ROW_ID_COLUMN, ROW_VERSION_COLUMN, KIND_COLUMN])


def test_columns_that_are_matched_by_field_id(lake: Lake) -> None:
    fields = (Field("id", LONG, metadata={MAPPING_ID: 1, MAPPING_NAME: "other"}),)
    was = metadata(Struct((Field("any", LONG, metadata={MAPPING_ID: 1, MAPPING_NAME: "any"}),)))
    of = metadata(Struct(fields), **{"delta.columnMapping.mode": "id"})
    row = {"any": 1, ROW_ID_COLUMN: 9, ROW_VERSION_COLUMN: None}
    source = lake.add(was, [row, row], base=4, hidden=[ROW_ID_COLUMN, ROW_VERSION_COLUMN], dead=[0])
    assert ids(lake.tracked(of, [source])) == [(1, 9, 1)]
