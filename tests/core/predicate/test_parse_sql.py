import datetime as dt
from decimal import Decimal as Exact

import pytest

from lakebed.core.errors import PredicateError
from lakebed.core.predicate import columns, parse, parse_value, render
from lakebed.core.predicate.nodes import TRUE, And, Case, Cast, Column, Compare, In, IsNull, Like, Literal, Not, Or
from lakebed.core.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Array,
    Decimal,
    Field,
    Struct,
)  # fmt: skip

SCHEMA = Struct(
    (
        Field("id", LONG), Field("amount", DOUBLE), Field("price", Decimal(10, 2)), Field("dt", DATE),
        Field("ts", TIMESTAMP), Field("ntz", TIMESTAMP_NTZ), Field("region", STRING), Field("Name", STRING),
        Field("flag", BOOLEAN), Field("b", BYTE), Field("f", FLOAT), Field("bin", BINARY), Field("date", DATE),
        Field("s", Struct((Field("x", INTEGER), Field("c.d", STRING)))), Field("arr", Array(INTEGER)),
        Field("a b", LONG),
    )
)  # fmt: skip
ID, NAME, DAY = Column(("id",), LONG), Column(("Name",), STRING), Column(("dt",), DATE)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("amount < 0", Compare("<", Column(("amount",), DOUBLE), Literal(0.0, DOUBLE))),
        (
            "dt = '2026-11-15' and region in ('a','b')",
            And(
                (
                    Compare("=", DAY, Literal(dt.date(2026, 11, 15), DATE)),
                    In(Column(("region",), STRING), (Literal("a", STRING), Literal("b", STRING))),
                )
            ),
        ),
        ("name like 'A%' or name is null", Or((Like(NAME, "A%"), IsNull(NAME)))),
        ("id between 1 and 2", And((Compare(">=", ID, Literal(1, LONG)), Compare("<=", ID, Literal(2, LONG))))),
        ("NAME = 'it''s'", Compare("=", NAME, Literal("it's", STRING))),
        ("name = 'a' 'b'", Compare("=", NAME, Literal("ab", STRING))),
        ("s.x = 1", Compare("=", Column(("s", "x"), INTEGER), Literal(1, INTEGER))),
        ("S.`c.d` = ''", Compare("=", Column(("s", "c.d"), STRING), Literal("", STRING))),
        ("`a b` = -9223372036854775808", Compare("=", Column(("a b",), LONG), Literal(-(2**63), LONG))),
        ("name not like '5!%' escape '!'", Not(Like(NAME, "5\\%"))),
        ("startswith(name, 'a_')", Like(NAME, "a\\_%")),
        ("not id in (1, null)", Not(In(ID, (Literal(1, LONG), Literal(None, LONG))))),
        ("flag", Column(("flag",), BOOLEAN)),
        ("flag is true", Compare("<=>", Column(("flag",), BOOLEAN), TRUE)),
        ("b < 1000", Compare("<", Cast(Column(("b",), BYTE), INTEGER), Literal(1000, INTEGER))),
        ("price = 5", Compare("=", Column(("price",), Decimal(10, 2)), Literal(Exact(5), Decimal(10, 2)))),
        ("f = 0.5", Compare("=", Column(("f",), FLOAT), Literal(0.5, FLOAT))),
        ("f = 0.1", Compare("=", Cast(Column(("f",), FLOAT), DOUBLE), Literal(0.1, DOUBLE))),
        ("bin = X'00ff'", Compare("=", Column(("bin",), BINARY), Literal(b"\x00\xff", BINARY))),
        (
            "ts >= timestamp '2026-01-01 10:00:00+02:00'",
            Compare(">=", Column(("ts",), TIMESTAMP), Literal(dt.datetime(2026, 1, 1, 8, tzinfo=dt.UTC), TIMESTAMP)),
        ),
        (
            "ntz < '2026-01-01'",
            Compare("<", Column(("ntz",), TIMESTAMP_NTZ), Literal(dt.datetime(2026, 1, 1), TIMESTAMP_NTZ)),
        ),
        (
            "if(flag, id, 0) > 1",
            Compare(">", Case(((Column(("flag",), BOOLEAN), ID),), Literal(0, LONG)), Literal(1, LONG)),
        ),
        ("null", Literal(None, BOOLEAN)),
    ],
)
def test_sql_means(text, node):
    assert parse(text, SCHEMA) == node


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("amout < 0", "no such column 'amout'.*did you mean 'amount'.*the columns are id, amount"),
        ("s.y = 1", "no such column 'y' in s"),
        ("id.x = 1", "not a struct"),
        ("id = '5'", "BIGINT and STRING do not compare.*without quotes: 5"),
        ("name = 5", "STRING and INT do not compare"),
        ("flag = 1", "true or false"),
        ("bin = 'x'", "X'"),
        ("dt = '2026-13-01'", "is not a date.*YYYY-MM-DD"),
        ("dt = '2026-1-1'", "is not a date"),
        ("ts = 'noon'", "is not a timestamp"),
        ("id in (select id from t)", "a subquery .*run the subquery first"),
        ("exists (select 1)", "a subquery"),
        ("select 1", "a subquery"),
        ("sum(id) > 1", "aggregate function sum .* at character 1"),
        ("flag and count(*) > 1", "aggregate function count .* at character 10"),
        ("row_number() over (order by id) > 1", "window function"),
        ("flag and my_udf(id)", "the function my_udf .* at character 10"),
        ("id = ?", "a parameter"),
        ("current_date() > dt", "current_date.*literal"),
        ("try_cast(id as int) = 1", "try_cast"),
        ("id < 0 garbage", "trailing word 'garbage'"),
        ("id <", "cannot be parsed at line 1, column 4"),
        ("(id < 1", "cannot be parsed"),
        ("name = 'open", "cannot be parsed"),
        ("id = 1; drop table x", "not one expression"),
        ("", "empty"),
        ("id", "BIGINT; expected a condition"),
        ("not id", "expected a condition"),
        ("arr = arr", "does not compare"),
        ("arr[0] = 1", "not supported"),
        ("id in ()", "empty"),
        ("(id, b) in ((1, 2))", "not supported"),
        ("name like any ('x')", "not supported"),
        ("name like region", "constant text"),
        ("id like '1%'", "no text"),
        ("name like 'a\\\\b'", "escape"),
        ("name rlike '('", "regular expression"),
        ("price / 2 > 1", "cast an operand to double"),
        ("price * price * price * price > 1", "at most 38"),
        ("id + name > 1", "no arithmetic on STRING"),
        ("lower(id) = 'x'", "expected one string; found .BIGINT."),
        ("cast(id as binary) = X'00'", "cannot be cast"),
        ("cast(id as nonsense) = 1", "nonsense"),
        ("cast(id as variant) = 1", "variant"),
        ("cast('x' as int) = 1", "is no INT"),
        ("id = 1" + "0" * 40, "at most 38"),
        ("1 < id < 3", "do not compare"),
    ],
)
def test_what_is_not_a_predicate_is_refused_with_the_reason(text, message):
    with pytest.raises(PredicateError, match=f"(?is){message}"):
        parse(text, SCHEMA)


def test_a_predicate_may_be_none_or_a_node():
    assert parse(None, SCHEMA) is TRUE
    node = parse("id = 1", SCHEMA)
    assert parse(node, SCHEMA) is node
    with pytest.raises(PredicateError, match="no condition"):
        parse(ID, SCHEMA)
    with pytest.raises(PredicateError, match="expected SQL text"):
        parse(7, SCHEMA)


def test_names_that_differ_in_case_must_be_exact():
    twins = Struct((Field("a", LONG), Field("A", LONG)))
    assert parse("A = 1", twins) == Compare("=", Column(("A",), LONG), Literal(1, LONG))
    with pytest.raises(PredicateError, match="ambiguous"):
        parse("aa = 1", Struct((Field("aA", LONG), Field("Aa", LONG))))


def test_columns_are_the_top_level_names():
    assert columns(parse("s.x = 1 or lower(name) in ('a') and id > b", SCHEMA)) == {"s", "Name", "id", "b"}


def test_long_lists_and_chains_do_not_recurse():
    chain = parse(" or ".join(f"id = {n}" for n in range(2000)), SCHEMA)
    assert isinstance(chain, Or)
    assert len(chain.terms) == 2000
    with pytest.raises(PredicateError, match="nested too deeply"):
        parse("not " * 20000 + "flag", SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "`date` = DATE '2026-01-01'",
        "Name = 'a\\'b\\\\c'",
        "id <=> 5 AND (flag OR Name IS NOT NULL)",
        "amount = CAST('nan' AS DOUBLE)",
        "(id % CAST(2 AS BIGINT)) = 1",
        "CASE WHEN flag THEN id ELSE CAST(NULL AS BIGINT) END IS NULL",
    ],
)
def test_rendering_is_stable(text):
    assert render(parse(text, SCHEMA)) == text


@pytest.mark.parametrize(
    "name",
    [
        "select",
        "case",
        "null",
        "true",
        "in",
        "not",
        "timestamp",
        "a`b",
        "x y",
        "end",
        "div",
        "1a",
        "é",
        "interval",
        "current_date",
    ],
)
def test_any_column_name_survives_rendering(name):
    schema = Struct((Field(name, LONG),))
    node = Compare("=", Column((name,), LONG), Literal(1, LONG))
    assert parse(render(node), schema) == node


def test_value_expressions_have_spark_types():
    kinds = {
        "id * 2": LONG, "b + b": BYTE, "b + 1": INTEGER, "id / 2": DOUBLE, "price + 1": Decimal(11, 2),
        "id div 2": LONG,
        "price * price": Decimal(21, 4), "amount + price": DOUBLE, "coalesce(b, id)": LONG, "upper(name)": STRING,
        "year(ts)": INTEGER, "date_trunc('month', dt)": TIMESTAMP, "-price": Decimal(10, 2),
    }  # fmt: skip
    assert {text: parse_value(text, SCHEMA).type for text in kinds} == kinds
