"""The demo: it runs, checks its numbers, looks right at 80 columns, and fails when a number is wrong."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(autouse=True)
def _examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


def run(*arguments: str) -> tuple[int, str]:
    """The exit code, and what was shown."""
    import demo  # type: ignore[import-not-found]
    from shop_demo.screen import Screen  # type: ignore[import-not-found]

    shown = io.StringIO()
    code = demo.main(list(arguments), Screen(Console(width=80, highlight=False, file=shown)))
    return code, shown.getvalue()


def check_screen(shown: str) -> None:
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line[0] for line in lines if line.endswith("───")] == list("12345678")
    assert "checks, all right" in lines[-1]


def test_it_runs_without_spark() -> None:
    code, shown = run("--without-spark")
    assert code == 0, shown
    check_screen(shown)


@pytest.mark.parametrize("wrong", ["total", "revenue"])
def test_a_wrong_number_ends_it(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from shop_demo.shop import Shop  # type: ignore[import-not-found]

    if wrong == "total":
        right = Shop.total.fget
        monkeypatch.setattr(Shop, "total", property(lambda shop: right(shop) + 1))
    else:
        monkeypatch.setattr(Shop, "revenue", lambda shop: {})
    code, shown = run("--without-spark")
    assert code == 1
    assert "A number is wrong." in shown
    assert "✗" in shown


def test_without_java_it_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/java").write_text("#!/bin/sh\necho 'this is no Java' >&2\nexit 1\n")
    (tmp_path / "bin/java").chmod(0o755)
    done = subprocess.run(
        [sys.executable, EXAMPLES / "demo.py"],
        env=os.environ | {"JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "needs Java 17 or newer" in done.stdout
    assert "this is no Java" in " ".join(done.stdout.split())
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.soak
@pytest.mark.spark
def test_it_runs_on_spark_and_prints_nothing_else(tmp_path: Path) -> None:
    """In a process of its own, as `make demo` does: the JVM says nothing on the terminal."""
    done: Any = subprocess.run(
        [sys.executable, EXAMPLES / "demo.py"], capture_output=True, text=True, cwd=tmp_path, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    check_screen(done.stdout)
    assert list(tmp_path.iterdir()) == []
