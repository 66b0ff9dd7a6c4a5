"""docs/commands.md is true: its commands are those of the code, and its examples print what it says."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from lakebed.cli import failure
from lakebed.cli.main import app

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "commands.md").read_text("utf-8")
_BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_command_is_listed() -> None:
    section = PAGE.partition("## All commands\n")[2].partition("\n#")[0]
    listed = re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE)
    told = [(name, (one.help or "").partition("\n")[0]) for name, one in get_command(app).commands.items()]
    assert listed == told


def test_every_exit_code_is_told() -> None:
    codes = [getattr(failure, name) for name in ("OK", "FAILED", "USAGE", "INTERRUPTED", "READER_GONE")]
    told = PAGE.partition("Exit codes:")[2].partition("Errors go")[0]
    assert [int(code) for code in re.findall(r"\d+", told)] == codes


def test_every_global_option_is_told() -> None:
    section = PAGE.partition("## Options of every command\n")[2].partition("\nExit codes")[0]
    options = [name for one in get_command(app).params for name in one.opts if name.startswith("--")]
    ours = [
        name for name in options if name not in ("--version", "--help", "--install-completion", "--show-completion")
    ]
    assert re.findall(r"`(--\w+)`", section) == ours


def test_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of the page, in order, in an empty directory; … stands for anything."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setattr("lakebed.doctor.environment._version", lambda name: None if name == "pyspark" else "1.0")
    for kind, text in _BLOCK.findall(PAGE):
        if kind == "python":
            exec(compile(text, "commands.md", "exec"), {})
            continue
        for command, expected in re.findall(r"^\$ lakebed (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
            done = CliRunner().invoke(app, shlex.split(command))
            assert done.exit_code == 0, (command, done.stderr)
            if expected.strip() == "…":
                continue
            same = doctest.OutputChecker().check_output(expected.replace("…", "..."), done.stdout, doctest.ELLIPSIS)
            assert same, f"$ lakebed {command}\n{done.stdout}"
