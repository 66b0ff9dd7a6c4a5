"""Names of namespaces and tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InputError
from lakebed.core.names import TableName, check_name
from lakebed.core.suggest import did_you_mean


def test_a_name_has_a_namespace_or_gets_the_default() -> None:
    assert TableName.parse("shop.orders") == TableName("shop", "orders")
    assert TableName.parse("orders") == TableName("default", "orders")
    assert str(TableName.parse("orders")) == "default.orders"


@pytest.mark.parametrize("text", ["orders_2026", "Orders", "größe", "注文", "a-b", "_x", "x" * 200, "1"])
def test_names_that_can_be(text) -> None:
    assert TableName.parse(f"{text}.{text}") == TableName(text, text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        "a.",
        ".a",
        "a.b.c",
        "a b",
        "a\tb",
        "a\nb",
        "a/b",
        "a\\b",
        "../x",
        "a`b",
        'a"b',
        "a'b",
        "a%20b",
        "a*",
        "x" * 201,
    ],
)
def test_names_that_cannot_be(text) -> None:
    with pytest.raises(InputError) as caught:
        TableName.parse(text)
    assert caught.value.expected


@pytest.mark.parametrize("text", ["a\u00a0b", "a\u2028b", "a\u200bb", "\ud800", "a\x00", "a\x85"])
def test_names_with_blanks_or_marks_that_nobody_sees_cannot_be(text) -> None:
    with pytest.raises(InputError):
        check_name(text, "table")


@pytest.mark.parametrize("found", [None, 5, b"orders", ["a", "b"]])
def test_what_is_not_text_is_refused(found) -> None:
    with pytest.raises(InputError, match="text"):
        TableName.parse(found)
    with pytest.raises(InputError, match="no name for a tag"):
        check_name(found, "tag")


def test_the_message_says_what_the_name_was_for() -> None:
    with pytest.raises(InputError, match="'a b' is no name for a namespace"):
        TableName.parse("a b.orders")
    with pytest.raises(InputError, match="'a b' is no name for a table"):
        TableName.parse("shop.a b")


@given(st.text(max_size=8))
def test_a_name_that_parses_reads_back_from_its_text_and_is_one_path_step(text) -> None:
    try:
        name = TableName.parse(text)
    except InputError:
        return
    assert TableName.parse(str(name)) == name
    assert not set("/\\.\0") & set(name.name)
    assert name.name.encode()


def test_near_names_are_suggested() -> None:
    assert did_you_mean("AMOUT", ["id", "Amount"]) == "did you mean 'Amount'?"
    assert did_you_mean("zzz", ["id", "amount"]) is None
    assert did_you_mean("x", []) is None
