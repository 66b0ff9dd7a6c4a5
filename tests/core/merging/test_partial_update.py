"""partial-update: the examples of Paimon's documentation, and what it says of deletes."""

from __future__ import annotations

import pytest
from tables import Table

from lakebed.core.errors import DataError

GROUPS = {"fields.g_1.sequence-group": "a,b", "fields.g_2.sequence-group": "c,d"}
TWO_GROUPS = "k int, a int, b int, g_1 int, c int, d int, g_2 int"


def test_nulls_do_not_overwrite() -> None:
    table = Table("k int, price double, sales int, text string", "partial-update")
    rows = [(1, 23.0, 10, None), (1, None, None, "This is a book"), (1, 25.2, None, None)]
    assert table.upsert(*rows) == [(1, 25.2, 10, "This is a book")]


def test_nulls_do_not_overwrite_across_commits() -> None:
    table = Table("k int, price double, sales int, text string", "partial-update")
    table.upsert((1, 23.0, 10, None))
    table.upsert((1, None, None, "This is a book"))
    assert table.upsert((1, 25.2, None, None)) == [(1, 25.2, 10, "This is a book")]
    assert table.state is not None
    assert table.state["_lakebed_row_version"].to_pylist() == [3]


def test_sequence_groups() -> None:
    table = Table(TWO_GROUPS, "partial-update", options=GROUPS)
    table.upsert((1, 1, 1, 1, 1, 1, 1))
    assert table.upsert((1, 2, 2, 2, 2, 2, None)) == [(1, 2, 2, 2, 1, 1, 1)]
    assert table.upsert((1, 3, 3, 1, 3, 3, 3)) == [(1, 2, 2, 2, 3, 3, 3)]


def test_sequence_groups_in_one_batch() -> None:
    table = Table(TWO_GROUPS, "partial-update", options=GROUPS)
    rows = [(1, 1, 1, 1, 1, 1, 1), (1, 2, 2, 2, 2, 2, None), (1, 3, 3, 1, 3, 3, 3)]
    assert table.upsert(*rows) == [(1, 2, 2, 2, 3, 3, 3)]


def test_null_in_a_group_updates() -> None:
    table = Table("k int, a int, g int", "partial-update", options={"fields.g.sequence-group": "a"})
    table.upsert((1, 1, 1))
    assert table.upsert((1, None, 2)) == [(1, None, 2)]


def test_sequence_group_of_several_columns() -> None:
    options = {"fields.g_1.sequence-group": "a,b", "fields.g_2,g_3.sequence-group": "c,d"}
    table = Table("k int, a int, b int, g_1 int, c int, d int, g_2 int, g_3 int", "partial-update", options=options)
    table.upsert((1, 1, 1, 1, 1, 1, 1, 1))
    assert table.upsert((1, 2, 2, 2, 2, 2, 1, None)) == [(1, 2, 2, 2, 1, 1, 1, 1)]
    assert table.upsert((1, 3, 3, 1, 3, 3, 3, 1)) == [(1, 2, 2, 2, 3, 3, 3, 1)]


def test_aggregation_in_groups() -> None:
    options = {
        "fields.a.sequence-group": "b",
        "fields.b.aggregate-function": "first_value",
        "fields.c.sequence-group": "d",
        "fields.d.aggregate-function": "sum",
    }
    table = Table("k int, a int, b int, c int, d int", "partial-update", options=options)
    rows = [(1, 1, 1, None, None), (1, None, None, 1, 1), (1, 2, 2, None, None), (1, None, None, 2, 2)]
    for row in rows[:-1]:
        table.upsert(row)
    assert table.upsert(rows[-1]) == [(1, 2, 1, 2, 3)]


def test_aggregation_in_a_group_takes_old_rows_too() -> None:
    options = {
        "fields.a.aggregate-function": "sum",
        "fields.g_1,g_3.sequence-group": "a",
        "fields.g_2.sequence-group": "c",
    }
    table = Table("k int, a int, b int, g_1 int, c string, g_2 int, g_3 int", "partial-update", options=options)
    table.upsert((1, 1, 1, 1, "1", 1, 1))
    assert table.upsert((1, 2, 2, 2, "2", None, 2)) == [(1, 3, 2, 2, "1", 1, 2)]
    assert table.upsert((1, 3, 3, 2, "3", 3, 1)) == [(1, 6, 3, 2, "3", 3, 2)]


def test_default_function() -> None:
    options = {
        "fields.a.sequence-group": "b",
        "fields.c.sequence-group": "d",
        "fields.default-aggregate-function": "last_non_null_value",
        "fields.d.aggregate-function": "sum",
    }
    table = Table("k int, a int, b int, c int, d int", "partial-update", options=options)
    rows = [(1, 1, 1, None, None), (1, None, None, 1, 1), (1, 2, 2, None, None), (1, None, None, 2, 2)]
    assert table.upsert(*rows) == [(1, 2, 2, 2, 3)]


def test_order_dependent_function_in_a_group_is_ordered_by_its_sequence() -> None:
    options = {"fields.g.sequence-group": "a", "fields.a.aggregate-function": "listagg"}
    table = Table("k int, a string, g int", "partial-update", options=options)
    table.upsert((1, "x", 5))
    assert table.upsert((1, "w", 4), (1, "y", 6)) == [(1, "w,x,y", 6)]


def test_deletes_are_refused_with_the_ways_out() -> None:
    table = Table("k int, v int", "partial-update")
    with pytest.raises(DataError) as refused:
        table.upsert((1, 1), ("-D", 2, None), ("-U", 3, None))
    message = str(refused.value)
    assert "2 rows of kind -D or -U" in message
    assert "-D of {'k': 2}" in message
    for way in ("ignore-delete", "remove-record-on-delete", "sequence groups"):
        assert way in message


def test_ignore_delete() -> None:
    table = Table("k int, v int", "partial-update", options={"ignore-delete": "true"})
    table.upsert((1, 1))
    assert table.upsert(("-D", 1, None), ("-U", 2, 5)) == [(1, 1)]


def test_remove_record_on_delete() -> None:
    table = Table("k int, a int, b int", "partial-update", options={"remove-record-on-delete": "true"})
    table.upsert((1, 1, 1), (2, 2, 2))
    assert table.upsert(("-D", 1, None, None)) == [(2, 2, 2)]
    assert table.upsert((1, 5, None)) == [(1, 5, None), (2, 2, 2)]
    # The row comes anew within a batch as well; the old half of an update says nothing.
    assert table.upsert(("-D", 2, None, None), ("-U", 2, 9, 9), (2, None, 7)) == [(1, 5, None), (2, None, 7)]


def test_group_takes_its_columns_back() -> None:
    table = Table(TWO_GROUPS, "partial-update", options=GROUPS)
    table.upsert((1, 1, 1, 1, 1, 1, 1))
    assert table.upsert(("-D", 1, 1, 1, 2, None, None, None)) == [(1, None, None, 2, 1, 1, 1)]
    # An older one changes nothing.
    assert table.upsert(("-D", 1, 1, 1, None, 1, 1, 0)) == [(1, None, None, 2, 1, 1, 1)]


def test_group_takes_a_sum_back_whatever_its_age() -> None:
    options = {"fields.g.sequence-group": "a", "fields.a.aggregate-function": "sum"}
    table = Table("k int, a int, g int", "partial-update", options=options)
    table.upsert((1, 5, 3))
    assert table.upsert(("-U", 1, 2, 1)) == [(1, 3, 3)]
    assert table.upsert(("-U", 1, 1, 4)) == [(1, 2, 4)]


def test_key_that_was_only_taken_back_has_no_row() -> None:
    table = Table(TWO_GROUPS, "partial-update", options=GROUPS)
    assert table.upsert(("-D", 1, 1, 1, 2, None, None, None)) == []


def test_remove_record_on_sequence_group() -> None:
    options = GROUPS | {"remove-record-on-sequence-group": "g_2"}
    table = Table(TWO_GROUPS, "partial-update", options=options)
    table.upsert((1, 1, 1, 1, 1, 1, 1), (2, 2, 2, 2, 2, 2, 2))
    # The other group takes only its columns back, and so does -U; an older delete does nothing.
    assert table.upsert(("-D", 1, 1, 1, 2, None, None, None))[0] == (1, None, None, 2, 1, 1, 1)
    assert table.upsert(("-U", 1, None, None, None, 1, 1, 1))[0] == (1, None, None, 2, None, None, 1)
    assert table.upsert(("-D", 2, None, None, None, 2, 2, 1))[1] == (2, 2, 2, 2, 2, 2, 2)
    assert table.upsert(("-D", 2, None, None, None, 2, 2, 3)) == [(1, None, None, 2, None, None, 1)]
    # After a removal the sequences begin anew, also within a batch.
    rows = [(2, 1, 1, 1, None, None, None), ("-D", 2, None, None, None, 2, 2, 3), (2, 7, 7, 1, 8, 8, 1)]
    assert table.upsert(*rows)[1] == (2, 7, 7, 1, 8, 8, 1)


def test_late_rows_fill_gaps() -> None:
    table = Table("k int, a int, b int, s int", "partial-update", sequence="s")
    table.upsert((1, 1, None, 5))
    assert table.upsert((1, 9, 9, 3)) == [(1, 1, 9, 5)]


def test_tombstone_beats_late_rows() -> None:
    table = Table("k int, a int, s int", "partial-update", sequence="s", options={"remove-record-on-delete": "true"})
    table.upsert((1, 1, 5))
    assert table.upsert(("-D", 1, None, 7)) == []
    assert table.tombstones() == [(1, None, 7)]
    assert table.upsert((1, 2, 6)) == []
    assert table.state is not None
    assert table.state["_lakebed_row_version"].to_pylist() == [2]
    assert table.upsert((1, 3, 7)) == [(1, 3, 7)]
    # A late delete lies under the row.
    assert table.upsert(("-D", 1, None, 6)) == [(1, 3, 7)]


def test_projected_reads_need_the_sequences_of_groups() -> None:
    """Paimon #10134: a projected read returned deleted rows."""
    options = GROUPS | {"remove-record-on-sequence-group": "g_2"}
    table = Table(TWO_GROUPS, "partial-update", options=options)
    assert table.spec.required(["a"]) == ("k", "a", "g_1", "g_2")


def test_a_group_takes_nothing_back_from_columns_that_must_have_a_value() -> None:
    ddl = "k int, a int not null, g int not null, b int, h int"
    options = {"fields.g.sequence-group": "a", "fields.h.sequence-group": "b"}
    table = Table(ddl, "partial-update", options=options)
    table.upsert((1, 5, 1, 6, 1))
    with pytest.raises(DataError, match="NOT NULL columns: a"):
        table.upsert(("-D", 1, 5, 2, 6, 2))
    assert table.upsert(("-D", 1, None, None, 6, 2)) == [(1, 5, 1, None, 2)]
    removing = Table(ddl, "partial-update", options={**options, "remove-record-on-sequence-group": "g"})
    removing.upsert((1, 5, 1, 6, 1), (2, 5, 1, 6, 1))
    assert removing.upsert(("-D", 1, None, 2, 6, 2)) == [(2, 5, 1, 6, 1)]
    with pytest.raises(DataError, match=r"NOT NULL columns: a[\s\S]*example -U of .*'k': 2"):
        removing.upsert(("-U", 2, 5, 2, 6, 2))
    keeping = Table(ddl, "partial-update", options={**options, "fields.a.ignore-retract": "true"})
    keeping.upsert((1, 5, 1, 6, 1))
    assert keeping.upsert(("-D", 1, 5, 2, 6, 2)) == [(1, 5, 2, None, 2)]
