"""Several winners, several claims, and what a verdict says."""

from dataclasses import replace

import pytest

from lakebed.core.actions import Metadata
from lakebed.core.commit import Claim, Conflict, Kind, Recompute
from lakebed.core.conflict import misfit

BUCKET = ('{"dt":"mon"}', 3)
OTHER_BUCKET = ('{"dt":"mon"}', 4)


@pytest.fixture
def old(race):
    return race.file("old")


def test_recomputes_of_several_winners_are_united(race) -> None:
    first, second = race.file("first"), race.file("second")
    mine = race.compaction(first, second, buckets=[BUCKET, OTHER_BUCKET])
    verdict = race.check(
        mine,
        race.won_compaction(first, buckets=frozenset({BUCKET})),
        race.won(Kind.APPEND, [race.file("new")]),
        race.won_delete(second),
        race.won(Kind.DELETE, buckets=frozenset({OTHER_BUCKET})),
    )
    expected = frozenset({first.key, second.key}), frozenset({BUCKET, OTHER_BUCKET})
    assert verdict == Recompute("shop.orders", 11, *expected)


def test_conflict_outweighs_recompute_in_either_order(race, old) -> None:
    mine = race.change(Kind.DELETE, "id = 1", old)
    moved, appended = race.won_compaction(old), race.won(Kind.APPEND, [race.file("new")])
    for winners in ((moved, appended), (appended, moved)):
        verdict = race.check(mine, *winners)
        assert isinstance(verdict, Conflict)
        assert verdict.version == appended.version


def test_many_harmless_winners_rebase(race, old) -> None:
    mine = race.change(Kind.UPDATE, "dt = 'mon'", old)
    harmless = [race.won(Kind.APPEND, [race.file(f"new-{n}", "tue")]) for n in range(20)]
    assert race.check(mine, *harmless) is None


def test_the_winner_that_conflicts_is_named_among_many(race, old) -> None:
    harmless = [race.won(Kind.APPEND, [race.file(f"new-{n}", "tue")]) for n in range(3)]
    culprit = race.won(Kind.UPSERT, [race.file("new")])
    later = [race.won(Kind.APPEND, [race.file(f"late-{n}", "tue")]) for n in range(3)]
    verdict = race.check(race.change(Kind.DELETE, "dt = 'mon'", old), *harmless, culprit, *later)
    assert isinstance(verdict, Conflict)
    assert (verdict.version, verdict.theirs) == (culprit.version, Kind.UPSERT)


def test_compaction_then_delete_of_the_moved_rows_conflicts_or_recomputes_but_never_lands(race, old) -> None:
    """My file is gone, and the rows that I struck now live in a file that somebody else has struck."""
    moved = race.moved(old)
    mine = race.change(Kind.DELETE, "id = 1", old)
    assert race.check(mine, race.won_compaction(old), race.won_delete(moved)) is not None


def test_every_claim_of_a_transaction_is_checked(race, old) -> None:
    """Append, then delete, in one commit: the append alone could land."""
    mine = race.mine(
        Claim(Kind.APPEND), race.claim(Kind.DELETE, "dt = 'mon'"), actions=[old.remove(), race.file("mine")]
    )
    assert race.check(mine, race.won(Kind.APPEND, [race.file("far", "tue")])) is None
    verdict = race.check(mine, race.won(Kind.APPEND, [race.file("near", "mon")]))
    assert isinstance(verdict, Conflict)
    assert verdict.mine is Kind.DELETE


def test_two_predicates_of_a_transaction_are_both_checked(race) -> None:
    mine = race.mine(race.claim(Kind.DELETE, "dt = 'mon'"), race.claim(Kind.UPDATE, "id > 100"))
    assert race.check(mine, race.won(Kind.APPEND, [race.file("a", "tue", ids=(1, 100))])) is None
    assert isinstance(race.check(mine, race.won(Kind.APPEND, [race.file("b", "tue", ids=(1, 101))])), Conflict)


def test_alter_and_append_in_one_transaction_conflict_with_another_alter(race) -> None:
    mine = race.mine(Claim(Kind.ALTER), Claim(Kind.APPEND), actions=[race.won_alter().metadata, race.file("mine")])
    assert isinstance(race.check(mine, race.won_alter()), Conflict)


def test_conflict_names_both_commits_and_what_to_do(race, old) -> None:
    winner = race.won(Kind.APPEND, [race.file("theirs"), race.file("more")])
    verdict = race.check(race.change(Kind.DELETE, "id = 1", old), winner)
    assert verdict == Conflict(
        table_name="shop.orders",
        mine=Kind.DELETE,
        version=8,
        theirs=Kind.APPEND,
        reason="it added 2 file(s) with rows that mine may concern",
        fix="run the delete again; it will then see version 8",
    )


def test_misfit_without_the_old_schema_looks_at_every_required_column(race) -> None:
    schema = race.altered("amount", nullable=False)
    strict: Metadata = race.won_alter(schema).metadata
    assert misfit([race.file("a")], strict) is None
    assert "'amount'" in misfit([race.file("a", nulls={"amount": 2})], strict)
    assert misfit([race.file("a", nulls={"amount": 2})], strict, made_for=strict) is None


def test_unpartitioned_files_do_not_fit_a_partitioned_table(race) -> None:
    assert "partitioning" in misfit([replace(race.file("a"), partition_values={})], race.metadata)
