"""What a table may say of merging, and everything that is refused when it is created."""

from __future__ import annotations

from typing import Any

import pytest
from tables import metadata

from lakebed.core.actions import Metadata
from lakebed.core.errors import OptionError
from lakebed.core.keyed import MergeEngine
from lakebed.core.merging import MergeSpec, changes_rows, check_spec
from lakebed.core.merging.functions import Function

DDL = (
    "k bigint, n int, price decimal(10,2), text string, flag boolean, day date, raw binary, list array<int>, "
    "map map<string,int>, rows array<struct<id: int, x: array<int>>>, g int, h int, s bigint"
)


def refused(engine: str = "aggregation", sequence: str = "", **options: str) -> str:
    with pytest.raises(OptionError) as error:
        check_spec(metadata(DDL, engine, sequence=sequence, options=options["options"]))  # type: ignore[arg-type]
    return str(error.value)


@pytest.mark.parametrize(
    ("function", "columns"),
    [
        ("sum", "text flag day raw list map rows"),
        ("product", "text flag day raw list map rows"),
        ("count", "text flag price"),
        ("min", "flag raw list map rows"),
        ("max", "flag raw list map rows"),
        ("bool_and", "n text"),
        ("bool_or", "n text"),
        ("listagg", "n list raw"),
        ("collect", "n text map"),
        ("merge_map", "n list"),
        ("nested_update", "n list map"),
    ],
)
def test_functions_that_do_not_fit_the_type(function: str, columns: str) -> None:
    options = {f"fields.{name}.aggregate-function": function for name in columns.split()}
    message = refused(options=options)  # type: ignore[arg-type]
    for name in columns.split():
        assert f"column '{name}' of type" in message
    assert f"cannot have {function}" in message


@pytest.mark.parametrize(
    ("engine", "sequence", "options", "says"),
    [
        ("aggregation", "", {"fields.prise.aggregate-function": "sum"}, "did you mean 'price'?"),
        ("aggregation", "", {"fields.n.aggregate-function": "summ"}, "did you mean 'sum'?"),
        ("aggregation", "", {"fields.n.agregate-function": "sum"}, "did you mean 'aggregate-function'?"),
        ("aggregation", "", {"fields.k.aggregate-function": "sum"}, "'k' is part of the key"),
        ("aggregation", "s", {"fields.s.aggregate-function": "sum"}, "'s' is part of the sequence"),
        ("aggregation", "", {"fields.default-aggregate-function": "sum"}, "column 'text' of type"),
        ("aggregation", "", {"fields.g.sequence-group": "n"}, "sequence groups are for partial-update"),
        ("aggregation", "", {"fields.n.distinct": "true"}, "only for collect or listagg"),
        ("aggregation", "", {"fields.n.list-agg-delimiter": ";"}, "only for listagg"),
        ("aggregation", "", {"fields.n.nested-key": "id"}, "only for nested_update"),
        ("aggregation", "", {"fields.n.ignore-retract": "yes"}, "is true or false, not 'yes'"),
        ("aggregation", "", {"ignore-delete": "true", "remove-record-on-delete": "true"}, "contradict each other"),
        (
            "aggregation",
            "",
            {"fields.rows.aggregate-function": "nested_update", "fields.rows.nested-key": "idd"},
            "did you mean 'id'?",
        ),
        (
            "aggregation",
            "",
            {"fields.rows.aggregate-function": "nested_update", "fields.rows.nested-key": "x"},
            "not of a plain type",
        ),
        (
            "aggregation",
            "",
            {"fields.rows.aggregate-function": "nested_update", "fields.rows.count-limit": "0"},
            "a whole number of at least 1",
        ),
        ("partial-update", "", {"fields.n.aggregate-function": "sum"}, "is in no sequence group"),
        ("partial-update", "", {"fields.g.sequence-group": "n,n"}, "names column 'n' twice"),
        ("partial-update", "", {"fields.g.sequence-group": "nn"}, "names no column with 'nn'"),
        ("partial-update", "", {"fields.g.sequence-group": "k"}, "cannot have key column 'k'"),
        ("partial-update", "s", {"fields.s.sequence-group": "n"}, "which is in the table's sequence"),
        ("partial-update", "", {"fields.g.sequence-group": ""}, "protects no column"),
        ("partial-update", "", {"fields.text.sequence-group": "n"}, "cannot be ordered by 'text' of type"),
        (
            "partial-update",
            "",
            {"fields.g.sequence-group": "n,text", "fields.h.sequence-group": "text"},
            "column 'text' is in two groups",
        ),
        (
            "partial-update",
            "",
            {"fields.g.sequence-group": "n", "fields.g.aggregate-function": "sum"},
            "'g' is the sequence of a group",
        ),
        (
            "partial-update",
            "",
            {"fields.g.sequence-group": "n", "remove-record-on-delete": "true"},
            "use remove-record-on-sequence-group",
        ),
        ("partial-update", "", {"remove-record-on-sequence-group": "g"}, "'g' is not the sequence of a group"),
        ("first-row", "s", {}, "cannot have a sequence"),
        ("first-row", "", {"remove-record-on-delete": "true"}, "is for partial-update and aggregation"),
        ("deduplicate", "", {"fields.n.aggregate-function": "sum"}, "are for partial-update and aggregation"),
    ],
)
def test_refusals(engine: str, sequence: str, options: dict[str, str], says: str) -> None:
    assert says in refused(engine, sequence, options=options)  # type: ignore[arg-type]


def test_every_problem_is_listed() -> None:
    options: Any = {"fields.text.aggregate-function": "sum", "fields.oops.aggregate-function": "max"}
    message = refused(options=options)
    assert message.count("\n  - ") == 2
    assert "merge engine 'aggregation' cannot work with these properties" in message


def test_specification() -> None:
    options = {
        "fields.g,h.sequence-group": "n, price",
        "fields.n.aggregate-function": "sum",
        "fields.n.ignore-retract": "true",
        "fields.default-aggregate-function": "last_non_null_value",
        "remove-record-on-sequence-group": "h",
    }
    spec = MergeSpec.of(metadata(DDL, "partial-update", sequence="s", options=options))
    rules = {rule.name: rule for rule in spec.fields}
    assert (spec.key, spec.sequence, spec.engine) == (("k",), ("s",), MergeEngine.PARTIAL_UPDATE)
    assert (rules["n"].function, rules["n"].ignore_retract) == (Function.SUM, True)
    assert rules["price"].function is Function.LAST_NON_NULL_VALUE
    assert rules["g"].function is None
    assert spec.groups[0].sequence == ("g", "h")
    assert spec.groups[0].columns == ("n", "price")
    assert spec.remove_on_groups == ("h",)


def test_sketches_need_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.core.merging.sketches.available", lambda: False)
    options: Any = {"fields.raw.aggregate-function": "hll_sketch"}
    assert "needs the package 'datasketches'" in refused(options=options)


def test_columns_with_dots() -> None:
    options = {"fields.a.b.aggregate-function": "sum"}
    spec = MergeSpec.of(metadata("k int, `a.b` int", "aggregation", options=options))
    assert spec.fields[0].function is Function.SUM


def test_table_without_key_has_nothing_to_check() -> None:
    plain = metadata(DDL, "aggregation", options={"fields.oops.aggregate-function": "sum"})
    check_spec(Metadata("t", plain.schema_string, configuration={"fields.oops.aggregate-function": "sum"}))
    with pytest.raises(OptionError, match="without a primary key"):
        MergeSpec.of(Metadata("t", plain.schema_string))


def test_a_group_without_its_sequence_cannot_set_a_column_that_must_have_a_value() -> None:
    group = {"fields.g,h.sequence-group": "a,b"}
    with pytest.raises(OptionError, match=r"column 'a' is NOT NULL, but a row without the sequence of .*g,h"):
        check_spec(metadata("k int, a int not null, b int, g int, h int", "partial-update", options=group))
    check_spec(metadata("k int, a int not null, b int, g int, h int not null", "partial-update", options=group))


@pytest.mark.parametrize(
    ("function", "before", "after", "changes"),
    [
        ("sum", "int", "bigint", False),
        ("sum", "bigint", "decimal(38,0)", False),
        ("sum", "decimal(5,2)", "decimal(9,4)", False),
        ("sum", "int", "double", True),
        ("sum", "float", "double", True),
        ("product", "tinyint", "bigint", False),
        ("product", "decimal(5,2)", "decimal(9,2)", False),
        ("product", "decimal(5,2)", "decimal(9,4)", True),
        ("product", "bigint", "decimal(38,0)", True),
        ("max", "float", "double", False),
        ("last_value", "date", "timestamp_ntz", False),
        ("last_value", "int not null", "int", False),
        ("last_value", "int", "int not null", True),
        ("collect", "array<int>", "array<bigint>", True),
        ("last_value", "struct<a: int>", "struct<a: int, b: int>", True),
    ],
)
def test_what_changes_rows_that_wait(function: str, before: str, after: str, changes: bool) -> None:
    options = {"fields.v.aggregate-function": function}
    specs = [MergeSpec.of(metadata(f"k int, v {kind}", "aggregation", options=options)) for kind in (before, after)]
    assert changes_rows(specs[0], specs[1]) is changes
    other = MergeSpec.of(metadata(f"k int, v {before}", "aggregation", options={"fields.v.ignore-retract": "true"}))
    assert changes_rows(specs[0], other)
