"""The key model itself, against examples of Paimon's documentation and of our own contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from key_functions import Function, Refused
from key_merge import Group, Rules
from key_model import KeyModel
from model import ModelColumn

Values = tuple[Any, ...]


def table(columns: str, *, merge: str = "on-write", **rules: Any) -> KeyModel:
    """A model with these columns; the first is the key unless ``key`` says otherwise. Rules are by name."""
    names = columns.split()
    numbers = {name: number for number, name in enumerate(names)}

    def by_number(names: str) -> tuple[int, ...]:
        return tuple(numbers[name] for name in names.split())

    functions = {
        numbers[n]: f if isinstance(f, Function) else Function(f) for n, f in rules.pop("functions", {}).items()
    }
    made = Rules(
        key=by_number(rules.pop("key", names[0])),
        sequence=by_number(rules.pop("sequence", "")),
        functions=functions,
        groups=tuple(Group(by_number(s), by_number(c)) for s, c in rules.pop("groups", {}).items()),
        remove_on_groups=frozenset(by_number(rules.pop("remove_on_groups", ""))),
        **rules,
    )
    return KeyModel.new(made, [ModelColumn(number, name, "ANY") for name, number in numbers.items()], merge)


def put(model: KeyModel, *rows: Values, kinds: Sequence[str] | None = None) -> None:
    names = [c.name for c in model.now.columns]
    model.upsert([dict(zip(names, row, strict=True)) for row in rows], kinds)


def rows(model: KeyModel, version: int = -1) -> list[Values]:
    state = model.states[version]
    return [tuple(row.get(c.number) for c in state.columns) for _, row in sorted(state.rows.items())]


def test_deduplicate_keeps_the_newest_row() -> None:
    model = table("k price sales")
    put(model, (1, 183.0, 15))
    put(model, (1, 11.9, 20))
    assert rows(model) == [(1, 11.9, 20)]
    put(model, (1, 11.9, 20), kinds=["-D"])
    assert rows(model) == []
    assert rows(model, 1) == [(1, 183.0, 15)]


def test_the_last_row_of_a_batch_wins_unless_the_sequence_says_otherwise() -> None:
    plain, ordered = table("k v s"), table("k v s", sequence="s")
    for model in (plain, ordered):
        put(model, (1, "late", 9), (1, "last", 3))
    assert (rows(plain), rows(ordered)) == ([(1, "last", 3)], [(1, "late", 9)])


def test_equal_sequences_the_later_commit_wins_and_null_is_lowest() -> None:
    model = table("k v s", sequence="s")
    put(model, (1, "a", 5))
    put(model, (1, "b", 5))
    put(model, (1, "c", None))
    assert rows(model) == [(1, "b", 5)]
    put(model, (2, "a", None))
    put(model, (2, "b", None), (2, "c", None))
    assert rows(model)[1] == (2, "c", None)


def test_several_sequence_columns_are_compared_left_to_right() -> None:
    model = table("k v s t", sequence="s t")
    put(model, (1, "a", 5, 1))
    put(model, (1, "b", 5, None))
    put(model, (1, "c", 4, 9))
    assert rows(model) == [(1, "a", 5, 1)]
    put(model, (1, "d", 5, 2))
    assert rows(model) == [(1, "d", 5, 2)]


def test_a_late_row_loses_against_a_tombstone() -> None:
    model = table("k v s", sequence="s")
    put(model, (1, "a", 5))
    model.delete_keys([{"k": 1, "s": 7}])
    put(model, (1, "late", 6))
    assert rows(model) == []
    put(model, (1, "new", 7))
    assert rows(model) == [(1, "new", 7)]


def test_a_delete_before_its_row_is_remembered() -> None:
    model = table("k v s", sequence="s")
    model.delete_keys([{"k": 1, "s": 7}])
    put(model, (1, "late", 6))
    assert rows(model) == []


def test_without_sequence_a_delete_is_forgotten() -> None:
    model = table("k v")
    model.delete_keys([{"k": 1}])
    assert model.now.slots == {}


def test_a_predicate_delete_leaves_no_tombstone() -> None:
    model = table("k v s", sequence="s")
    put(model, (1, "a", 5), (2, "b", 5))
    assert model.delete_where(lambda row: row["v"] == "a") == 1
    put(model, (1, "late", 2))
    assert rows(model) == [(1, "late", 2), (2, "b", 5)]


def test_update_before_deletes_as_delete_does() -> None:
    model = table("k v")
    put(model, (1, "a"), (1, "a"), (1, "b"), kinds=["+I", "-U", "+U"])
    assert rows(model) == [(1, "b")]
    put(model, (1, "b"), kinds=["-U"])
    assert rows(model) == []


def test_ignore_delete() -> None:
    model = table("k v", ignore_delete=True)
    put(model, (1, "a"), (1, "b"), kinds=["+I", "-D"])
    assert rows(model) == [(1, "a")]


def test_first_row() -> None:
    model = table("k v", engine="first-row")
    put(model, (1, "a"), (1, "b"))
    put(model, (1, "c"), (2, "d"))
    assert rows(model) == [(1, "a"), (2, "d")]
    with pytest.raises(Refused):
        model.delete_keys([{"k": 1}])
    assert len(model.states) == 3


def test_partial_update() -> None:
    """<1, 23.0, 10, NULL>, <1, NULL, NULL, 'This is a book'>, <1, 25.2, NULL, NULL>."""
    model = table("k price n text", engine="partial-update")
    put(model, (1, 23.0, 10, None))
    put(model, (1, None, None, "This is a book"))
    put(model, (1, 25.2, None, None))
    assert rows(model) == [(1, 25.2, 10, "This is a book")]
    with pytest.raises(Refused):
        model.delete_keys([{"k": 1}])


def test_partial_update_a_late_row_is_merged_under_the_state() -> None:
    model = table("k a b s", engine="partial-update", sequence="s")
    put(model, (1, "a", None, 5))
    put(model, (1, "late", "late", 3))
    assert rows(model) == [(1, "a", "late", 5)]


def test_partial_update_remove_record_on_delete() -> None:
    model = table("k a b", engine="partial-update", remove_on_delete=True)
    put(model, (1, 1, 1))
    put(model, (1, None, None), kinds=["-U"])
    assert rows(model) == [(1, 1, 1)]
    put(model, (1, None, None), kinds=["-D"])
    assert rows(model) == []
    put(model, (1, None, 2))
    assert rows(model) == [(1, None, 2)]


def test_sequence_groups() -> None:
    model = table("k a b g_1 c d g_2", engine="partial-update", groups={"g_1": "a b", "g_2": "c d"})
    put(model, (1, 1, 1, 1, 1, 1, 1))
    put(model, (1, 2, 2, 2, 2, 2, None))
    assert rows(model) == [(1, 2, 2, 2, 1, 1, 1)]
    put(model, (1, 3, 3, 1, 3, 3, 3))
    assert rows(model) == [(1, 2, 2, 2, 3, 3, 3)]


def test_a_sequence_group_may_set_null() -> None:
    """«A true partial-update, not just a non-null update»."""
    model = table("k a g", engine="partial-update", groups={"g": "a"})
    put(model, (1, 1, 1))
    put(model, (1, None, 2))
    assert rows(model) == [(1, None, 2)]


def test_sequence_groups_of_several_columns() -> None:
    model = table("k a b g_1 c d g_2 g_3", engine="partial-update", groups={"g_1": "a b", "g_2 g_3": "c d"})
    put(model, (1, 1, 1, 1, 1, 1, 1, 1))
    put(model, (1, 2, 2, 2, 2, 2, 1, None))
    assert rows(model) == [(1, 2, 2, 2, 1, 1, 1, 1)]
    put(model, (1, 3, 3, 1, 3, 3, 3, 1))
    assert rows(model) == [(1, 2, 2, 2, 3, 3, 3, 1)]


def test_sequence_groups_retract() -> None:
    model = table("k a g_1 c g_2", engine="partial-update", groups={"g_1": "a", "g_2": "c"}, remove_on_groups="g_2")
    put(model, (1, 1, 1, 1, 1))
    put(model, (1, 1, 2, None, None), kinds=["-D"])
    assert rows(model) == [(1, None, 2, 1, 1)]
    put(model, (1, None, None, 1, 0), kinds=["-D"])
    assert rows(model) == [(1, None, 2, 1, 1)]
    put(model, (1, None, None, 1, 1), kinds=["-U"])
    assert rows(model) == [(1, None, 2, None, 1)]
    put(model, (1, None, None, 1, 1), kinds=["-D"])
    assert rows(model) == []


def test_aggregation_for_partial_update() -> None:
    functions = {"b": "first_value", "d": "sum"}
    model = table("k a b c d", engine="partial-update", groups={"a": "b", "c": "d"}, functions=functions)
    for row in [(1, 1, 1, None, None), (1, None, None, 1, 1), (1, 2, 2, None, None), (1, None, None, 2, 2)]:
        put(model, row)
    assert rows(model) == [(1, 2, 1, 2, 3)]


def test_aggregation_in_a_group_of_several_sequence_columns() -> None:
    groups = {"g_1 g_3": "a", "g_2": "c"}
    model = table("k a b g_1 c g_2 g_3", engine="partial-update", groups=groups, functions={"a": "sum"})
    put(model, (1, 1, 1, 1, "1", 1, 1))
    put(model, (1, 2, 2, 2, "2", None, 2))
    assert rows(model) == [(1, 3, 2, 2, "1", 1, 2)]
    put(model, (1, 3, 3, 2, "3", 3, 1))
    assert rows(model) == [(1, 6, 3, 2, "3", 3, 2)]


def test_a_default_function_for_partial_update() -> None:
    model = table(
        "k a b c d",
        engine="partial-update",
        groups={"a": "b", "c": "d"},
        functions={"d": "sum"},
        default_function=Function("last_non_null_value"),
    )
    for row in [(1, 1, 1, None, None), (1, None, None, 1, 1), (1, 2, 2, None, None), (1, None, None, 2, 2)]:
        put(model, row)
    assert rows(model) == [(1, 2, 2, 2, 3)]


def test_aggregation() -> None:
    """<1, 23.0, 15> and <1, 30.2, 20> make <1, 30.2, 35>."""
    model = table("k price sales", engine="aggregation", functions={"price": "max", "sales": "sum"})
    put(model, (1, 23.0, 15))
    put(model, (1, 30.2, 20))
    assert rows(model) == [(1, 30.2, 35)]


def aggregated(function: Function | str, *values: Any, kinds: Sequence[str] | None = None, sequence: Any = None) -> Any:
    """What the values become, each in a commit of its own."""
    given = sequence or [None] * len(values)
    model = table(
        "k v s", engine="aggregation", functions={"v": function}, sequence="s" if sequence is not None else ""
    )
    for value, kind, at in zip(values, kinds or ["+I"] * len(values), given, strict=True):
        put(model, (1, value, at), kinds=[kind])
    return rows(model)[0][1]


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        ("sum", (1, None, 2), 3),
        ("product", (2.0, None, 3.0), 6.0),
        ("count", ("x", None, "y"), 2),
        ("max", (1, None, 3, 2), 3),
        ("min", (2, None, 1), 1),
        ("last_value", (1, None), None),
        ("last_non_null_value", (1, 2, None), 2),
        ("first_value", (None, 1), None),
        ("first_value", (1, 2), 1),
        ("first_non_null_value", (None, 1, 2), 1),
        ("bool_and", (True, None, False), False),
        ("bool_or", (False, None, True), True),
        ("listagg", ("a", None, "b"), "a,b"),
        (Function("listagg", delimiter=";"), ("a", "b"), "a;b"),
        (Function("listagg", distinct=True), ("a,b", "b,c"), "a,b,c"),
        ("collect", (["a"], None, ["a", "b"]), ["a", "a", "b"]),
        (Function("collect", distinct=True), (["a", "a"], ["b", "a"]), ["a", "b"]),
        ("merge_map", ({1: "A"}, {2: "B", 1: "C"}), {1: "C", 2: "B"}),
        ("nested_update", ([{"n": 1}], [{"n": 1}]), [{"n": 1}, {"n": 1}]),
        (
            Function("nested_update", nested_key=("n",)),
            ([{"n": 1, "x": "a"}], [{"n": 2, "x": "b"}, {"n": 1, "x": "c"}]),
            [{"n": 1, "x": "c"}, {"n": 2, "x": "b"}],
        ),
    ],
)
def test_functions(function: Function | str, values: Values, expected: Any) -> None:
    assert aggregated(function, *values) == expected


@pytest.mark.parametrize(
    ("function", "first", "retracted", "expected"),
    [
        ("sum", 5, 2, 3),
        ("product", 6.0, 2.0, 3.0),
        ("count", "x", "x", 0),
        ("last_value", 5, 1, None),
        ("last_non_null_value", 5, 1, None),
        ("collect", ["a", "b", "b"], ["b"], ["a", "b"]),
        ("merge_map", {1: "A", 2: "B"}, {1: "X"}, {2: "B"}),
        ("nested_update", [{"n": 1}, {"n": 2}], [{"n": 1}], [{"n": 2}]),
        (Function("nested_update", nested_key=("n",)), [{"n": 1, "x": 1}], [{"n": 1, "x": 9}], []),
        (Function("max", ignore_retract=True), 5, 5, 5),
    ],
)
def test_functions_retract(function: Function | str, first: Any, retracted: Any, expected: Any) -> None:
    assert aggregated(function, first, retracted, kinds=["+I", "-U"]) == expected


@pytest.mark.parametrize(
    "name", ["max", "min", "first_value", "first_non_null_value", "bool_and", "bool_or", "listagg"]
)
def test_functions_that_cannot_retract_refuse(name: str) -> None:
    with pytest.raises(Refused):
        aggregated(name, None, None, kinds=["+I", "-D"])


def test_merge_map_retracts_what_another_stream_has_put() -> None:
    """«The final result is an empty map instead of +I[1->A]»."""
    assert aggregated("merge_map", {1: "A"}, {1: "B"}, {1: "B"}, kinds=["+I", "+I", "-D"]) == {}


def test_collect_cannot_retract_what_comes_later() -> None:
    """«If the table receives -U['A'] first, it can do nothing»."""
    assert aggregated("collect", ["A"], ["A", "B"], kinds=["-U", "+I"]) == ["A", "B"]


@pytest.mark.parametrize(
    ("function", "late", "expected"),
    [
        ("sum", 3, 8),
        ("count", "late", 2),
        ("last_value", 3, 5),
        ("last_non_null_value", 3, 5),
        ("first_value", 3, 3),
        ("first_non_null_value", 3, 3),
        ("max", 9, 9),
    ],
)
def test_a_late_row_is_aggregated_under_the_state(function: str, late: Any, expected: Any) -> None:
    assert aggregated(function, 5, late, sequence=[5, 3]) == expected


def test_listagg_and_collect_put_a_late_row_first() -> None:
    assert aggregated("listagg", "b", "c", "a", sequence=[2, 3, 1]) == "a,b,c"
    assert aggregated("collect", ["b"], ["a"], sequence=[2, 1]) == ["a", "b"]


def test_aggregation_remove_record_on_delete() -> None:
    model = table("k v s", engine="aggregation", functions={"v": "sum"}, remove_on_delete=True, sequence="s")
    put(model, (1, 5, 1), (1, 6, 2))
    put(model, (1, None, 3), kinds=["-D"])
    put(model, (1, 7, 2))
    assert rows(model) == []
    put(model, (1, 8, 4))
    assert rows(model) == [(1, 8, 4)]


def test_overwrite_of_all_rows_of_some_and_of_partitions() -> None:
    model = table("k part v")
    put(model, (1, "a", 1), (2, "b", 1), (3, "c", 1))
    model.overwrite([{"k": 4, "part": "a", "v": 2}], lambda row: row["part"] == "a")
    assert rows(model) == [(2, "b", 1), (3, "c", 1), (4, "a", 2)]
    model.overwrite_partitions([{"k": 5, "part": "b", "v": 3}], "part")
    assert rows(model) == [(3, "c", 1), (4, "a", 2), (5, "b", 3)]
    model.overwrite([])
    assert rows(model) == []
    model.restore(1)
    assert rows(model) == [(1, "a", 1), (2, "b", 1), (3, "c", 1)]


def test_an_overwrite_may_upsert_a_key_that_it_does_not_delete() -> None:
    model = table("k part v")
    put(model, (1, "a", 1), (2, "b", 1))
    model.overwrite([{"k": 2, "part": "a", "v": 9}], lambda row: row["part"] == "a")
    assert rows(model) == [(2, "a", 9)]


def settled(model: KeyModel) -> list[Values]:
    return sorted(tuple(row.values()) for row in model.now.settled().values())


def test_on_read_upserts_leave_the_settled_state_behind() -> None:
    model = table("k v", merge="on-read")
    put(model, (1, "a"))
    assert settled(model) == []
    model.settle()
    assert settled(model) == [(1, "a")]
    put(model, (1, "b"), (2, "c"))
    assert (settled(model), rows(model)) == ([(1, "a")], [(1, "b"), (2, "c")])
    model.change_merge("on-write")
    model.now.adopt(model.states[2].visible())
    put(model, (2, "d"))
    options = {key: [r and r[1] for r in found] for key, found in model.now.options().items()}
    assert options == {(1,): ["b", "a"], (2,): ["d"]}


def test_what_is_seen_of_the_settled_state_must_be_possible_and_is_held_on_to() -> None:
    model = table("k v", merge="on-read")
    put(model, (1, "a"), (2, "b"))
    model.settle(everything=False)
    one = table("k v")
    put(one, (2, "b"))
    model.now.adopt(one.now.visible())
    assert settled(model) == [(2, "b")]
    put(one, (3, "x"))
    model.settle(everything=False)
    with pytest.raises(AssertionError, match="settled, but should not be"):
        model.now.adopt(one.now.visible())
    with pytest.raises(AssertionError, match="key \\(2,\\)"):
        model.now.adopt(table("k v").now.visible())


def test_renaming_and_adding_columns_touches_no_row() -> None:
    model = table("k v", engine="aggregation", functions={"v": "sum"})
    put(model, (1, 5))
    model.rename_column("v", "w")
    model.add_column("note", "STRING")
    put(model, (1, 6, "x"))
    assert [c.name for c in model.now.columns] == ["k", "w", "note"]
    assert rows(model) == [(1, 11, "x")]


def test_an_overwrite_of_all_rows_takes_tombstones_along_and_one_of_some_rows_does_not() -> None:
    model = table("k part v s", sequence="s")
    model.delete_keys([{"k": 1, "s": 7}])
    late = {"k": 1, "part": "a", "v": 1, "s": 6}
    model.overwrite([late], lambda row: row["part"] == "a")
    assert rows(model) == []
    model.overwrite([late])
    assert rows(model) == [(1, "a", 1, 6)]


def test_an_overwrite_of_partitions_takes_their_tombstones_along() -> None:
    model = table("k part v s", key="k part", sequence="s")
    model.delete_keys([{"k": 1, "part": part, "s": 7} for part in "ab"])
    model.overwrite_partitions([{"k": 1, "part": "a", "v": 1, "s": 6}], "part")
    put(model, (1, "b", 1, 6))
    assert rows(model) == [(1, "a", 1, 6)]


def test_what_an_overwrite_of_partitions_does_to_tombstones_of_no_partition_is_left_open() -> None:
    model = table("k part v s", sequence="s")
    model.delete_keys([{"k": 1, "s": 7}])
    model.overwrite_partitions([{"k": 2, "part": "a", "v": 1, "s": 1}], "part")
    assert model.floor((1,)) == (7,)
    with pytest.raises(ValueError, match="not defined"):
        put(model, (1, "a", "late", 6))
    put(model, (1, "a", "new", 8))
    assert (rows(model)[0], model.floor((1,))) == ((1, "a", "new", 8), None)


def test_several_changes_in_one_commit_may_be_settled_up_to_any_of_them() -> None:
    model = table("k v", merge="on-read")
    put(model, (1, "a"))
    changes = [lambda m: put(m, (1, "b")), lambda m: put(m, (1, "c"), (2, "d"))]
    model.several(changes)
    assert (len(model.states), rows(model)) == (3, [(1, "c"), (2, "d")])
    assert {row and row[1] for row in model.now.options()[(1,)]} == {None, "a", "b", "c"}


def test_nothing_is_taken_back_by_groups_from_a_row_that_is_not_there() -> None:
    model = table("k a g", engine="partial-update", groups={"g": "a"})
    put(model, (1, 1, 1), kinds=["-D"])
    assert model.now.slots == {}
    put(model, (1, 1, 2), (1, 5, 1), kinds=["-U", "+I"])
    assert rows(model) == [(1, 5, 1)]
