"""Random predicates on random files, against an independent row-by-row reading of SQL's rules."""

import datetime as dt
import math
import operator
import re
from decimal import Decimal as Exact

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from lakebed.core.predicate import evaluate, may_match, must_match, parse, render, to_expression
from lakebed.core.predicate.functions import call
from lakebed.core.predicate.nodes import (
    And,
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    Column,
    Compare,
    Function,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    conjunction,
    disjunction,
    walk,
)  # fmt: skip
from lakebed.core.schema import (
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    MAPPING_NAME,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Decimal,
    Field,
    Struct,
)  # fmt: skip
from lakebed.core.schema_arrow import to_arrow, type_to_arrow
from lakebed.core.statistics import build_stats, parse_stats

MONEY = Decimal(10, 2)
WIDE = Decimal(20, 3)
INNER = Struct((Field("x", LONG, metadata={MAPPING_NAME: "col-x"}), Field("y", STRING)))
SCHEMA = Struct(
    (
        Field("i", INTEGER), Field("l", LONG), Field("b", BYTE), Field("f", FLOAT), Field("d", DOUBLE),
        Field("m", MONEY), Field("w", WIDE), Field("s", STRING), Field("t", DATE), Field("ts", TIMESTAMP),
        Field("ntz", TIMESTAMP_NTZ), Field("flag", BOOLEAN), Field("st", INNER, metadata={MAPPING_NAME: "col-st"}),
        Field("p", STRING), Field("q", INTEGER), Field("pd", DOUBLE),
    )
)  # fmt: skip
PARTITIONS = ("p", "q", "pd")
COLUMNS = [
    *(Column((f.name,), f.type) for f in SCHEMA if f.name != "st"),
    *(Column(("st", f.name), f.type) for f in INNER),
]
SMALL = [0, 1, 2, 3, -1, -2, 7, 100]
NUMBERS = st.sampled_from(SMALL)
TEXTS = [
    "",
    "a",
    "ab",
    "a%b",
    "A",
    "b",
    "ba",
    "é",
    "\U0001f600",
    "\uffff",
    "a" * 32,
    "a" * 40,
    "\U0010ffff" * 33,
    "'\\",
]
EPOCH = dt.datetime(1970, 1, 1)
MOMENTS = [
    EPOCH + dt.timedelta(microseconds=m) for m in (0, 1, 999, 1000, 1001, -1, -999, -1500, 86_400_000_000, 10**15 + 7)
]
DOMAINS = {
    INTEGER: [*SMALL, 2**31 - 1],
    LONG: [*SMALL, 2**53 + 1, -(2**63)],
    BYTE: SMALL,
    FLOAT: [0.0, -0.0, 0.5, -1.5, 0.10000000149011612, math.nan, math.inf],
    DOUBLE: [0.0, -0.0, 1.0, -1.5, 2.5, 1e300, math.nan, math.inf, -math.inf],
    MONEY: [Exact(v) for v in ("0.00", "1.50", "-1.55", "99.99")],
    WIDE: [Exact(v) for v in ("0.000", "12345678901234567.891", "12345678901234567.890", "-0.001")],
    STRING: TEXTS,
    DATE: [dt.date(1969, 12, 31), dt.date(2026, 1, 1), dt.date(2026, 11, 15), dt.date(2025, 12, 31)],
    TIMESTAMP: [m.replace(tzinfo=dt.UTC) for m in MOMENTS],
    TIMESTAMP_NTZ: MOMENTS,
    BOOLEAN: [True, False],
}
VALUES = {kind: st.sampled_from(values) for kind, values in DOMAINS.items()}
OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ORDERED = [k for k in VALUES if k != BOOLEAN]


def quick(examples):
    # Shrinking such large inputs takes minutes; the failing one says enough.
    phases = (Phase.explicit, Phase.reuse, Phase.generate)
    return settings(max_examples=examples, deadline=None, phases=phases, suppress_health_check=list(HealthCheck))


def literals(kind):
    return st.one_of(VALUES[kind], st.none() if kind != BOOLEAN else VALUES[kind]).map(lambda v: Literal(v, kind))


def same_column(kind):
    return st.sampled_from([c for c in COLUMNS if c.type == kind])


def operands(kind):
    choices = [same_column(kind), same_column(kind)]
    if kind == LONG:
        narrow = same_column(INTEGER)
        choices.append(narrow.map(lambda c: Cast(c, LONG)))
        choices.append(
            st.builds(
                lambda op, a, n: Arithmetic(op, Cast(a, LONG), Literal(n, LONG)), st.sampled_from("+-"), narrow, NUMBERS
            )
        )
        choices.append(narrow.map(lambda c: Negate(Cast(c, LONG))))
    if kind == INTEGER:
        choices.append(same_column(DATE).map(lambda c: call("year", [c])))
        choices.append(same_column(TIMESTAMP).map(lambda c: call("year", [c])))
        choices.append(same_column(STRING).map(lambda c: call("length", [c])))
    if kind == DOUBLE:
        choices.append(
            st.sampled_from([Column(("i",), INTEGER), Column(("l",), LONG), Column(("f",), FLOAT)]).map(
                lambda c: Cast(c, DOUBLE)
            )
        )
    if kind == STRING:
        choices.append(same_column(STRING).map(lambda c: call("upper", [c])))
    plain = st.one_of(*choices)
    both = st.tuples(plain, st.one_of(literals(kind), plain))
    return st.one_of(
        plain,
        plain,
        both.map(Coalesce),
        st.builds(lambda c, ab: Case(((c, ab[0]),), ab[1]), same_column(BOOLEAN), both),
    )


def comparisons(kind):
    ops = st.sampled_from([*OPERATORS, "<=>"])
    right = st.one_of(literals(kind), literals(kind), operands(kind))
    return st.one_of(
        st.builds(Compare, ops, operands(kind), right),
        st.builds(lambda op, a, b: Compare(op, b, a), ops, operands(kind), literals(kind)),
        st.builds(In, operands(kind), st.lists(literals(kind), min_size=1, max_size=4).map(tuple)),
        operands(kind).map(IsNull),
    )


PATTERN_TEXTS = ["a%", "%", "a", "", "_b", "a\\%%", "%b", "a_%", "a" * 33 + "%", "é%", "A%", "\uffff%"]
PATTERNS = st.sampled_from(PATTERN_TEXTS)
LEAVES = st.one_of(
    st.sampled_from(ORDERED).flatmap(comparisons),
    st.sampled_from(ORDERED).flatmap(comparisons),
    st.builds(Like, operands(STRING), PATTERNS),
    same_column(BOOLEAN),
    literals(BOOLEAN),
    st.builds(Compare, st.sampled_from([*OPERATORS, "<=>"]), same_column(BOOLEAN), literals(BOOLEAN)),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda t: conjunction(*t)),
        st.lists(inner, min_size=2, max_size=3).map(lambda t: disjunction(*t)),
        inner.map(Not),
        inner.map(IsNull),
        st.tuples(inner, inner).map(Coalesce),
        st.builds(lambda c, a, b: Case(((c, a),), b), inner, inner, inner),
    ),
    max_leaves=5,
)


@st.composite
def rows(draw, count):
    def value(kind):
        return draw(st.one_of(VALUES[kind], VALUES[kind], VALUES[kind], st.none()))

    constant = {name: value(SCHEMA[name].type) or None for name in PARTITIONS}
    made = []
    for _ in range(count):
        row = {f.name: value(f.type) for f in SCHEMA if f.name not in (*PARTITIONS, "st")}
        row["st"] = draw(
            st.one_of(st.none(), st.fixed_dictionaries({"x": st.just(value(LONG)), "y": st.just(value(STRING))}))
        )
        made.append(row | constant)
    return made, constant


FILES = st.lists(st.integers(0, 4).flatmap(rows), min_size=1, max_size=3)


def get(row, path):
    for name in path:
        row = None if row is None else row[name]
    return row


def statistics_of(made, omit, columns=COLUMNS):
    """The file's statistics as a writer makes them, through the JSON text."""
    mins, maxs, nulls = {}, {}, {}
    for column in columns:
        if column.path[0] in PARTITIONS:
            continue
        physical = tuple({"st": "col-st", "x": "col-x"}.get(n, n) for n in column.path)
        found = [get(row, column.path) for row in made]
        values = [v for v in found if v is not None and not is_nan(v)]
        if values and (column.path, "min") not in omit:
            mins[physical] = pa.scalar(min(values), type_to_arrow(column.type))
        if values and (column.path, "max") not in omit:
            maxs[physical] = pa.scalar(max(values), type_to_arrow(column.type))
        if (column.path, "nulls") not in omit:
            nulls[physical] = sum(v is None for v in found)
    return build_stats(len(made), mins, maxs, nulls)


def reference(node, row, spark):  # noqa: PLR0912
    """SQL's rules, spelled out for one row; ``spark`` makes NaN equal to itself and the largest."""

    def ev(n):
        return reference(n, row, spark)

    match node:
        case Column():
            return get(row, node.path)
        case Literal():
            return node.value
        case And():
            found = [ev(t) for t in node.terms]
            return False if False in found else None if None in found else True
        case Or():
            found = [ev(t) for t in node.terms]
            return True if True in found else None if None in found else False
        case Not():
            found = ev(node.operand)
            return None if found is None else not found
        case IsNull():
            return ev(node.operand) is None
        case Compare():
            return compare(node.op, ev(node.left), ev(node.right), spark)
        case In():
            found = [compare("=", ev(node.operand), v.value, spark) for v in node.values]
            return True if True in found else None if None in found else False
        case Like():
            text = ev(node.operand)
            return None if text is None else re.fullmatch(to_regex(node.pattern), text, re.DOTALL) is not None
        case Coalesce():
            return next((v for v in map(ev, node.args) if v is not None), None)
        case Case():
            return next((ev(v) for c, v in node.branches if ev(c) is True), ev(node.default))
        case Negate():
            found = ev(node.operand)
            return None if found is None else -found
        case Arithmetic():
            a, b = ev(node.left), ev(node.right)
            return None if a is None or b is None else a + b if node.op == "+" else a - b
        case Cast():
            found = ev(node.operand)
            if node.type == DATE:
                return None if found is None else found.date()
            return float(found) if node.type == DOUBLE and found is not None else found
        case Function():
            found = ev(node.args[0])
            known = {"year": lambda v: v.year, "length": len, "upper": lambda v: v.upper()}
            return None if found is None else known[node.name](found)
    raise AssertionError(node)


def is_nan(value):
    return isinstance(value, float) and math.isnan(value)


def to_regex(pattern):
    found = re.findall(r"\\(.)|(%)|(_)|(.)", pattern, re.DOTALL)
    return "".join(".*" if many else "." if one else re.escape(quoted or plain) for quoted, many, one, plain in found)


def compare(op, a, b, spark):
    if op == "<=>":
        return a is None and b is None if a is None or b is None else compare("=", a, b, spark)
    if a is None or b is None:
        return None
    if spark and (is_nan(a) or is_nan(b)):
        a, b = is_nan(a), is_nan(b)
    return OPERATORS[op](a, b)


@quick(150)
@given(CONDITIONS, FILES, st.data())
def test_pruning_is_never_wrong(node, files, data):
    places = st.tuples(st.sampled_from([c.path for c in COLUMNS]), st.sampled_from(["min", "max", "nulls"]))
    texts = []
    for made, _ in files:
        text = statistics_of(made, data.draw(st.frozensets(places, max_size=3)))
        texts.append(data.draw(st.sampled_from([text, text, text, text, None, "{broken"])))
    stats = parse_stats(texts, SCHEMA, [c.path for c in COLUMNS if c.path[0] not in PARTITIONS])
    stats = stats.with_partitions(
        {n: pa.array([constant[n] for _, constant in files], type_to_arrow(SCHEMA[n].type)) for n in PARTITIONS}
    )
    kept, whole = may_match(node, stats).to_pylist(), must_match(node, stats).to_pylist()
    for at, (made, _) in enumerate(files):
        for spark in (False, True):
            found = [reference(node, row, spark) for row in made]
            assert kept[at] or True not in found, (render(node), texts[at])
            assert not whole[at] or all(v is True for v in found), (render(node), texts[at])


@pytest.mark.parametrize("kind", ORDERED, ids=str)
def test_every_pair_of_values_against_every_comparison(kind):
    column, values = Column(("c",), kind), [*DOMAINS[kind], None]
    schema = Struct((Field("c", kind),))
    pairs = [(a, b) for a in values for b in values]
    texts = [statistics_of([{"c": a}, {"c": b}], (), [column]) for a, b in pairs]
    stats = parse_stats(texts, schema, [("c",)])
    nodes = [Compare(op, column, Literal(v, kind)) for op in [*OPERATORS, "<=>"] for v in values]
    nodes += [In(column, (Literal(v, kind), Literal(values[0], kind))) for v in values]
    nodes += [Like(column, p) for p in PATTERN_TEXTS] if kind == STRING else []
    for node in [*nodes, *(Not(n) for n in nodes)]:
        kept, whole = may_match(node, stats).to_pylist(), must_match(node, stats).to_pylist()
        for at, pair in enumerate(pairs):
            for spark in (False, True):
                found = [reference(node, {"c": value}, spark) for value in pair]
                assert kept[at] or True not in found, (render(node), pair)
                assert not whole[at] or found == [True, True], (render(node), pair)


@quick(100)
@given(CONDITIONS, st.integers(0, 4).flatmap(rows))
def test_evaluation_is_the_reference(node, made):
    table = pa.Table.from_pylist(made[0], schema=to_arrow(SCHEMA))
    expected = [reference(node, row, spark=False) for row in made[0]]
    assert evaluate(node, table).to_pylist() == expected
    assert table.filter(to_expression(node)).num_rows == expected.count(True)


@quick(120)
@given(CONDITIONS)
def test_rendered_predicates_parse_back(node):
    assume(not any(is_nan(v) for v in literal_values(node)))
    assert parse(render(node), SCHEMA) == node


def literal_values(node):
    return [n.value for n in walk(node) if isinstance(n, Literal)]
