"""The tables of TPC-H, and its queries. Every contender's environment can import it."""

from __future__ import annotations

from pathlib import Path

KEYS = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
REFRESHED = ("orders", "lineitem")


def queries() -> dict[int, str]:
    """The queries by number."""
    return statements((Path(__file__).parent / "tpch.sql").read_text())


def statements(text: str) -> dict[int, str]:
    """The queries of a text, each below a line with its number."""
    found: dict[int, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("-- ") and line[3:].strip().isdigit():
            lines = found.setdefault(int(line[3:]), [])
        else:
            lines.append(line)
    return {number: "\n".join(query).strip() for number, query in found.items()}
