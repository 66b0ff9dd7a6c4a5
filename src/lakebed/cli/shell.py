"""The interactive shell: statements end with a semicolon, and may take several lines."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from lakebed.cli import amounts, failure, screen
from lakebed.cli.completing import Names, SqlCompleter, lexer
from lakebed.cli.querying import Format, Output, run_statement
from lakebed.cli.screen import FAINT, NAME, Cell, Column
from lakebed.cli.statements import is_blank, split
from lakebed.core.errors import InputError, LakebedError

if TYPE_CHECKING:
    from lakebed.warehouse import Warehouse

_PROMPT = "lakebed> "
_MORE = "      -> "
_ENDS = frozenset({"exit", "quit", "\\q"})
_HELP = (
    ("SQL;", "run a statement; it may take several lines"),
    ("\\d [TABLE]", "list tables, or show the columns of one"),
    ("\\format NAME", "table, json or csv"),
    ("\\limit N", "rows to show"),
    ("\\timing", "show how long statements take, or stop it"),
    ("\\q", "leave; so do exit and Ctrl-D"),
    ("Tab", "complete tables, columns and keywords"),
    ("Ctrl-C", "give up the line, or stop what runs"),
)


def history_file() -> Path:
    """Where the shell remembers what was typed; only its owner may read it, since statements may hold anything."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    path = Path(state) / "lakebed" / "history"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch(mode=0o600)
    return path


class Shell:
    """One session of a person with a warehouse."""

    def __init__(self, lake: Warehouse, output: Output) -> None:
        self._lake = lake
        self._output = replace(output, timing=True)
        self._names = Names(lake)

    def run(self) -> None:
        """Read and run statements until the person has had enough."""
        screen.say(
            Cell("lakebed", NAME), f" on {self._lake.location}; ", Cell("\\? helps, statements end with ;", FAINT)
        )
        prompt = self._prompt()
        while True:
            try:
                text = prompt.prompt()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if text.strip().rstrip(";").strip().lower() in _ENDS:
                return
            try:
                self._handle(text)
            except KeyboardInterrupt:
                screen.say(Cell("interrupted", FAINT))
            sys.stdout.flush()

    def _prompt(self) -> PromptSession[str]:
        return PromptSession(
            _PROMPT,
            history=FileHistory(str(history_file())),
            completer=SqlCompleter(self._names),
            complete_while_typing=False,
            lexer=lexer(),
            multiline=True,
            prompt_continuation=lambda _width, _line, _soft: _MORE,
            key_bindings=_keys(),
            enable_history_search=False,
        )

    def _handle(self, text: str) -> None:
        try:
            if text.lstrip().startswith("\\"):
                self._command(*text.split())
                return
            for statement in split(text)[0]:
                run_statement(self._lake, statement, self._output)
        except LakebedError as error:
            failure.tell(error)
        finally:
            self._names.forget()

    def _command(self, name: str, *words: str) -> None:
        if name == "\\d":
            self._describe(*words[:1])
        elif name == "\\timing":
            self._output.timing = not self._output.timing
            screen.say(f"timing is {'on' if self._output.timing else 'off'}")
        elif name == "\\format":
            if words[:1] not in ((Format.TABLE,), (Format.JSON,), (Format.CSV,)):
                raise InputError("\\format takes table, json or csv", found=" ".join(words) or "nothing")
            self._output.format = Format(words[0])
        elif name == "\\limit":
            if not words or not words[0].isdecimal() or int(words[0]) < 1:
                raise InputError("\\limit takes a number from 1", found=" ".join(words) or "nothing")
            self._output.limit = int(words[0])
        elif name in ("\\?", "\\h", "\\help"):
            screen.facts((what, Cell(text)) for what, text in _HELP)
        else:
            raise InputError(f"there is no command {name}", fix="\\? lists them")

    def _describe(self, table: str | None = None) -> None:
        if table is None:
            found = self._lake._metastore.overviews()
            columns = [Column("table", style=NAME), Column("rows", right=True), Column("size", right=True)]
            rows = [[str(one), amounts.number(one.rows), amounts.size(one.bytes)] for one in found]
            screen.table(columns, rows, empty="no tables yet")
            return
        from lakebed.core.schema_ddl import type_ddl

        metadata = self._lake.table(table)._point().metadata
        columns = [Column("column", style=NAME), Column("type"), Column("", style=FAINT, wrap=True)]
        rows = [
            [c.name, type_ddl(c.type) + ("" if c.nullable else " NOT NULL"), c.comment or ""] for c in metadata.schema
        ]
        screen.table(columns, rows)


def is_complete(text: str) -> bool:
    """Whether what was typed can be run: it ends with a semicolon, or is a command of the shell.

    >>> is_complete("select 1;"), is_complete("select ';"), is_complete("\\\\d"), is_complete("select 1")
    (True, False, True, False)
    """
    if text.lstrip().startswith("\\") or text.strip().lower() in _ENDS or not text.strip():
        return True
    whole, rest = split(text)
    return is_blank(rest) and (bool(whole) or text.rstrip().endswith(";"))


def _keys() -> KeyBindings:
    keys = KeyBindings()

    def whole() -> bool:
        from prompt_toolkit.application.current import get_app

        return is_complete(get_app().current_buffer.text)

    @keys.add("enter", filter=Condition(whole))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return keys
