"""Mine is a settle or a compaction: what others have replaced is left out, the rest lands; never an error."""

from dataclasses import replace

import pytest

from lakebed.core.commit import Kind, Recompute
from lakebed.core.schema import INTEGER, STRING, Field, Struct

BUCKET = ('{"dt":"mon"}', 3)
OTHER_BUCKET = ('{"dt":"mon"}', 4)

pytestmark = pytest.mark.parametrize("kind", [Kind.SETTLE, Kind.COMPACT])


@pytest.fixture
def old(race):
    return race.file("old")


@pytest.fixture
def kept(race):
    return race.file("kept")


@pytest.fixture
def mine(race, old, kept, kind):
    return race.compaction(old, kept, kind=kind, buckets=[BUCKET, OTHER_BUCKET])


def test_maintenance_after_append_rebases(race, mine, kind) -> None:
    assert race.check(mine, race.won(Kind.APPEND, [race.file("theirs")], buckets=frozenset({BUCKET}))) is None


def test_maintenance_after_upsert_rebases_and_leaves_its_files_unsettled(race, mine, kind) -> None:
    assert race.check(mine, race.won(Kind.UPSERT, [race.file("theirs")], buckets=frozenset({BUCKET}))) is None


def test_maintenance_after_upsert_with_vectors_leaves_out_the_struck_files(race, mine, old, kind) -> None:
    verdict = race.check(mine, race.won_delete(old, kind=Kind.UPSERT))
    assert isinstance(verdict, Recompute)
    assert verdict.files == {old.key}


@pytest.mark.parametrize("theirs", [Kind.SETTLE, Kind.COMPACT])
def test_maintenance_after_settle_or_compact_leaves_out_what_is_done(race, mine, old, kind, theirs) -> None:
    winner = race.won_compaction(old, kind=theirs, buckets=frozenset({BUCKET}))
    expected = Recompute("shop.orders", winner.version, frozenset({old.key}), frozenset({BUCKET}))
    assert race.check(mine, winner) == expected


@pytest.mark.parametrize("theirs", [Kind.SETTLE, Kind.COMPACT])
def test_maintenance_after_maintenance_elsewhere_rebases(race, mine, kind, theirs) -> None:
    winner = race.won_compaction(race.file("else"), kind=theirs, buckets=frozenset({('{"dt":"tue"}', 3)}))
    assert race.check(mine, winner) is None


@pytest.mark.parametrize("theirs", [Kind.DELETE, Kind.UPDATE, Kind.MERGE])
def test_maintenance_after_delete_or_update_leaves_out_the_struck_files(race, mine, old, kind, theirs) -> None:
    """To land would bring the deleted rows back."""
    verdict = race.check(mine, race.won_delete(old, kind=theirs))
    assert isinstance(verdict, Recompute)
    assert verdict.files == {old.key}


def test_maintenance_after_delete_elsewhere_rebases(race, mine, kind) -> None:
    assert race.check(mine, race.won_delete(race.file("else"))) is None


def test_maintenance_after_delete_in_the_same_bucket_leaves_it_out(race, mine, kind) -> None:
    """A settle has matched all files of the bucket, also those that it does not replace."""
    winner = race.won(Kind.DELETE, buckets=frozenset({BUCKET}))
    assert race.check(mine, winner) == Recompute("shop.orders", winner.version, buckets=frozenset({BUCKET}))


def test_maintenance_after_overwrite_leaves_out_the_replaced_files(race, mine, old, kept, kind) -> None:
    """Paimon #4802 the other way round: what was overwritten must not come back compacted."""
    verdict = race.check(mine, race.won(Kind.OVERWRITE, [race.file("new")], [old, kept]))
    assert isinstance(verdict, Recompute)
    assert verdict.files == {old.key, kept.key}


def test_maintenance_after_overwrite_of_another_partition_rebases(race, mine, kind) -> None:
    winner = race.won(Kind.OVERWRITE, [race.file("new", "tue")], [race.file("else", "tue")])
    assert race.check(mine, winner) is None


def test_maintenance_after_restore_leaves_out_the_files_that_left(race, mine, old, kind) -> None:
    verdict = race.check(mine, race.won(Kind.RESTORE, [race.file("older")], [old]))
    assert isinstance(verdict, Recompute)
    assert verdict.files == {old.key}


def test_maintenance_after_restore_of_other_files_rebases(race, mine, kind) -> None:
    assert race.check(mine, race.won(Kind.RESTORE, [race.file("older")], [race.file("else")])) is None


def test_maintenance_after_schema_change_rebases(race, mine, kind) -> None:
    """The alter has checked the rows that I move: a column that it made non-null has no nulls in them."""
    added = Struct((*race.altered("amount", nullable=False), Field("note", STRING)))
    assert race.check(mine, race.won_alter(added)) is None


def test_maintenance_after_properties_rebases(race, mine, kind) -> None:
    assert race.check(mine, race.won_alter(configuration={"delta.appendOnly": "true"})) is None


def test_maintenance_after_restore_of_a_narrower_type_leaves_out_everything(race, mine, old, kept, kind) -> None:
    """My files hold the wide type, which a reader of the old schema cannot open."""
    winner = replace(race.won_alter(race.altered("id", type=INTEGER)), kind=Kind.RESTORE)
    verdict = race.check(mine, winner)
    assert isinstance(verdict, Recompute)
    assert verdict.files == {old.key, kept.key}


def test_maintenance_of_nothing_rebases_after_anything(race, old, kind) -> None:
    assert race.check(race.compaction(kind=kind), race.won(Kind.OVERWRITE, removes=[old])) is None
