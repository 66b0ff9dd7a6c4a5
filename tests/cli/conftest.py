"""Commands in this process, and as a user starts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cli_warehouse import make_warehouse
from typer.testing import CliRunner

import lakebed
from lakebed.cli.main import app

SRC = Path(__file__).resolve().parents[2] / "src"


@dataclass(frozen=True)
class Done:
    """What a command has written, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Done]


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """A warehouse of its own for a test."""
    return make_warehouse(tmp_path / "w")


@pytest.fixture
def run(warehouse: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs a command on the warehouse, in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEBED_WAREHOUSE", str(warehouse))

    def command(*words: str | Path, input: str | None = None) -> Done:
        done = CliRunner().invoke(app, [str(word) for word in words], input=input)
        return Done(done.exit_code, done.stdout, done.stderr)

    return command


@pytest.fixture
def environment(warehouse: Path) -> dict[str, str]:
    """The environment of a process that works on the warehouse."""
    return {**os.environ, "PYTHONPATH": str(SRC), "LAKEBED_WAREHOUSE": str(warehouse)}


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Run:
    """Runs a command as a process of its own."""

    def command(*words: str | Path, **extra: str) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "lakebed.cli", *map(str, words)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=tmp_path,
            env={**environment, **extra},
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return command


@pytest.fixture
def hold_publication(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Does something to the warehouse while no log file can be written, as if the process had died after the commit."""

    def act(change: Callable[[lakebed.Warehouse], object]) -> None:
        from lakebed.storage.store import Store

        def fail(_store: Store, rel: str, _data: object) -> bool:
            raise lakebed.StorageError(f"{rel}: no log today")

        with monkeypatch.context() as patch, lakebed.connect(warehouse) as lake:
            patch.setattr(Store, "put_if_absent", fail)
            with pytest.warns(lakebed.PublicationWarning):
                change(lake)

    return act
