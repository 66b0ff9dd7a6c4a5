"""How a command ends: exit codes, and errors in words instead of stack traces."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from lakebed.cli.screen import BAD, FAINT, WARN, is_terminal
from lakebed.core.errors import LakebedError

OK = 0
FAILED = 1
"""Something failed, or `doctor` has found something."""
USAGE = 2
"""The command line itself is wrong."""
INTERRUPTED = 130
READER_GONE = 141
"""Who read the output has gone, as in ``lakebed history t | head``."""


@contextmanager
def told(*, debug: bool) -> Iterator[None]:
    """Errors of the block are told on standard error, and end the command; with ``debug`` they are raised instead."""
    with warnings.catch_warnings():
        warnings.showwarning = _warn
        try:
            yield
            sys.stdout.flush()
        except BrokenPipeError:
            _abandon_output()
            raise typer.Exit(READER_GONE) from None
        except KeyboardInterrupt:
            _note("interrupted", style=WARN)
            raise typer.Exit(INTERRUPTED) from None
        except LakebedError as error:
            if debug:
                raise
            tell(error)
            raise typer.Exit(FAILED) from error
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if debug or _is_usage(error):
                raise
            _note(f"error: {type(error).__name__}: {error}", style=BAD)
            _note("this is a bug of Lakebed, or of something below it; --debug shows where it comes from", style=FAINT)
            raise typer.Exit(FAILED) from error


def tell(error: LakebedError) -> None:
    """An error on standard error: what, expected, found and the fix, each on a line."""
    _note(f"error: {error.what}", style=BAD)
    for name, text in (("expected", error.expected), ("found", error.found), ("fix", error.fix)):
        if text:
            _note(f"{name:>8}: {text}", style="" if name == "fix" else FAINT)


def _is_usage(error: Exception) -> bool:
    """Whether it is about the command line; those are shown by the parser of it, with exit code 2."""
    return any(kind.__name__ == "ClickException" for kind in type(error).__mro__)


def _abandon_output() -> None:
    """Nobody reads any more: what is still buffered goes nowhere, so that the interpreter's end stays quiet."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    _note(f"warning: {message}", style=WARN)


def _note(text: str, *, style: str) -> None:
    if not is_terminal(sys.stderr):
        sys.stderr.write(text + "\n")
        return
    from rich.text import Text

    from lakebed.cli.screen import console

    console(sys.stderr).print(Text(text, style=style), soft_wrap=True)
