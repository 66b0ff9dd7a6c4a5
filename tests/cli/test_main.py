"""Exit codes, pipes, errors in words, and where the settings come from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lakebed

SECRET = "hunter2"


def test_exit_codes_of_a_process(start) -> None:
    assert start("ls").code == 0
    missing = start("show", "shop.ordres")
    assert missing.code == 1
    assert missing.out == ""
    assert missing.err.splitlines() == [
        "error: there is no table shop.ordres",
        "     fix: did you mean 'shop.orders'?",
    ]
    for words in (["nonsense"], ["show"], ["ls", "--nonsense"], ["history", "t", "--limit", "x"]):
        done = start(*words)
        assert done.code == 2, words
        assert "Traceback" not in done.err


def test_a_stack_trace_only_if_asked_for(start) -> None:
    assert "Traceback" not in start("show", "nope").err
    shown = start("show", "nope", "--debug")
    assert shown.code == 1
    assert "Traceback" in shown.err
    assert "NotFoundError" in shown.err


def test_a_bug_is_told_in_words(run, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakebed.metastore.glance import Glance

    def fail(*_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(Glance, "overviews", fail)
    done = run("show", "shop.orders")
    assert done.code == 1
    assert "error: RuntimeError: boom" in done.err
    assert "--debug" in done.err
    assert "Traceback" not in done.err


def test_global_options_stand_anywhere(run, warehouse: Path, tmp_path: Path) -> None:
    with lakebed.connect(tmp_path / "other") as lake:
        lake.create_table("there", "n BIGINT")
    for words in (
        ["--warehouse", tmp_path / "other", "ls", "--json"],
        ["ls", "--json", "-w", tmp_path / "other"],
        ["ls", f"--warehouse={tmp_path / 'other'}", "--json"],
    ):
        assert [one["table"] for one in run(*words).json] == ["default.there"]


def test_settings_from_a_file(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKEBED_WAREHOUSE")
    none = run("ls")
    assert none.code == 1
    assert "no warehouse is given" in none.err
    assert "--warehouse" in none.err
    (tmp_path / "lakebed.toml").write_text('warehouse = "w"\n')
    assert run("ls").code == 0
    (tmp_path / "lakebed.toml").write_text("warehouse = \n")
    assert "not valid TOML" in run("ls").err


def test_a_warehouse_is_made_by_init_only(run, tmp_path: Path) -> None:
    for words in (["ls"], ["files", "t"], ["settle", "t"]):
        done = run("--warehouse", tmp_path / "new", *words)
        assert done.code == 1
        assert "there is no warehouse at" in done.err
        assert "lakebed init" in done.err
        assert not (tmp_path / "new").exists()
    assert run("init", tmp_path / "new").code == 0
    assert run("-w", tmp_path / "new", "ls").out == "no tables yet\n"
    again = run("init", tmp_path / "new", "--json").json
    assert again["tables"] == 0


def test_init_writes_settings_without_a_password(run, tmp_path: Path, postgres_metastore) -> None:
    url = postgres_metastore().replace("postgres@", f"postgres:{SECRET}@")
    done = run("init", tmp_path / "new", "--metastore", url, "--config")
    assert done.code == 0
    assert SECRET not in done.out
    text = (tmp_path / "lakebed.toml").read_text()
    assert SECRET not in text
    assert "warehouse = " in text
    again = run("init", tmp_path / "new", "--config")
    assert again.code == 1
    assert "is here already" in again.err


def test_no_password_in_errors(run) -> None:
    done = run("ls", "--metastore", f"postgresql://ann:{SECRET}@127.0.0.1:1/lake")
    assert done.code == 1
    assert "cannot be reached" in done.err
    assert SECRET not in done.err + done.out


def test_a_reader_that_goes_away(environment: dict[str, str], warehouse: Path) -> None:
    """The command ends quietly, as others do in a pipe."""
    with lakebed.connect(warehouse) as lake:
        lake.create_table("wide", ", ".join(f"c{i} STRING COMMENT '{'x' * 200}'" for i in range(1500)))
    done = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m lakebed.cli show wide | head -n 1; echo ${{PIPESTATUS[0]}}"],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["default.wide  version 0", "141"]
    assert done.stderr == ""


def test_colours_only_on_a_terminal(start) -> None:
    assert "\x1b" not in start("ls").out
    assert "\x1b" not in start("ls", FORCE_COLOR="1").out


def test_ls_loads_nothing_heavy(environment: dict[str, str]) -> None:
    code = (
        "import sys; from lakebed.cli.main import app; app(['ls'], standalone_mode=False);"
        "heavy = {'pyspark', 'polars', 'duckdb', 'pyarrow', 'numpy', 'pandas', 'sqlglot', 'sqlalchemy'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_version(run) -> None:
    from lakebed.core.release import VERSION

    assert run("--version").out == f"lakebed {VERSION}\n"
