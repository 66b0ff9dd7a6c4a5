"""doctor finds what is broken, says so of nothing else, and names what helps."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import lakebed
from lakebed.doctor import environment
from lakebed.doctor.environment import examine_environment
from lakebed.doctor.finding import Level

WRONG = ("warning", "error")


@dataclass(frozen=True)
class Broken:
    """A set-up, as a test is given it to break."""

    warehouse: Path
    directory: Path
    patch: pytest.MonkeyPatch

    @property
    def data_file(self) -> Path:
        with lakebed.connect(self.warehouse) as lake:
            return self.warehouse / "default" / "events" / lake.table("events").files()["path"][0].as_py()

    @property
    def log(self) -> Path:
        return self.warehouse / "default" / "events" / "_delta_log"


def no_java(it: Broken) -> None:
    it.patch.delenv("JAVA_HOME", raising=False)
    it.patch.setenv("PATH", str(it.directory))


def wrong_java(it: Broken) -> None:
    it.patch.setenv("JAVA_HOME", str(it.directory / "nowhere"))


def old_java(it: Broken) -> None:
    java = it.directory / "jdk8" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    it.patch.setenv("JAVA_HOME", str(it.directory / "jdk8"))


def unreachable_metastore(it: Broken) -> None:
    it.patch.setenv("LAKEBED_METASTORE", "postgresql://ann:hunter2@127.0.0.1:1/lake")


def unknown_schema(it: Broken) -> None:
    with sqlite3.connect(it.warehouse / ".lakebed" / "metastore.db") as database:
        database.execute("INSERT INTO lakebed_migrations (name, applied_at) VALUES ('9999-tomorrow', 0)")
        database.execute("UPDATE lakebed_meta SET schema_version = schema_version + 1")
    database.close()


def no_metastore(it: Broken) -> None:
    it.patch.setenv("LAKEBED_WAREHOUSE", str(it.directory / "elsewhere"))


def bad_settings(it: Broken) -> None:
    (it.directory / "lakebed.toml").write_text("batchsize = 3\n")


def unwritable_storage(it: Broken) -> None:
    """A file where a directory should be stops even root."""
    it.patch.setenv("LAKEBED_METASTORE", f"sqlite:///{it.warehouse}/.lakebed/metastore.db")
    (it.directory / "file").write_text("")
    it.patch.setenv("LAKEBED_WAREHOUSE", str(it.directory / "file"))


def missing_file(it: Broken) -> None:
    it.data_file.unlink()


def truncated_file(it: Broken) -> None:
    it.data_file.write_bytes(it.data_file.read_bytes()[:-10])


def corrupt_footer(it: Broken) -> None:
    content = bytearray(it.data_file.read_bytes())
    content[-8:-4] = b"\xff\xff\xff\x7f"
    it.data_file.write_bytes(content)


def orphans(it: Broken) -> None:
    path = it.data_file.with_name("left-by-a-killed-writer.parquet")
    path.write_bytes(b"PAR1")
    day = time.time() - 86_400
    os.utime(path, (day, day))


def deleted_log_file(it: Broken) -> None:
    (it.log / f"{1:020d}.json").unlink()


def unsettled_backlog(it: Broken) -> None:
    with lakebed.connect(it.warehouse) as lake:
        table = lake.create_table("late", "id BIGINT", primary_key=["id"], buckets=1, merge="on-read")
        for n in range(6):
            table.upsert([{"id": n}])


def small_files(it: Broken) -> None:
    with lakebed.connect(it.warehouse) as lake:
        table = lake.create_table("small", "n BIGINT")
        for n in range(6):
            table.append([{"n": n}])


BROKEN: dict[Callable[[Broken], None], tuple[str, str, str, str]] = {
    no_java: ("java", "warning", "none is on the PATH", "install Java 17"),
    wrong_java: ("java", "warning", "JAVA_HOME has no bin/java", "set JAVA_HOME"),
    old_java: ("java", "warning", "Java 8 is too old", "install Java 17"),
    unreachable_metastore: ("metastore", "error", "cannot be reached", "check that the server runs"),
    unknown_schema: ("metastore", "error", "schema that this Lakebed does not know", "use the Lakebed that made it"),
    no_metastore: ("metastore", "error", "there is no metastore", "create the warehouse first"),
    bad_settings: ("settings", "error", "unknown option 'batchsize'", "use 'batch_size'"),
    unwritable_storage: ("storage", "error", "files cannot be written", "use another place"),
    missing_file: ("files", "error", "1 file(s) missing", "from a backup"),
    truncated_file: ("files", "error", "1 damaged file(s)", "from a backup"),
    corrupt_footer: ("files", "error", "1 damaged file(s)", "from a backup"),
    orphans: ("files", "warning", "1 file(s) that no version needs", "lakebed vacuum default.events"),
    deleted_log_file: ("log", "error", "1 log file(s) missing", "lakebed doctor --fix"),
    unsettled_backlog: ("settle", "warning", "6 unsettled files in 1 bucket(s)", "lakebed settle default.late"),
    small_files: ("compact", "warning", "6 file(s) are small", "lakebed compact default.small"),
}


@pytest.fixture
def broken(warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Broken:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"' >&2\n")
    java.chmod(0o755)
    with lakebed.connect(warehouse) as lake:
        lake.table("shop.orders").compact()  # so that nothing is left to do
    return Broken(warehouse, tmp_path, monkeypatch)


@pytest.mark.parametrize("breaking", BROKEN, ids=lambda breaking: breaking.__name__)
def test_one_broken_set_up(run, broken: Broken, breaking: Callable[[Broken], None]) -> None:
    check, level, what, fix = BROKEN[breaking]
    breaking(broken)
    done = run("doctor", "--json")
    assert done.code == 1, done.out
    wrong = [one for one in done.json["findings"] if one["level"] in WRONG]
    assert [(one["check"], one["level"]) for one in wrong] == [(check, level)]
    assert what in wrong[0]["what"]
    assert fix in wrong[0]["fix"]
    assert "hunter2" not in done.out + done.err


def test_nothing_is_wrong(run, broken: Broken) -> None:
    done = run("doctor")
    assert done.code == 0, done.out
    assert done.out.splitlines()[-1] == "all is well"
    assert run("doctor", "--json").json["ok"] is True
    leftovers = list((broken.warehouse / ".lakebed").glob("doctor*"))
    assert leftovers == []


def test_an_unpublished_version_is_published(run, broken: Broken, hold_publication) -> None:
    hold_publication(lambda lake: lake.table("events").append([{"n": 9, "day": "mon"}]))
    done = run("doctor")
    assert done.code == 1
    assert "version 3 is in the metastore, but not in the open log" in done.out
    assert "lakebed doctor --fix" in done.out
    assert not (broken.log / f"{3:020d}.json").exists()
    fixed = run("doctor", "--fix")
    assert fixed.code == 0, fixed.out
    assert "repaired" in fixed.out
    assert (broken.log / f"{3:020d}.json").exists()
    assert run("doctor").code == 0


def test_after_a_checkpoint_a_missing_log_file_matters_less(run, broken: Broken) -> None:
    deleted_log_file(broken)
    with pytest.raises(lakebed.LakebedError):
        lakebed.read_delta(broken.log.parent)
    assert run("doctor", "--fix").code == 0
    assert lakebed.read_delta(broken.log.parent).count() == 2
    again = run("doctor", "--json")
    assert again.code == 1
    assert [one["level"] for one in again.json["findings"] if one["level"] in WRONG] == ["warning"]


def test_one_table_only(run, broken: Broken) -> None:
    missing_file(broken)
    assert run("doctor", "shop.orders").code == 0
    assert run("doctor", "events").code == 1
    unknown = run("doctor", "evnts")
    assert unknown.code == 1
    assert "did you mean 'default.events'?" in unknown.out


def test_a_file_of_an_older_version_is_missed_too(run, broken: Broken) -> None:
    """Time travel needs it, though the newest version does not."""
    with lakebed.connect(broken.warehouse) as lake:
        old = set(lake.table("events").at(version=1).files()["path"].to_pylist())
        now = set(lake.table("events").files()["path"].to_pylist())
    (broken.warehouse / "default" / "events" / (old - now).pop()).unlink()
    done = run("doctor")
    assert done.code == 1
    assert "1 file(s) missing" in done.out


def test_a_young_file_may_be_a_running_writers(run, broken: Broken) -> None:
    broken.data_file.with_name("being-written.parquet").write_bytes(b"PAR1")
    assert run("doctor").code == 0


def test_a_deep_look_opens_every_file(run, broken: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakebed.doctor import tables

    corrupt_footer(broken)
    monkeypatch.setattr(tables, "SAMPLED", 0)
    assert run("doctor").code == 0
    assert run("doctor", "--deep").code == 1


READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
"""A script that runs a command in which a directory is read-only, for root too; nobody else sees that."""


def within_read_only(directory: Path, *command: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    words = ["unshare", "--map-root-user", "--mount", "sh", "-c", READ_ONLY, str(directory), *command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120, env=environment)


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare (util-linux) is not installed")
def test_no_right_to_write(broken: Broken, environment: dict[str, str]) -> None:
    """The warehouse is on a file system that is mounted read-only, and its metastore is elsewhere."""
    tried = within_read_only(broken.warehouse, "true", environment=environment)
    if tried.returncode:
        pytest.skip(f"this kernel lets nobody mount in a namespace: {tried.stderr.strip()}")
    shutil.copy(broken.warehouse / ".lakebed" / "metastore.db", broken.directory / "metastore.db")
    environment["LAKEBED_METASTORE"] = f"sqlite:///{broken.directory}/metastore.db"
    environment["JAVA_HOME"] = str(broken.directory / "jdk")
    doctor = (sys.executable, "-m", "lakebed.cli", "doctor", "--json")
    done = within_read_only(broken.warehouse, *doctor, environment=environment)
    assert done.returncode == 1, done.stderr
    [found] = [one for one in json.loads(done.stdout)["findings"] if one["level"] in WRONG]
    assert (found["check"], found["level"]) == ("storage", "error")
    assert "files cannot be written" in found["what"]
    assert "Read-only file system" in found["what"]
    assert "right to write" in found["fix"]
    assert within_read_only(broken.directory / "jdk", *doctor, environment=environment).returncode == 0


def test_packages_that_are_missing_or_old(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"pyspark": "3.5.1", "duckdb": None, "sqlglot": None}
    real = environment._version
    monkeypatch.setattr(environment, "_version", lambda name: known.get(name, real(name)))
    found = {(one.check, one.subject): one for one in examine_environment({"PATH": ""})}
    assert found["package", "sqlglot"].level is Level.ERROR
    assert found["package", "sqlglot"].fix == "pip install sqlglot"
    assert found["package", "duckdb"].level is Level.FINE
    assert "3.5.1 is too old" in found["spark", "pyspark"].what
    monkeypatch.setattr(sys, "version_info", (3, 10, 1))
    assert next(iter(examine_environment({}))).level is Level.ERROR
