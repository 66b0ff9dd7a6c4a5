"""How far readers of changes have come, and what is kept for them."""

from __future__ import annotations

from datetime import timedelta

import pytest

import lakebed

AT_ONCE = timedelta(0)


@pytest.fixture
def table(lake: lakebed.Warehouse) -> lakebed.Table:
    made = lake.create_table("t", "n BIGINT")
    for n in range(4):
        made.append([{"n": n}])
    return made


def test_nothing_expires_that_a_consumer_has_not_read(table: lakebed.Table) -> None:
    table.advance_consumer("slow", 2)
    table.advance_consumer("fast", 4)
    assert [(c.name, c.version) for c in table.consumers()] == [("fast", 4), ("slow", 2)]
    table.overwrite([{"n": 9}])
    assert table.vacuum(AT_ONCE).versions == 2
    for mode in ("all", "combine"):
        assert table.changes(2, mode=mode).to_arrow().num_rows > 0
    with pytest.raises(lakebed.NotFoundError, match="from 2 to 5"):
        table.changes(1)
    table.advance_consumer("slow", 5)
    assert table.expire(AT_ONCE).earliest == 4
    table.forget_consumer("fast")
    assert table.vacuum(AT_ONCE, dry_run=True).versions == 1
    assert table.expire(AT_ONCE).earliest == 5


def test_a_consumer_is_waited_for_only_so_long(table: lakebed.Table) -> None:
    table.advance_consumer("dead", 1, retain=AT_ONCE)
    assert table.expire(AT_ONCE).earliest == 4
    with pytest.raises(lakebed.NotFoundError, match="no version 1 any more"):
        table.advance_consumer("dead", 1)
    assert table.advance_consumer("dead", 4).version == 4


def test_wrong_consumers(table: lakebed.Table) -> None:
    table.advance_consumer("report", 1)
    with pytest.raises(lakebed.NotFoundError, match=r"no consumer 'raport'.*did you mean 'report'"):
        table.forget_consumer("raport")
    with pytest.raises(lakebed.NotFoundError, match="a version from 0 to 4"):
        table.advance_consumer("report", 9)
    with pytest.raises(lakebed.InputError, match="no name for a consumer"):
        table.advance_consumer("a b", 1)
    with pytest.raises(lakebed.InputError):
        table.advance_consumer("report", -1)
    assert [(c.name, c.version) for c in table.consumers()] == [("report", 1)]


def test_consumers_go_with_their_table(lake: lakebed.Warehouse, table: lakebed.Table) -> None:
    table.advance_consumer("report", 1)
    lake.drop_table("t", purge=True)
    assert lake.create_table("t", "n BIGINT").consumers() == []
