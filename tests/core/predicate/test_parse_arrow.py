"""Arrow expressions keep their meaning: the same rows, whether Arrow filters or our nodes do."""

import datetime as dt
import math
import pickle
from decimal import Decimal as Exact

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lakebed.core.errors import PredicateError
from lakebed.core.predicate import arrow_wire, columns, evaluate, may_match, parse, render
from lakebed.core.predicate.nodes import And, Column, Compare, Literal, Opaque, walk
from lakebed.core.schema import BOOLEAN, DATE, DOUBLE, INTEGER, LONG, STRING, TIMESTAMP, Decimal, Field, Struct
from lakebed.core.schema_arrow import to_arrow
from lakebed.core.statistics import FileStats

SCHEMA = Struct(
    (
        Field("i", INTEGER), Field("l", LONG), Field("d", DOUBLE), Field("m", Decimal(10, 2)), Field("s", STRING),
        Field("t", DATE), Field("ts", TIMESTAMP), Field("flag", BOOLEAN), Field("st", Struct((Field("x", LONG),))),
    )
)  # fmt: skip
ROWS = pa.Table.from_pylist(
    [
        {},
        {
            "i": 1,
            "l": 1,
            "d": 1.0,
            "m": Exact("1.00"),
            "s": "a",
            "t": dt.date(2026, 1, 1),
            "flag": True,
            "st": {"x": 1},
        },
        {"i": 2, "l": 2, "d": math.nan, "m": Exact("2.50"), "s": "ab", "flag": False, "st": {}},
        {"i": -1, "d": -0.0, "s": "", "ts": dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "st": {"x": 5}},
        {"l": 7, "d": 0.0, "m": Exact("-1.00"), "s": "a%b\n", "t": dt.date(1969, 1, 1), "flag": True},
        {"i": 3, "l": -5, "d": math.inf, "s": "é", "flag": None, "st": None},
    ],
    schema=to_arrow(SCHEMA),
)
F = pc.field
CONSTANTS = {
    "i": [0, 1, 2, 2**40, 1.5, 2.0, None], "l": [0, 1, 7, -5, 1.5, 1.0, None],
    "d": [0, 1, 0.0, -0.0, math.nan, math.inf, None],
    "m": [Exact("1.00"), Exact("2.5"), 1, Exact("2.505")], "s": ["a", "", "é", "b", None],
    "t": [dt.date(2026, 1, 1), dt.date(2000, 1, 1), None],
    "ts": [
        dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(0, 7200))),
    ],
    "flag": [True, False, None],
}  # fmt: skip
COMPARE = [pc.equal, pc.not_equal, pc.less, pc.less_equal, pc.greater, pc.greater_equal]


def _compare(name):
    return st.builds(lambda f, v: f(F(name), v), st.sampled_from(COMPARE), st.sampled_from(CONSTANTS[name]))


def _listed(name):
    kind = ROWS.schema.field(name).type
    values = [v for v in CONSTANTS[name] if v not in (1.5, 2**40, Exact("2.505"))]
    return st.builds(
        lambda vs, skip: pc.is_in(F(name), value_set=pa.array(vs, kind), skip_nulls=skip),
        st.lists(st.sampled_from(values), max_size=3),
        st.booleans(),
    )


NAMES = st.sampled_from(list(CONSTANTS))
LEAVES = st.one_of(
    NAMES.flatmap(_compare),
    NAMES.flatmap(_compare),
    NAMES.flatmap(_listed),
    NAMES.map(lambda n: F(n).is_null()),
    st.builds(lambda n, nan: F(n).is_null(nan_is_null=nan), st.just("d"), st.booleans()),
    NAMES.map(lambda n: F(n).is_valid()),
    st.sampled_from(
        [
            F("flag"), pc.scalar(True), pc.scalar(pa.scalar(None, pa.bool_())), pc.is_nan(F("d")), F("st", "x") > 2,
            F("st", "x").is_null(), pc.starts_with(F("s"), "a"), pc.match_like(F("s"), "a%"),
            pc.match_like(F("s"), "a\\%b_"), pc.starts_with(F("s"), "A", ignore_case=True), pc.utf8_length(F("s")) > 1,
            F("i") + 1 > F("i"), F("i").cast(pa.int64()) > F("l"), F("l") + pa.scalar(1) > 2, pc.add(F("l"), 1) > 2,
            pc.negate_checked(F("l")) > 0, F("l") / 2 == 0, F("d") / 2.0 > 0, F("d").cast(pa.int64(), safe=False) > 0,
            pc.coalesce(F("l"), pa.scalar(3)) > 2, pc.coalesce(F("flag"), pa.scalar(False)), F("i") > F("l"),
            pc.if_else(F("flag"), F("l"), pa.scalar(9)) > 5, pc.if_else(F("flag"), F("flag"), pa.scalar(False)),
            pc.struct_field(F("st"), "x") == 1, pc.xor(F("flag"), F("flag")), F("ts") > pa.scalar(dt.date(2025, 1, 1)),
        ]
    ),
)  # fmt: skip
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(pc.and_, inner, inner),
        st.builds(pc.or_, inner, inner),
        inner.map(lambda a: ~a),
        inner.map(lambda a: a.is_null()),
    ),
    max_leaves=6,
)


@settings(
    max_examples=300, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(EXPRESSIONS)
def test_the_nodes_select_the_rows_that_arrow_selects(expression):
    try:
        ROWS.filter(expression)
    except pa.ArrowException:
        return  # Arrow cannot evaluate it, on these rows or at all
    node = parse(expression, SCHEMA)
    expected = [i for i in range(len(ROWS)) if ROWS.slice(i, 1).filter(expression).num_rows]
    found = evaluate(node, ROWS).to_pylist()
    assert [i for i, value in enumerate(found) if value is True] == expected
    assert columns(node) <= set(SCHEMA.names)


def test_a_simple_expression_is_the_same_node_as_its_sql():
    assert parse((F("i") > 5) & F("s").is_null(), SCHEMA) == parse("i > 5 AND s IS NULL", SCHEMA)
    assert parse(F("st", "x") == 1, SCHEMA) == parse("st.x = 1", SCHEMA)


def test_only_the_unknown_part_stays_opaque():
    node = parse((F("i") > 5) & (pc.utf8_length(F("s")) > 1), SCHEMA)
    assert isinstance(node, And)
    assert node.terms[0] == Compare(">", Column(("i",), INTEGER), Literal(5, INTEGER))
    assert isinstance(node.terms[1], Opaque)
    assert node.terms[1].reads == {"s"}
    assert "utf8_length" in render(node)
    files = FileStats(2, maxs={("i",): pa.array([5, 6], pa.int32())})
    assert may_match(node, files).to_pylist() == [False, True]


def test_nodes_with_opaque_parts_can_be_pickled_and_compared():
    node = parse(pc.utf8_length(F("s")) > 1, SCHEMA)
    assert pickle.loads(pickle.dumps(node)) == node
    assert hash(node) == hash(parse(pc.utf8_length(F("s")) > 1, SCHEMA))
    assert node != parse(pc.utf8_length(F("s")) > 2, SCHEMA)


def test_an_unknown_serialised_form_is_left_to_arrow(monkeypatch):
    def changed(expression):
        raise arrow_wire.WireError("another format")

    monkeypatch.setattr("lakebed.core.predicate.parse_arrow.decode", changed)
    expression = (F("l") > 1) & (F("l") < 7)
    node = parse(expression, SCHEMA)
    assert isinstance(node, Opaque)
    assert columns(node) == set(SCHEMA.names)
    assert evaluate(node, ROWS).to_pylist().count(True) == ROWS.filter(expression).num_rows


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (F("nope") > 1, "no such column 'nope'"),
        (F("I") > 1, "no such column 'I'"),
        (F("st", "z") > 1, "no such column 'z' in st"),
        (F("s") > 1, "no condition"),
        (F("i") + 1, "no condition"),
        (pc.field(0) > 1, "by position"),
    ],
)
def test_an_expression_that_does_not_fit_is_refused(expression, message):
    with pytest.raises(PredicateError, match=message):
        parse(expression, SCHEMA)


def test_every_common_function_is_modelled():
    modelled = (
        (F("i") >= 1) & F("s").isin(["a", "b"]) & ~F("flag") & F("d").is_valid() & pc.starts_with(F("s"), "a")
        & (pc.coalesce(F("l"), pa.scalar(3)) > 2) & (F("i").cast(pa.int64()) > F("l")) & (F("m") == 1)
    )  # fmt: skip
    assert not any(isinstance(part, Opaque) for part in walk(parse(modelled, SCHEMA)))
