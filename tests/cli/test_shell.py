"""The shell on a real terminal: what a person types, and what comes of it.

The line editor sends only what has changed on the screen, so that the tests look at results more than at echoes.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
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
    """One for all sessions: they only read."""
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
        """Wait until the text comes; what came before it, without colours and movements."""
        self.process.expect_exact(text, timeout=TIMEOUT)
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", self.process.before)

    def prompt(self) -> str:
        return self.see("lakebed>")

    def end(self) -> int:
        self.process.expect(pexpect.EOF, timeout=TIMEOUT)
        self.process.close()
        return int(self.process.exitstatus)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Where the shell keeps its history."""
    return tmp_path / "state"


@pytest.fixture
def open_shell(environment: dict[str, str], state: Path) -> Iterator[Callable[[], Terminal]]:
    """Begins a session."""
    begun: list[Any] = []

    def begin() -> Terminal:
        settings = {"XDG_STATE_HOME": str(state), "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"}
        words = ["-m", "lakebed.cli", "sql"]
        process = pexpect.spawn(
            sys.executable, words, env={**environment, **settings}, dimensions=(40, 120), encoding="utf-8"
        )
        begun.append(process)
        terminal = Terminal(process)
        assert "statements end with ;" in terminal.prompt()
        return terminal

    yield begin
    for process in begun:
        process.close(force=True)


@pytest.fixture
def terminal(open_shell: Callable[[], Terminal]) -> Terminal:
    """A session."""
    return open_shell()


def test_statements_errors_and_the_end(terminal: Terminal) -> None:
    terminal.enter("SELECT name, count(*) AS n FROM shop.orders GROUP BY name ORDER BY name;")
    shown = terminal.see("3 row(s), ")
    assert re.search(r"ann\s+85", shown)
    assert re.search(r"bob\s+10", shown)
    terminal.prompt()
    # Several lines, with a semicolon in a text: it runs at the semicolon that ends it.
    terminal.enter("SELECT ';'")
    terminal.see("->")
    terminal.enter("  AS odd")
    terminal.see("->")
    terminal.enter(";")
    terminal.see("1 row(s), ")
    terminal.prompt()
    # An error is told, and the shell goes on.
    terminal.enter("SELECT * FROM shop.ordres;")
    assert "Traceback" not in terminal.see("error: ")
    terminal.see("did you mean 'shop.orders'?")
    terminal.prompt()
    terminal.enter("\\timing")
    terminal.see("timing is off")
    terminal.prompt()
    terminal.enter("SELECT 6 * 7 AS answer;")
    terminal.see("42")
    assert "row(s)" not in terminal.prompt()
    # Ctrl-C gives up what is typed; Ctrl-D on an empty line leaves.
    terminal.type("SELECT nonsense FROM nowhere")
    terminal.type(CTRL_C)
    terminal.prompt()
    terminal.enter("SELECT 8 * 9 AS other;")
    assert "error" not in terminal.see("72")
    terminal.prompt()
    terminal.type(CTRL_D)
    assert terminal.end() == 0


def test_completion_of_tables_columns_and_keywords(terminal: Terminal, warehouse: Path) -> None:
    terminal.type("sel" + TAB)
    terminal.see("ect")
    terminal.enter(" 6 * 7 AS answer;")
    terminal.see("1 row(s), ")
    terminal.prompt()
    terminal.type("SELECT max(id) AS most FROM shop.ord" + TAB)
    terminal.see("ers")
    terminal.enter(";")
    assert "500" in terminal.see("1 row(s), ")
    terminal.prompt()
    terminal.type("SELECT e.n FROM events e WHERE e.da" + TAB)
    terminal.see("y")
    terminal.enter(" = 'tue';")
    assert re.search(r"\b2\b", terminal.see("1 row(s), "))
    terminal.prompt()
    with lakebed.connect(warehouse) as lake:
        lake.create_table("elsewhere", "n BIGINT")  # by somebody else, meanwhile
    terminal.enter("SELECT 1 AS one;")
    terminal.see("1 row(s), ")
    terminal.prompt()
    terminal.type("SELECT n FROM elsew" + TAB)
    terminal.see("here")
    terminal.enter(";")
    terminal.see("no rows (n)")
    terminal.prompt()
    terminal.enter("quit;")
    assert terminal.end() == 0


def test_history_over_sessions(open_shell: Callable[[], Terminal], state: Path) -> None:
    first = open_shell()
    first.enter("SELECT 6 * 7 AS remembered;")
    first.see("1 row(s), ")
    first.prompt()
    first.enter("exit")
    assert first.end() == 0
    file = state / "lakebed" / "history"
    assert "SELECT 6 * 7 AS remembered;" in file.read_text()
    assert file.stat().st_mode & 0o077 == 0, "nobody else may read it"
    second = open_shell()
    second.type(UP)
    second.see("exit")
    second.type(UP)
    second.see("remembered")
    second.enter()
    assert "42" in second.see("1 row(s), ")
    second.prompt()
    second.type(CTRL_D)
    assert second.end() == 0


def test_commands_of_the_shell(terminal: Terminal) -> None:
    terminal.enter("\\d")
    assert "default.events" in terminal.see("shop.orders")
    terminal.prompt()
    terminal.enter("\\d shop.orders")
    assert "BIGINT NOT NULL" in terminal.see("in euro")
    terminal.prompt()
    terminal.enter("\\format csv")
    terminal.enter("SELECT 1 AS a, 'x' AS b;")
    terminal.see('"a","b"')
    terminal.see("1 row(s), ")
    terminal.enter("\\format xml")
    terminal.see("takes table, json or csv")
    terminal.enter("\\format table")
    terminal.enter("\\limit 2")
    terminal.enter("SELECT id FROM shop.orders;")
    terminal.see("94 more rows")
    terminal.enter("\\nonsense")
    terminal.see("there is no command")
    terminal.enter("\\?")
    terminal.see("stop what runs")
    terminal.enter("\\q")
    assert terminal.end() == 0


def test_ctrl_c_stops_what_runs_and_the_shell_goes_on(terminal: Terminal) -> None:
    endless = "SELECT count(*) FROM range(100000) a, range(100000) b, range(100) c WHERE a.range + b.range < 0;"
    terminal.enter("SELECT 6 * 7 AS first; " + endless)
    terminal.see("1 row(s), ")  # now the second one runs
    os.kill(terminal.process.pid, signal.SIGINT)
    terminal.see("interrupted")
    terminal.prompt()
    terminal.enter("SELECT 6 * 7 AS still;")
    assert "42" in terminal.see("1 row(s), ")
