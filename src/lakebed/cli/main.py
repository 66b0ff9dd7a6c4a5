"""The command ``lakebed``: its global options, and the commands of the other modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lakebed.cli import failure
from lakebed.cli.doctoring import doctor
from lakebed.cli.looking import files, history, ls
from lakebed.cli.making import init
from lakebed.cli.migrating import migrate
from lakebed.cli.moving import export, import_, recover
from lakebed.cli.querying import query
from lakebed.cli.session import Session
from lakebed.cli.showing import show
from lakebed.cli.upkeep import compact, expire, maintain, settle, vacuum
from lakebed.cli.versions import diff, restore, tag

_VALUED = ("--warehouse", "-w", "--metastore", "-m")
_FLAGS = ("--json", "--spark", "--debug")
_EPILOG = (
    "Global options may stand before or after the command. Exit codes: 0 all is well, 1 a failure or a finding, "
    "2 a wrong command line."
)


class Commands(TyperGroup):
    """Takes global options wherever they stand, and tells errors in words."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The rest of the arguments, once the global ones have come first."""
        return list(super().parse_args(ctx, [*_hoisted(args)]))

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with failure.told(debug=bool(ctx.params.get("debug"))):
            return super().invoke(ctx)


def _hoisted(args: list[str]) -> Iterator[str]:
    """The arguments with the global options first; what follows ``--`` is left alone."""
    own: list[str] = []
    rest: list[str] = []
    waiting = list(args)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            rest += [word, *waiting]
            break
        if word in _FLAGS or word.startswith(tuple(f"{name}=" for name in _VALUED if name.startswith("--"))):
            own.append(word)
        elif word in _VALUED:
            own += [word, *waiting[:1]]
            waiting = waiting[1:]
        else:
            rest.append(word)
    return iter([*own, *rest])


app = typer.Typer(
    cls=Commands,
    name="lakebed",
    help="Tables in Parquet with SQL metadata and an open Delta log.",
    epilog=_EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from lakebed.cli.screen import say
        from lakebed.core.release import VERSION

        say(f"lakebed {VERSION}")
        raise typer.Exit


@app.callback()
def begin(
    context: typer.Context,
    warehouse: Annotated[
        str | None, typer.Option("--warehouse", "-w", metavar="PATH", help="Directory or URI of the warehouse.")
    ] = None,
    metastore: Annotated[
        str | None, typer.Option("--metastore", "-m", metavar="URL", help="sqlite:///… or postgresql://…")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    spark: Annotated[bool, typer.Option("--spark", help="Use a local Spark session.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Tables in Parquet with SQL metadata and an open Delta log.

    Where the warehouse is: --warehouse, else LAKEBED_WAREHOUSE, else lakebed.toml.
    """
    context.obj = Session(warehouse, metastore, json, spark, debug)


PANELS: Mapping[str, Sequence[Callable[..., None]]] = {
    "Look": (ls, show, history, files, diff),
    "Ask": (query,),
    "Move": (init, import_, export, recover, migrate),
    "Keep": (settle, compact, vacuum, expire, maintain, tag, restore, doctor),
}
for panel, commands in PANELS.items():
    for command in commands:
        app.command(command.__name__.strip("_"), rich_help_panel=panel)(command)
app.command("sql", rich_help_panel="Ask", help="The same as query.")(query)


def main() -> None:
    """The entry point."""
    app()
