"""Mine is a schema change or a restore."""

from dataclasses import replace

import pytest

from lakebed.core.actions import Protocol
from lakebed.core.commit import Claim, Conflict, Kind
from lakebed.core.schema import STRING, Field, Struct

DATA_KINDS = [Kind.APPEND, Kind.UPSERT, Kind.DELETE, Kind.UPDATE, Kind.MERGE, Kind.OVERWRITE, Kind.RESTORE]


@pytest.fixture
def mine(race):
    added = Struct((*race.metadata.schema, Field("note", STRING)))
    return race.mine(Claim(Kind.ALTER), actions=[race.won_alter(added).metadata])


@pytest.fixture
def strict(race):
    """I have seen no null in ``amount`` and made it non-null."""
    metadata = race.won_alter(race.altered("amount", nullable=False)).metadata
    return race.mine(Claim(Kind.ALTER, not_null=("amount",)), actions=[metadata])


@pytest.mark.parametrize("theirs", DATA_KINDS)
def test_alter_after_new_rows_rebases(race, mine, theirs) -> None:
    assert race.check(mine, race.won(theirs, [race.file("new")], [race.file("old")])) is None


@pytest.mark.parametrize("theirs", [Kind.SETTLE, Kind.COMPACT])
def test_alter_after_settle_or_compact_rebases(race, mine, theirs) -> None:
    assert race.check(mine, race.won_compaction(race.file("old"), kind=theirs)) is None


def test_alter_after_alter_conflicts(race, mine) -> None:
    verdict = race.check(mine, race.won_alter(race.altered("amount", nullable=False)))
    assert isinstance(verdict, Conflict)
    assert "schema" in verdict.reason


def test_alter_after_properties_conflicts(race, mine) -> None:
    """To land would take the properties back to what I saw."""
    assert isinstance(race.check(mine, race.won_alter(configuration={"team.owner": "shop"})), Conflict)


def test_alter_after_protocol_upgrade_conflicts(race, mine) -> None:
    assert isinstance(race.check(mine, race.won(Kind.ALTER, protocol=Protocol(3, 7, (), ()))), Conflict)


def test_alter_after_restore_of_another_schema_conflicts(race, mine) -> None:
    winner = replace(race.won_alter(race.altered("amount", nullable=False)), kind=Kind.RESTORE)
    assert isinstance(race.check(mine, winner), Conflict)


@pytest.mark.parametrize("theirs", DATA_KINDS)
def test_alter_to_not_null_after_new_nulls_conflicts(race, strict, theirs) -> None:
    winner = race.won(theirs, [race.file("clean"), race.file("new", nulls={"amount": 1})])
    verdict = race.check(strict, winner)
    assert isinstance(verdict, Conflict)
    assert "nulls to column 'amount'" in verdict.reason


@pytest.mark.parametrize("theirs", DATA_KINDS)
def test_alter_to_not_null_after_rows_without_nulls_rebases(race, strict, theirs) -> None:
    assert race.check(strict, race.won(theirs, [race.file("new", nulls={"id": 3})])) is None


def test_alter_to_not_null_after_append_without_null_counts_conflicts(race, strict) -> None:
    winner = race.won(Kind.APPEND, [race.file("new", stats='{"numRecords":10}')])
    assert isinstance(race.check(strict, winner), Conflict)


def test_alter_to_not_null_after_compaction_without_null_counts_rebases(race, strict) -> None:
    """I have looked at these rows already."""
    assert race.check(strict, race.won_compaction(race.file("old", stats='{"numRecords":10}'))) is None


def test_alter_to_not_null_of_a_nested_column_after_append_conflicts(race) -> None:
    """Claims name top columns; for a struct one cannot tell which member has the nulls."""
    mine = race.mine(Claim(Kind.ALTER, not_null=("address",)))
    assert isinstance(race.check(mine, race.won(Kind.APPEND, [race.file("new")])), Conflict)


@pytest.mark.parametrize(("day", "rebases"), [("mon", True), (None, False)])
def test_alter_partition_column_to_not_null_after_append_depends_on_its_partition(race, day, rebases) -> None:
    mine = race.mine(Claim(Kind.ALTER, not_null=("dt",)))
    verdict = race.check(mine, race.won(Kind.APPEND, [race.file("new", day)]))
    assert verdict is None if rebases else isinstance(verdict, Conflict)


@pytest.mark.parametrize("theirs", [*DATA_KINDS, Kind.SETTLE, Kind.COMPACT, Kind.ALTER])
def test_restore_after_anything_conflicts(race, theirs) -> None:
    """What landed meanwhile would be gone without a trace, or doubled."""
    mine = race.mine(Claim(Kind.RESTORE, reads_all=True), actions=[race.file("old").remove(), race.file("older")])
    verdict = race.check(mine, race.won(theirs, [race.file("else", "tue")]))
    assert isinstance(verdict, Conflict)
    assert (verdict.mine, verdict.theirs) == (Kind.RESTORE, theirs)
    assert "a restore decides the whole table" in verdict.reason


def test_restore_after_nothing_lands(race) -> None:
    assert race.check(race.mine(Claim(Kind.RESTORE, reads_all=True))) is None
