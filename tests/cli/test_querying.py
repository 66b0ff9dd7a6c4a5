"""Statements from the command line, a file and a pipe; rows in every format."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakebed.cli.statements import is_blank, split

COUNT = "SELECT name, count(*) AS n FROM shop.orders GROUP BY name ORDER BY name"
EXPECTED = [("ann", 85), ("bob", 10), ("eve", 1)]


def test_a_table(run) -> None:
    done = run("query", COUNT)
    assert done.code == 0, done.err
    assert [line.split() for line in done.out.splitlines()] == [["name", "n"], *([n, str(c)] for n, c in EXPECTED)]
    assert run("sql", COUNT).out == done.out


def test_other_formats(run) -> None:
    assert [tuple(json.loads(line).values()) for line in run("query", COUNT, "--json").out.splitlines()] == EXPECTED
    assert run("query", COUNT, "--format", "json").out == run("query", COUNT, "--json").out
    rows = list(csv.reader(io.StringIO(run("query", COUNT, "--format", "csv").out)))
    assert [(name, int(count)) for name, count in rows[1:]] == EXPECTED
    assert run("query", COUNT, "--format", "xml").code == 2


def test_arrow(environment: dict[str, str]) -> None:
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "lakebed.cli", "query", COUNT, "--format", "arrow"],
        env=environment, capture_output=True, timeout=120, check=True,
    )  # fmt: skip
    found = pa.ipc.open_stream(io.BytesIO(done.stdout)).read_all()
    assert [tuple(row.values()) for row in found.to_pylist()] == EXPECTED


def test_several_statements_from_a_file_and_a_pipe(run, tmp_path: Path) -> None:
    text = (
        "-- makes a table\nCREATE TABLE made (n BIGINT, s STRING);\n/* and ; looks */ SELECT count(*) AS c FROM made;\n"
    )
    (tmp_path / "a.sql").write_text(text)
    done = run("query", "-f", tmp_path / "a.sql")
    assert done.code == 0, done.err
    assert done.out.splitlines()[-2:] == ["c", "0"]
    assert "default.made" in run("ls").out
    piped = run("query", input="SELECT 1 AS one; SELECT 2 AS two")
    assert piped.out.split() == ["one", "1", "two", "2"]
    assert run("query", "-f", "-", input="SELECT 3 AS three").out.split() == ["three", "3"]


def test_parameters(run) -> None:
    done = run("query", "SELECT id FROM shop.orders WHERE name = :who AND id < :most ORDER BY id", "--json",
               "--set", "who=bob", "--set", "most=2")  # fmt: skip
    assert [json.loads(line)["id"] for line in done.out.splitlines()] == [0, 1]
    assert "--set takes a name and a value" in run("query", "SELECT 1", "--set", "x").err


def test_what_is_wrong_is_told(run, tmp_path: Path) -> None:
    wrong = run("query", "SELECT * FROM shop.ordres")
    assert wrong.code == 1
    assert "shop.orders" in wrong.err
    assert run("query", "").code == 1
    assert run("query", input="").code == 1
    assert "exclude each other" in run("query", "SELECT 1", "-f", tmp_path / "a").err
    assert "cannot be read" in run("query", "-f", tmp_path / "a").err
    half = run("query", "SELECT 1 AS one; SELECT * FROM nope")
    assert half.code == 1
    assert half.out.split() == ["one", "1"]


def test_limits_and_nothing(run) -> None:
    assert (
        run("query", "SELECT id FROM shop.orders ORDER BY id", "--limit", "2")
        .out.splitlines()[-1]
        .startswith("94 more")
    )
    assert len(run("query", "SELECT id FROM shop.orders").out.splitlines()) == 97
    assert run("query", "SELECT id FROM shop.orders WHERE id < 0").out == "no rows (id)\n"


def test_values_cannot_steer_a_terminal(run) -> None:
    done = run("query", "SELECT 'a' || chr(27) || '[2J' AS x, NULL AS y")
    assert "\x1b" not in done.out
    assert done.out.split() == ["x", "y", "a\\x1b[2J", "NULL"]


@pytest.mark.soak
@pytest.mark.spark
def test_with_spark(start) -> None:
    done = start("query", COUNT, "--spark", "--json")
    assert done.code == 0, done.err
    assert [tuple(json.loads(line).values()) for line in done.out.splitlines()] == EXPECTED
    assert "WARN" not in done.out


@pytest.mark.parametrize(
    ("text", "whole", "rest"),
    [
        ("select 1; select 2;", ["select 1", "select 2"], ""),
        ("select 1", [], "select 1"),
        ("select ';' ; x", ["select ';'"], " x"),
        ("select 'it''s; fine'; ", ["select 'it''s; fine'"], " "),
        (r"select 'back\'; slash';", [r"select 'back\'; slash'"], ""),
        ('select "a;b";', ['select "a;b"'], ""),
        ("select `a;b`;", ["select `a;b`"], ""),
        ("select 1 -- no; end\n;", ["select 1 -- no; end"], ""),
        ("select /* no; end */ 1;", ["select /* no; end */ 1"], ""),
        ("select 'open; ", [], "select 'open; "),
        ("select /* open; ", [], "select /* open; "),
        (";;  ; -- nothing\n;", [], ""),
    ],
)
def test_where_statements_end(text: str, whole: list[str], rest: str) -> None:
    assert split(text) == (whole, rest)


def test_nothing_but_comments() -> None:
    assert is_blank(" -- select 1\n /* select */ ")
    assert not is_blank("'--'")
