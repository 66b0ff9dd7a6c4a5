"""The shell on a real terminal: what a person types, and what is on the screen then."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from cli_warehouse import make_warehouse

import lakebed

UP, TAB, CTRL_C, CTRL_D = "\x1b[A", "\t", "\x03", "\x04"
TIMEOUT = 120


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_warehouse(tmp_path_factory.mktemp("shell") / "w")


class Terminal:
    """A person in front of the shell."""

    def __init__(self, process: Any) -> None:
        self.process = process

    def type(self, text: str) -> None:
        self.process.send(text)

    def enter(self, text: str = "") -> None:
        self.process.send(text + "\r")

    def see(self, text: str) -> str:
        """Wait until the text is on the screen; what was there before it, without colours and movements."""
        self.process.expect_exact(text, timeout=TIMEOUT)
        return plain(self.process.before)

    def prompt(self) -> str:
        return self.see("lakebed> ")


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()=>][0-9A-B]?|\r", "", text)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def terminal(environment: dict[str, str], state: Path) -> Iterator[Terminal]:
    process = pexpect.spawn(
        sys.executable,
        ["-m", "lakebed.cli", "sql"],
        env={**environment, "XDG_STATE_HOME": str(state), "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"},
        dimensions=(40, 120),
        encoding="utf-8",
        timeout=TIMEOUT,
    )
    one = Terminal(process)
    one.prompt()
    yield one
    process.close(force=True)


def end(terminal: Terminal) -> int:
    terminal.process.expect(pexpect.EOF, timeout=TIMEOUT)
    terminal.process.close()
    status = terminal.process.exitstatus
    assert status is not None
    return int(status)


def test_statements_errors_and_the_end(terminal: Terminal) -> None:
    terminal.enter("SELECT name, count(*) AS n FROM shop.orders GROUP BY name ORDER BY name;")
    shown = terminal.see("3 row(s), ")
    assert re.search(r"ann\s+85", shown)
    assert re.search(r"bob\s+10", shown)
    terminal.prompt()
    # Several lines, with a semicolon in a text: it runs at the semicolon that ends it.
    terminal.enter("SELECT ';'")
    terminal.see("-> ")
    terminal.enter("  AS odd")
    terminal.see("-> ")
    terminal.enter(";")
    terminal.see("1 row(s), ")
    terminal.prompt()
    # An error is told, and the shell goes on.
    terminal.enter("SELECT * FROM shop.ordres;")
    assert "Traceback" not in terminal.see("error: ")
    terminal.see("shop.orders")
    terminal.prompt()
    terminal.enter("\\timing")
    terminal.see("timing is off")
    terminal.prompt()
    terminal.enter("SELECT 41 + 1 AS answer;")
    terminal.see("42")
    assert "row(s)" not in terminal.prompt()
    # Ctrl-C gives up what is typed; Ctrl-D on an empty line leaves.
    terminal.type("SELECT nonsense")
    terminal.see("nonsense")
    terminal.type(CTRL_C)
    terminal.prompt()
    terminal.type(CTRL_D)
    assert end(terminal) == 0


def test_completion_of_tables_columns_and_keywords(terminal: Terminal) -> None:
    terminal.type("sel" + TAB)
    terminal.see("select")
    terminal.type(" amo")
    terminal.type(CTRL_C)
    terminal.prompt()
    terminal.type("SELECT max(n) FROM shop.ord" + TAB)
    terminal.see("shop.orders")
    terminal.type(CTRL_C)
    terminal.prompt()
    terminal.type("SELECT n.n FROM events n WHERE n.da" + TAB)
    terminal.see("n.day")
    terminal.enter(" = 'tue';")
    assert re.search(r"\b2\b", terminal.see("1 row(s), "))
    terminal.prompt()
    terminal.type("\\q\r")
    assert end(terminal) == 0


def test_history_over_sessions(terminal: Terminal, environment: dict[str, str], state: Path) -> None:
    terminal.enter("SELECT 'remembered' AS it;")
    terminal.see("1 row(s), ")
    terminal.prompt()
    terminal.enter("exit")
    assert end(terminal) == 0
    file = state / "lakebed" / "history"
    assert "SELECT 'remembered' AS it;" in file.read_text()
    assert file.stat().st_mode & 0o077 == 0, "nobody else may read it"
    again = pexpect.spawn(
        sys.executable,
        ["-m", "lakebed.cli", "sql"],
        env={**environment, "XDG_STATE_HOME": str(state), "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"},
        dimensions=(40, 120),
        encoding="utf-8",
    )
    second = Terminal(again)
    second.prompt()
    second.type(UP + UP)
    second.see("'remembered'")
    second.enter()
    second.see("1 row(s), ")
    second.prompt()
    second.type(CTRL_D)
    assert end(second) == 0


def test_commands_of_the_shell(terminal: Terminal) -> None:
    terminal.enter("\\d")
    assert "default.events" in terminal.see("shop.orders")
    terminal.prompt()
    terminal.enter("\\d shop.orders")
    assert "BIGINT NOT NULL" in terminal.see("in euro")
    terminal.prompt()
    terminal.enter("\\format csv")
    terminal.prompt()
    terminal.enter("SELECT 1 AS a, 'x' AS b;")
    terminal.see('"a","b"')
    terminal.prompt()
    terminal.enter("\\format xml")
    terminal.see("takes table, json or csv")
    terminal.prompt()
    terminal.enter("\\format table")
    terminal.prompt()
    terminal.enter("\\limit 2")
    terminal.prompt()
    terminal.enter("SELECT id FROM shop.orders;")
    terminal.see("94 more rows")
    terminal.prompt()
    terminal.enter("\\nonsense")
    terminal.see("there is no command \\nonsense")
    terminal.prompt()
    terminal.enter("\\?")
    terminal.see("Ctrl-C")
    terminal.prompt()


def test_ctrl_c_stops_what_runs_and_the_shell_goes_on(terminal: Terminal) -> None:
    terminal.enter(
        "SELECT count(*) AS n FROM range(100000) a, range(100000) b, range(100) c WHERE a.range + b.range < 0;"
    )
    terminal.see("\r\n")
    os.kill(terminal.process.pid, signal.SIGINT)
    terminal.see("interrupted")
    terminal.prompt()
    terminal.enter("SELECT 7 AS still;")
    terminal.see("1 row(s), ")


def test_a_table_made_elsewhere_is_completed(terminal: Terminal, warehouse: Path) -> None:
    with lakebed.connect(warehouse) as lake:
        if "default.elsewhere" not in lake.tables():
            lake.create_table("elsewhere", "n BIGINT")
    terminal.type("SELECT n FROM elsew" + TAB)
    terminal.see("elsewhere")
    terminal.enter(";")
    terminal.see("no rows (n)")
