"""Mine is an append or an upsert: rebase, unless a schema change no longer fits my files."""

from dataclasses import replace

import pytest

from lakebed.core.actions import Protocol
from lakebed.core.commit import Conflict, Kind, Recompute
from lakebed.core.schema import LONG, MAPPING_NAME, STRING, Array, Decimal, Field, Map, Struct

BUCKET = ('{"dt":"mon"}', 3)
OTHER_BUCKET = ('{"dt":"mon"}', 4)


@pytest.fixture
def mine(race):
    return race.append(race.file("mine"))


def test_append_after_nothing_lands(race, mine) -> None:
    assert race.check(mine) is None


@pytest.mark.parametrize("kind", [Kind.APPEND, Kind.UPSERT])
def test_append_after_append_or_upsert_rebases(race, mine, kind) -> None:
    assert race.check(mine, race.won(kind, [race.file("theirs")])) is None


@pytest.mark.parametrize("kind", [Kind.SETTLE, Kind.COMPACT])
def test_append_after_settle_or_compact_rebases(race, mine, kind) -> None:
    assert race.check(mine, race.won_compaction(race.file("old"), kind=kind)) is None


@pytest.mark.parametrize("kind", [Kind.DELETE, Kind.UPDATE, Kind.MERGE])
def test_append_after_delete_update_or_merge_rebases(race, mine, kind) -> None:
    """The delete came first: it did not have to see my rows."""
    assert race.check(mine, race.won_delete(race.file("old"), kind=kind, adds=[race.file("new")])) is None


def test_append_after_overwrite_rebases(race, mine) -> None:
    assert race.check(mine, race.won(Kind.OVERWRITE, [race.file("new")], [race.file("old")])) is None


def test_append_after_restore_rebases(race, mine) -> None:
    """The restore brings old files back; my rows come on top of them."""
    assert race.check(mine, race.won(Kind.RESTORE, [race.file("older")], [race.file("old")])) is None


def test_append_after_properties_rebases(race, mine) -> None:
    assert race.check(mine, race.won_alter(configuration={"team.owner": "shop"})) is None


def test_append_after_protocol_upgrade_rebases(race, mine) -> None:
    assert (
        race.check(mine, race.won(Kind.ALTER, protocol=Protocol(3, 7, ("columnMapping",), ("columnMapping",)))) is None
    )


def test_append_after_added_column_rebases(race, mine) -> None:
    added = Struct((*race.metadata.schema, Field("note", STRING), Field("labels", Map(STRING, STRING))))
    assert race.check(mine, race.won_alter(added)) is None


def test_append_after_dropped_column_rebases(race, mine) -> None:
    dropped = Struct(tuple(f for f in race.metadata.schema if f.name != "amount"))
    assert race.check(mine, race.won_alter(dropped, configuration={"delta.columnMapping.mode": "name"})) is None


def test_append_after_column_that_went_without_mapping_conflicts(race, mine) -> None:
    """Only a restore does that; a new column of the name would show the values of my file."""
    gone = Struct(tuple(f for f in race.metadata.schema if f.name != "amount"))
    verdict = race.check(mine, race.won(Kind.RESTORE, metadata=race.won_alter(gone).metadata))
    assert isinstance(verdict, Conflict)
    assert "'amount'" in verdict.reason


def test_append_after_renamed_column_rebases(race, mine) -> None:
    renamed = race.altered("amount", name="price", metadata={MAPPING_NAME: "amount"})
    assert race.check(mine, race.won_alter(renamed)) is None


def test_append_after_renamed_partition_column_rebases(race, mine) -> None:
    renamed = race.altered("dt", name="day", metadata={MAPPING_NAME: "dt"})
    assert race.check(mine, race.won_alter(renamed, ("day",))) is None


@pytest.mark.parametrize("wider", [LONG, Decimal(12, 2)])
def test_append_after_widened_column_rebases(race, mine, wider) -> None:
    assert race.check(mine, race.won_alter(race.altered("number", type=wider))) is None


def test_append_after_narrowed_column_conflicts(race, mine) -> None:
    """A restore may bring back the type from before a widening: it cannot hold my values."""
    old = replace(race.won_alter(race.altered("id", type=race.metadata.schema["number"].type)), kind=Kind.RESTORE)
    verdict = race.check(mine, old)
    assert isinstance(verdict, Conflict)
    assert "column 'id' another type" in verdict.reason


@pytest.mark.parametrize("kind", [STRING, Array(LONG), Struct((Field("a", LONG),))])
def test_append_after_column_of_another_type_conflicts(race, mine, kind) -> None:
    verdict = race.check(mine, race.won_alter(race.altered("amount", type=kind)))
    assert isinstance(verdict, Conflict)
    assert "amount" in verdict.reason


def test_append_after_nested_column_of_another_type_conflicts(race, mine) -> None:
    other = Struct((Field("zip", LONG), Field("city", STRING)))
    verdict = race.check(mine, race.won_alter(race.altered("address", type=other)))
    assert isinstance(verdict, Conflict)
    assert "address.zip" in verdict.reason


def test_append_with_nulls_after_not_null_conflicts(race) -> None:
    mine = race.append(race.file("mine", nulls={"amount": 1}))
    verdict = race.check(mine, race.won_alter(race.altered("amount", nullable=False)))
    assert isinstance(verdict, Conflict)
    assert "'amount' non-null" in verdict.reason
    assert "new schema" in verdict.fix


def test_append_without_nulls_after_not_null_rebases(race, mine) -> None:
    assert race.check(mine, race.won_alter(race.altered("amount", nullable=False))) is None


@pytest.mark.parametrize("stats", [None, '{"numRecords":10}', '{"numRecords":10,"nullCount":null}'])
def test_append_without_null_counts_after_not_null_conflicts(race, stats) -> None:
    mine = race.append(race.file("mine", stats=stats))
    assert isinstance(race.check(mine, race.won_alter(race.altered("amount", nullable=False))), Conflict)


def test_append_of_no_rows_after_not_null_rebases(race) -> None:
    mine = race.append(race.file("mine", stats='{"numRecords":0}'))
    assert race.check(mine, race.won_alter(race.altered("amount", nullable=False))) is None


@pytest.mark.parametrize("day", [None, ""])
def test_append_to_null_partition_after_not_null_conflicts(race, day) -> None:
    """An empty partition value reads as null, too."""
    mine = race.append(race.file("mine", day))
    assert isinstance(race.check(mine, race.won_alter(race.altered("dt", nullable=False))), Conflict)


def test_append_to_partition_after_not_null_rebases(race, mine) -> None:
    assert race.check(mine, race.won_alter(race.altered("dt", nullable=False))) is None


@pytest.mark.parametrize(("nulls", "fits"), [(0, True), (2, False)])
def test_append_after_nested_not_null_depends_on_my_nulls(race, nulls, fits) -> None:
    mine = race.append(race.file("mine", nulls={"address": {"zip": nulls, "city": 5}}))
    strict = Struct((Field("zip", STRING, nullable=False), Field("city", STRING)))
    verdict = race.check(mine, race.won_alter(race.altered("address", type=strict)))
    assert verdict is None if fits else isinstance(verdict, Conflict) and "address.zip" in verdict.reason


def test_append_after_required_new_column_conflicts(race, mine) -> None:
    """My file has no value for it."""
    added = Struct((*race.metadata.schema, Field("note", STRING, nullable=False)))
    assert isinstance(race.check(mine, race.won_alter(added)), Conflict)


def test_append_after_other_partitioning_conflicts(race, mine) -> None:
    verdict = race.check(mine, race.won_alter(partition_columns=("dt", "number")))
    assert isinstance(verdict, Conflict)
    assert "partitioning" in verdict.reason


def test_append_of_nothing_after_schema_change_rebases(race) -> None:
    assert race.check(race.append(), race.won_alter(race.altered("amount", type=STRING))) is None


@pytest.mark.parametrize(
    "kind",
    [Kind.APPEND, Kind.UPSERT, Kind.SETTLE, Kind.COMPACT, Kind.DELETE, Kind.UPDATE, Kind.OVERWRITE, Kind.RESTORE],
)
def test_upsert_settles_again_the_buckets_that_any_winner_touched(race, kind) -> None:
    mine = race.upsert(BUCKET, OTHER_BUCKET, actions=[race.file("mine")])
    winner = race.won(kind, [race.file("theirs")], buckets=frozenset({BUCKET, ('{"dt":"tue"}', 3)}))
    assert race.check(mine, winner) == Recompute("shop.orders", winner.version, buckets=frozenset({BUCKET}))


@pytest.mark.parametrize("kind", [Kind.UPSERT, Kind.COMPACT, Kind.DELETE, Kind.OVERWRITE])
def test_upsert_after_winner_of_other_buckets_rebases(race, kind) -> None:
    mine = race.upsert(BUCKET, actions=[race.file("mine")])
    assert race.check(mine, race.won(kind, [race.file("theirs")], buckets=frozenset({OTHER_BUCKET}))) is None


def test_upsert_on_read_after_anything_rebases(race) -> None:
    """It has matched no bucket: the version number orders the rows."""
    mine = race.upsert(actions=[race.file("mine")])
    assert race.check(mine, race.won(Kind.UPSERT, [race.file("theirs")], buckets=frozenset({BUCKET}))) is None


@pytest.mark.parametrize("kind", [Kind.DELETE, Kind.UPDATE, Kind.UPSERT])
def test_upsert_after_vector_on_the_same_file_settles_again(race, kind) -> None:
    """To land would bring the file in twice, with two vectors."""
    old = race.file("old")
    mine = race.upsert(BUCKET, actions=[old.remove(), race.struck(old), race.file("mine")])
    verdict = race.check(mine, race.won_delete(old, kind=kind))
    assert isinstance(verdict, Recompute)
    assert verdict.files == {old.key}


def test_upsert_after_compaction_of_the_same_file_settles_again(race) -> None:
    old = race.file("old")
    mine = race.upsert(BUCKET, actions=[old.remove(), race.struck(old), race.file("mine")])
    winner = race.won_compaction(old, buckets=frozenset({BUCKET}))
    expected = Recompute("shop.orders", winner.version, frozenset({old.key}), frozenset({BUCKET}))
    assert race.check(mine, winner) == expected


def test_upsert_after_not_null_conflicts_even_in_another_bucket(race) -> None:
    mine = race.upsert(BUCKET, actions=[race.file("mine", nulls={"id": 1})])
    assert isinstance(race.check(mine, race.won_alter(race.altered("id", nullable=False))), Conflict)
