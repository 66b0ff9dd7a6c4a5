"""The reference of commands, from the command line itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from api_reference import markdown
from table_reference import table
from typer.main import get_command

from lakebed.cli.main import app


def pages() -> dict[str, str]:
    """The Markdown of each page, by file name."""
    group: Any = get_command(app)
    lines = [
        "# Command list",
        "",
        "Examples, and what they are for: [commands](../commands.md).",
        "",
        "## lakebed",
        "",
        table(["option of every command", "meaning"], _parameters(group)),
        "",
    ]
    for name, command in group.commands.items():
        if not command.hidden:
            lines += [f"## lakebed {name}", "", markdown(command.help or ""), "", *_usage(command)]
    return {"command-list.md": "\n".join(lines)}


def _usage(command: Any) -> Iterator[str]:
    rows = list(_parameters(command))
    if rows:
        yield table(["argument or option", "meaning"], rows)
        yield ""


def _parameters(command: Any) -> Iterator[list[str]]:
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            shown = (parameter.metavar or parameter.name or "").upper()
        else:
            shown = ", ".join((*parameter.opts, *parameter.secondary_opts))
        if "--help" not in parameter.opts:
            yield [f"`{shown}`", " ".join((getattr(parameter, "help", None) or "").split())]
