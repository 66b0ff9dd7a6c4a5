"""``query``, also called ``sql``: statements from the command line, a file, a pipe, or a person."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakebed.cli import amounts, screen
from lakebed.cli.screen import FAINT, Cell
from lakebed.cli.session import Session
from lakebed.cli.statements import is_blank, split
from lakebed.core.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakebed.warehouse import Warehouse


class Format(StrEnum):
    """How rows are shown."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"


@dataclass
class Output:
    """How results are shown; a person may change it in the shell."""

    format: Format = Format.TABLE
    limit: int | None = None
    timing: bool = False


def query(
    context: typer.Context,
    statement: Annotated[
        str | None, typer.Argument(metavar="[SQL]", help="One statement, or several with ; between them.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Run the statements of a file; - is a pipe.")
    ] = None,
    format: Annotated[Format | None, typer.Option("--format", help="How rows are shown.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Rows of a table to show; 100 on a terminal.")
    ] = None,
    parameters: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter: :name in the statement.")
    ] = None,
) -> None:
    """Run SQL. Without a statement it is a shell on a terminal, and reads statements from a pipe.

    Without --spark, SELECT runs on an embedded engine. JSON has a row on each line.
    """
    if statement is not None and file is not None:
        raise InputError("a statement and a file exclude each other", fix="keep one of them")
    session = Session.of(context)
    chosen = format or (Format.JSON if session.json else Format.TABLE)
    on_terminal = screen.is_terminal(sys.stdout)
    output = Output(chosen, limit or (100 if on_terminal else None), timing=on_terminal and chosen is Format.TABLE)
    bound = dict(_parameter(text) for text in parameters or ())
    if statement is None and file is None and sys.stdin.isatty():
        from lakebed.cli.shell import Shell

        with session.lake() as lake:
            Shell(lake, output).run()
        return
    texts = _statements(statement if statement is not None else _read(file))
    with session.lake() as lake:
        for text in texts:
            run_statement(lake, text, output, bound)


def _read(file: Path | None) -> str:
    if file is None or str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the statements cannot be read from {file}", found=str(error)) from error


def _statements(text: str) -> list[str]:
    whole, rest = split(text)
    found = whole if is_blank(rest) else [*whole, rest.strip()]
    if not found:
        raise InputError("there is no statement", fix='lakebed query "SELECT …"')
    return found


def _parameter(text: str) -> tuple[str, Any]:
    """A name and its value: a number or a truth value if it looks like one, else text.

    >>> _parameter("least=3"), _parameter("name=ann"), _parameter("zip='0123'")
    (('least', 3), ('name', 'ann'), ('zip', '0123'))
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise InputError("--set takes a name and a value", expected="--set name=value", found=repr(text))
    return name, _value(value)


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def run_statement(lake: Warehouse, text: str, output: Output, parameters: dict[str, Any] | None = None) -> None:
    """Run one statement and show its rows. Raises LakebedError."""
    began = time.perf_counter()
    rows, more = _rows(lake.sql(text, **(parameters or {})), output)
    took = time.perf_counter() - began
    show(rows, output)
    if output.timing:
        count = f"{rows.num_rows:,}{' or more' if more else ''} row(s)" if rows.num_columns else "done"
        screen.say(Cell(f"{count}, {amounts.seconds(took)}", FAINT))


def _rows(found: Any, output: Output) -> tuple[pa.Table, bool]:
    """The rows of a result; of Spark's no more are fetched than are shown. Also whether there are more."""
    import pyarrow as pa

    if found is None:
        return pa.table({}), False
    if isinstance(found, pa.Table):
        return found, False
    if output.format is not Format.TABLE or output.limit is None:
        return found.toArrow(), False
    rows = found.limit(output.limit + 1).toArrow()
    return rows.slice(0, output.limit), rows.num_rows > output.limit


def show(rows: pa.Table, output: Output) -> None:
    """Rows on standard output."""
    if output.format is Format.TABLE:
        from lakebed.cli.results import show_table

        show_table(rows, output.limit)
        return
    from lakebed.cli.writers import write

    sys.stdout.flush()
    write(rows.to_batches(), rows.schema, sys.stdout.buffer, output.format.value)
    sys.stdout.buffer.flush()
