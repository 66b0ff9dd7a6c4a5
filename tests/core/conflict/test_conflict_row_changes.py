"""Mine is a delete, an update, a merge or an overwrite: only what cannot touch my rows may come between."""

from dataclasses import replace

import pytest

from lakebed.core.actions import Protocol
from lakebed.core.commit import Conflict, Kind, Recompute
from lakebed.core.schema import MAPPING_NAME, STRING, Field, Struct

ROW_CHANGES = [Kind.DELETE, Kind.UPDATE, Kind.MERGE, Kind.OVERWRITE]
BY_PARTITION = "dt = 'mon'"
BY_STATISTICS = "id BETWEEN 1 AND 10"

# Each is a predicate, a file that may match it, and one that cannot.
PREDICATES = [
    pytest.param(BY_PARTITION, {"dt": "mon"}, {"dt": "tue"}, id="partition"),
    pytest.param(BY_STATISTICS, {"ids": (10, 20)}, {"ids": (11, 20)}, id="statistics"),
    pytest.param("dt = 'mon' AND id > 100", {"ids": (1, 101)}, {"dt": "tue", "ids": (1, 101)}, id="both"),
    pytest.param("dt IS NULL", {"dt": None}, {"dt": "mon"}, id="null-partition"),
]

every_row_change = pytest.mark.parametrize("kind", ROW_CHANGES)


@pytest.fixture
def old(race):
    return race.file("old")


@every_row_change
@pytest.mark.parametrize("theirs", [Kind.APPEND, Kind.UPSERT])
@pytest.mark.parametrize(("where", "near", "far"), PREDICATES)
def test_row_change_after_append_or_upsert_that_cannot_match_rebases(race, old, kind, theirs, where, near, far) -> None:
    mine = race.change(kind, where, old)
    assert race.check(mine, race.won(theirs, [race.file("theirs", **far)])) is None


@every_row_change
@pytest.mark.parametrize("theirs", [Kind.APPEND, Kind.UPSERT])
@pytest.mark.parametrize(("where", "near", "far"), PREDICATES)
def test_row_change_after_append_or_upsert_that_may_match_conflicts(race, old, kind, theirs, where, near, far) -> None:
    mine = race.change(kind, where, old)
    winner = race.won(theirs, [race.file("far", **far), race.file("near", **near)])
    verdict = race.check(mine, winner)
    assert isinstance(verdict, Conflict)
    assert "added 1 file(s)" in verdict.reason


def test_delete_after_append_without_statistics_conflicts(race, old) -> None:
    winner = race.won(Kind.APPEND, [race.file("theirs", stats=None)])
    assert isinstance(race.check(race.change(Kind.DELETE, BY_STATISTICS, old), winner), Conflict)


def test_delete_that_found_nothing_after_append_that_may_match_conflicts(race) -> None:
    """It removes no file, but has promised that no such row is left."""
    winner = race.won(Kind.APPEND, [race.file("theirs")])
    assert isinstance(race.check(race.change(Kind.DELETE, BY_STATISTICS), winner), Conflict)


@every_row_change
@pytest.mark.parametrize("theirs", [Kind.SETTLE, Kind.COMPACT])
def test_row_change_after_settle_or_compact_of_my_files_finds_positions_again(race, old, kind, theirs) -> None:
    winner = race.won_compaction(old, race.file("else"), kind=theirs)
    verdict = race.check(race.change(kind, BY_STATISTICS, old), winner)
    assert verdict == Recompute("shop.orders", winner.version, files=frozenset({old.key}))


@every_row_change
@pytest.mark.parametrize("theirs", [Kind.SETTLE, Kind.COMPACT])
def test_row_change_after_settle_or_compact_of_other_files_rebases(race, old, kind, theirs) -> None:
    """The moved rows are not new: none of them qualified when I looked at their old files."""
    winner = race.won_compaction(race.file("else"), kind=theirs)
    assert race.check(race.change(kind, BY_STATISTICS, old), winner) is None


@every_row_change
@pytest.mark.parametrize("theirs", [Kind.DELETE, Kind.UPDATE, Kind.MERGE, Kind.UPSERT])
def test_row_change_after_row_change_of_the_same_file_conflicts(race, old, kind, theirs) -> None:
    verdict = race.check(race.change(kind, "id = 1", old), race.won_delete(old, kind=theirs))
    assert isinstance(verdict, Conflict)
    assert "same files" in verdict.reason


@every_row_change
@pytest.mark.parametrize("theirs", [Kind.DELETE, Kind.UPDATE, Kind.MERGE, Kind.UPSERT])
def test_row_change_after_vector_on_a_file_that_mine_left_alone_rebases(race, old, kind, theirs) -> None:
    """Disjoint keys must not conflict (Delta #761): the file could match by its bounds, but only lost rows."""
    mine = race.change(kind, "id = 1", old)
    assert race.check(mine, race.won_delete(race.file("else"), kind=theirs)) is None


@every_row_change
@pytest.mark.parametrize("theirs", [Kind.UPDATE, Kind.MERGE, Kind.OVERWRITE])
@pytest.mark.parametrize(("ids", "rebases"), [((1, 10), False), ((11, 20), True)])
def test_row_change_after_new_rows_conflicts_if_they_may_match(race, old, kind, theirs, ids, rebases) -> None:
    winner = race.won_delete(race.file("else"), kind=theirs, adds=[race.file("new", ids=ids)])
    verdict = race.check(race.change(kind, BY_STATISTICS, old), winner)
    assert verdict is None if rebases else isinstance(verdict, Conflict)


@every_row_change
def test_row_change_after_overwrite_of_the_same_files_conflicts(race, old, kind) -> None:
    winner = race.won(Kind.OVERWRITE, [race.file("new", ids=(50, 60))], [old])
    assert isinstance(race.check(race.change(kind, BY_STATISTICS, old), winner), Conflict)


@every_row_change
def test_row_change_after_overwrite_of_another_partition_rebases(race, old, kind) -> None:
    winner = race.won(Kind.OVERWRITE, [race.file("new", "tue")], [race.file("else", "tue")])
    assert race.check(race.change(kind, BY_PARTITION, old), winner) is None


@every_row_change
def test_row_change_after_restore_of_rows_that_may_match_conflicts(race, old, kind) -> None:
    winner = race.won(Kind.RESTORE, [race.file("older")], [race.file("else")])
    assert isinstance(race.check(race.change(kind, BY_STATISTICS, old), winner), Conflict)


@every_row_change
def test_row_change_after_restore_that_took_a_vector_back_conflicts(race, old, kind) -> None:
    """The file was in the table before and is after, but its dead rows live again."""
    other = race.file("else")
    winner = race.won(Kind.RESTORE, [other], [race.struck(other)])
    assert isinstance(race.check(race.change(kind, BY_STATISTICS, old), winner), Conflict)


@every_row_change
def test_row_change_after_restore_that_took_my_file_away_conflicts(race, old, kind) -> None:
    winner = race.won(Kind.RESTORE, removes=[old])
    assert isinstance(race.check(race.change(kind, BY_STATISTICS, old), winner), Conflict)


@every_row_change
def test_row_change_after_restore_of_other_rows_rebases(race, old, kind) -> None:
    winner = race.won(Kind.RESTORE, [race.file("older", "tue")], [race.file("else", "tue")])
    assert race.check(race.change(kind, BY_PARTITION, old), winner) is None


@every_row_change
def test_row_change_after_schema_change_conflicts(race, old, kind) -> None:
    added = Struct((*race.metadata.schema, Field("note", STRING)))
    verdict = race.check(race.change(kind, BY_STATISTICS, old), race.won_alter(added))
    assert isinstance(verdict, Conflict)
    assert "schema" in verdict.reason


@every_row_change
def test_row_change_after_properties_conflicts(race, old, kind) -> None:
    """The property may be the one that forbids it."""
    winner = race.won_alter(configuration={"delta.appendOnly": "true"})
    verdict = race.check(race.change(kind, BY_STATISTICS, old), winner)
    assert isinstance(verdict, Conflict)
    assert "properties" in verdict.reason


@every_row_change
def test_row_change_after_protocol_upgrade_conflicts(race, old, kind) -> None:
    winner = race.won(Kind.ALTER, protocol=Protocol(3, 7, (), ()))
    assert isinstance(race.check(race.change(kind, BY_STATISTICS, old), winner), Conflict)


def test_overwrite_after_append_conflicts(race, old) -> None:
    verdict = race.check(race.replace_all(old), race.won(Kind.APPEND, [race.file("theirs", "tue")]))
    assert isinstance(verdict, Conflict)


def test_overwrite_of_an_empty_table_after_append_conflicts(race) -> None:
    assert isinstance(race.check(race.replace_all(), race.won(Kind.APPEND, [race.file("theirs")])), Conflict)


def test_overwrite_after_overwrite_conflicts(race, old) -> None:
    """Paimon #8226: two writers both succeed, one's data is gone."""
    winner = race.won(Kind.OVERWRITE, [race.file("theirs")], [old])
    assert isinstance(race.check(race.replace_all(old, adds=[race.file("mine")]), winner), Conflict)


def test_overwrite_of_an_empty_table_after_overwrite_conflicts(race) -> None:
    winner = race.won(Kind.OVERWRITE, [race.file("theirs")])
    assert isinstance(race.check(race.replace_all(adds=[race.file("mine")]), winner), Conflict)


def test_overwrite_after_delete_conflicts(race, old) -> None:
    assert isinstance(race.check(race.replace_all(old), race.won_delete(old)), Conflict)


def test_overwrite_after_compact_finds_files_again(race, old) -> None:
    """To land would leave the compacted copy of the rows beside the new ones."""
    assert isinstance(race.check(race.replace_all(old), race.won_compaction(old)), Recompute)


@pytest.mark.parametrize(("day", "rebases"), [("mon", False), (None, False), ("tue", True)])
def test_dynamic_overwrite_after_append_conflicts_in_the_same_partition(race, day, rebases) -> None:
    winner = race.won(Kind.APPEND, [race.file("theirs", day)])
    verdict = race.check(race.replace_partitions("mon", None), winner)
    assert verdict is None if rebases else isinstance(verdict, Conflict)


@pytest.mark.parametrize(("day", "rebases"), [("mon", False), ("tue", True)])
def test_dynamic_overwrite_after_dynamic_overwrite_conflicts_in_the_same_partition(race, day, rebases) -> None:
    """Disjoint partitions must not conflict (Delta #761, delta-rs #2279)."""
    winner = race.won(Kind.OVERWRITE, [race.file("theirs", day)], [race.file(f"old-{day}", day)])
    verdict = race.check(race.replace_partitions("mon", removes=[race.file("old-mon")]), winner)
    assert verdict is None if rebases else isinstance(verdict, Conflict)


def test_dynamic_overwrite_after_delete_in_the_same_partition_conflicts(race, old) -> None:
    assert isinstance(race.check(race.replace_partitions("mon", removes=[old]), race.won_delete(old)), Conflict)


def test_dynamic_overwrite_of_nothing_after_append_rebases(race) -> None:
    assert race.check(race.replace_partitions(), race.won(Kind.APPEND, [race.file("theirs")])) is None


def test_delete_after_append_and_rename_conflicts_without_mixing_up_the_names(race, old) -> None:
    """My predicate's ``id`` is no longer the column of that name when the append is looked at."""
    schema = race.metadata.schema
    swapped = Struct(
        tuple(
            replace(f, name={"id": "amount", "amount": "id"}.get(f.name, f.name), metadata={MAPPING_NAME: f.name})
            for f in schema
        )
    )
    append = race.won(Kind.APPEND, [race.file("theirs", ids=(50, 60))])
    alter = race.won_alter(swapped)
    verdict = race.check(race.change(Kind.DELETE, BY_STATISTICS, old), append, alter)
    assert isinstance(verdict, Conflict)
    assert (verdict.version, verdict.theirs) == (alter.version, Kind.ALTER)


def test_delete_with_my_own_schema_change_after_append_conflicts(race, old) -> None:
    """One transaction has renamed the predicate's column: their file cannot be judged by it."""
    mine = race.change(Kind.DELETE, BY_STATISTICS, old)
    mine = replace(mine, actions=(race.won_alter().metadata, *mine.actions))
    assert isinstance(race.check(mine, race.won(Kind.APPEND, [race.file("theirs", ids=(50, 60))])), Conflict)
