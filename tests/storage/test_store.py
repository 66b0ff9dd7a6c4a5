"""The store: one behaviour on local files and on S3."""

from __future__ import annotations

import errno
import os
import pickle
import socket
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from lakebed.core.errors import (
    AccessError,
    CorruptFileError,
    FileMissingError,
    InputError,
    LakebedError,
    NoSpaceError,
    OptionError,
    StorageError,
)
from lakebed.core.location import Location
from lakebed.core.options import Options
from lakebed.storage import durable
from lakebed.storage.failure import storage_error, translated
from lakebed.storage.filesystem import s3_arguments
from lakebed.storage.store import Store, open_store

ODD_NAME = "dt=2026-11-15 10%3A00/ü #1+.bin"


def everything(store: Store) -> list[str]:
    return sorted(info.path for info in store.list())


def test_put_and_read(store: Store) -> None:
    store.put("a/b.bin", b"one")
    store.put("a/b.bin", b"second")
    assert store.read("a/b.bin") == b"second"
    assert store.size("a/b.bin") == 6
    assert store.exists("a/b.bin")
    assert everything(store) == ["a/b.bin"]


def test_odd_names(store: Store) -> None:
    store.put(ODD_NAME, b"x")
    assert everything(store) == [ODD_NAME]
    assert store.read(ODD_NAME) == b"x"
    store.delete(ODD_NAME, missing_ok=False)
    assert everything(store) == []


def test_empty_and_large_files(store: Store) -> None:
    store.put("empty", b"")
    assert store.read("empty") == b""
    large = bytes(range(256)) * 80_000  # more than one part of a multipart upload
    store.put("large", memoryview(large))
    assert store.read("large") == large


def test_put_if_absent(store: Store) -> None:
    assert store.put_if_absent("log/1.json", b"mine")
    assert not store.put_if_absent("log/1.json", b"other")
    assert store.read("log/1.json") == b"mine"
    assert everything(store) == ["log/1.json"]


def test_of_many_local_writers_one_creates_the_file(local_store: Store) -> None:
    won: list[int] = []
    barrier = threading.Barrier(8)

    def race(number: int) -> None:
        barrier.wait()
        if local_store.put_if_absent("log/1.json", str(number).encode() * 1000):
            won.append(number)

    threads = [threading.Thread(target=race, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert local_store.read("log/1.json") == str(won[0]).encode() * 1000
    assert everything(local_store) == ["log/1.json"]


def test_create_without_hard_links(local_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    assert local_store.put_if_absent("a", b"1")
    assert not local_store.put_if_absent("a", b"2")
    assert local_store.read("a") == b"1"
    assert everything(local_store) == ["a"]


def test_list(store: Store) -> None:
    for name in ("a/1", "a/b/2", "c/3", "4"):
        store.put(name, name.encode())
    assert everything(store) == ["4", "a/1", "a/b/2", "c/3"]
    assert sorted(i.path for i in store.list("a")) == ["a/1", "a/b/2"]
    assert [i.path for i in store.list("a", recursive=False)] == ["a/1"]
    assert [i.path for i in store.list(recursive=False)] == ["4"]
    assert list(store.list("nothing")) == []
    found = next(iter(store.list("c")))
    assert found.size == 3
    assert abs(found.mtime_ms - time.time() * 1000) < 120_000
    assert store.info("c/3") == found


def test_a_store_that_is_not_there_is_empty(store: Store) -> None:
    assert everything(store) == []
    assert not store.exists("a")
    store.delete("a")
    store.delete_many(["a", "b"])
    store.delete_dir("a")
    store.delete_dir()


def test_delete(store: Store) -> None:
    names = [f"d/{n}" for n in range(40)]
    for name in names:
        store.put(name, b"x")
    store.delete(names[0])
    store.delete(names[0])
    store.delete_many([*names[:20], "d/missing"])
    assert len(everything(store)) == 20
    with pytest.raises(FileMissingError, match=r"d/0"):
        store.delete(names[0], missing_ok=False)
    store.put("e", b"x")
    store.delete_dir("d")
    assert everything(store) == ["e"]


def test_a_missing_file_is_named(store: Store) -> None:
    for action in (store.read, store.open_input, store.info, store.size):
        with pytest.raises(FileMissingError) as caught:
            action("gone/a b.parquet")
        assert store.location.uri + "/gone/a%20b.parquet" in str(caught.value)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "", "a//b", "s3://b/x"])
def test_no_path_leaves_the_store(store: Store, path: str) -> None:
    for action in (store.read, store.open_input, store.open_output, store.exists, store.delete, store.info):
        with pytest.raises(InputError):
            action(path)
    with pytest.raises(InputError):
        store.put(path, b"x")
    with pytest.raises(InputError):
        store.put_if_absent(path, b"x")


def test_random_access_and_streams(store: Store) -> None:
    with store.open_output("a/stream") as out:
        out.write(b"0123")
        out.write(b"456789")
    with store.open_input("a/stream") as file:
        assert file.size() == 10
        file.seek(4)
        assert file.read(3) == b"456"


def test_a_store_travels(store: Store) -> None:
    store.put("a", b"x")
    copy = pickle.loads(pickle.dumps(store))
    assert copy.read("a") == b"x"
    assert copy.location == store.location


def test_no_secret_in_the_repr() -> None:
    store = open_store(Location.parse("s3://bucket/x"), Options.parse({"s3.secret_key": "hunter2"}))
    assert "hunter2" not in repr(store)


def test_links_to_directories_are_not_followed(local_store: Store, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    local_store.put("a", b"x")
    os.symlink(outside, Path(local_store.location.path) / "link")
    assert everything(local_store) == ["a"]


def test_a_failed_local_write_leaves_nothing(local_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    local_store.put("d/a", b"old")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NoSpaceError, match="d/a"):
        local_store.put("d/a", b"new")
    with pytest.raises(NoSpaceError, match="d/b"):
        local_store.put_if_absent("d/b", b"new")
    assert everything(local_store) == ["d/a"]
    assert local_store.read("d/a") == b"old"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_is_told(local_store: Store) -> None:
    local_store.put("a", b"x")
    os.symlink("/dev/full", Path(local_store.location.path) / "full")
    with (
        pytest.raises(NoSpaceError, match="full"),
        translated("write", local_store.uri("full")),
        local_store.open_output("full") as out,
    ):
        out.write(b"x" * 100_000)


def test_a_directory_removed_by_another_process_is_made_again(
    local_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, calls = os.makedirs, []

    def make_and_lose(path: str, exist_ok: bool = False) -> None:
        make(path, exist_ok=exist_ok)
        calls.append(path)
        if len(calls) == 1:
            os.rmdir(path)

    monkeypatch.setattr(os, "makedirs", make_and_lose)
    local_store.put("a/b", b"x")
    assert local_store.read("a/b") == b"x"


def test_empty_parents_go_and_others_stay(local_store: Store) -> None:
    local_store.put("a/b/c/1", b"x")
    local_store.put("a/2", b"x")
    local_store.delete("a/b/c/1")
    local_store.remove_empty_parents("a/b/c/1")
    root = Path(local_store.location.path)
    assert not (root / "a/b").exists()
    assert (root / "a/2").exists()
    local_store.delete("a/2")
    local_store.remove_empty_parents("a/2")
    assert root.exists()
    assert not (root / "a").exists()


def test_temporary_files_can_be_told() -> None:
    assert durable.is_temporary(f".x.parquet.{uuid.uuid4().hex}.tmp")
    assert not durable.is_temporary("x.tmp")
    assert not durable.is_temporary(".somebody-else.tmp")


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (FileNotFoundError(errno.ENOENT, "x"), FileMissingError),
        (NotADirectoryError(errno.ENOTDIR, "x"), FileMissingError),
        (PermissionError(errno.EACCES, "x"), AccessError),
        (OSError(errno.EROFS, "x"), AccessError),
        (OSError(errno.ENOSPC, "x"), NoSpaceError),
        (OSError(errno.EDQUOT, "x"), NoSpaceError),
        (OSError("AWS Error ACCESS_DENIED during PutObject operation"), AccessError),
        (OSError("AWS Error UNKNOWN (HTTP status 403) during HeadObject operation"), AccessError),
        (OSError("AWS Error INVALID_ACCESS_KEY_ID during ListObjectsV2"), AccessError),
        (OSError("AWS Error NO_SUCH_KEY during GetObject"), FileMissingError),
        (OSError("AWS Error NO_SUCH_BUCKET during PutObject"), StorageError),
        (OSError("AWS Error UNKNOWN (HTTP status 301) during HeadObject operation"), StorageError),
        (OSError(errno.EIO, "x"), StorageError),
    ],
)
def test_what_a_failure_means(cause: OSError, kind: type[LakebedError]) -> None:
    error = storage_error("read", "s3://b/x", cause)
    assert type(error) is kind
    assert "s3://b/x" in str(error)


def test_unexplained_failures_while_parsing_are_the_content() -> None:
    with pytest.raises(CorruptFileError, match=r"a\.parquet"), translated("read", "a.parquet", parsing=True):
        raise OSError("Couldn't deserialize thrift")
    with pytest.raises(StorageError) as caught, translated("read", "a.parquet", parsing=True):
        raise OSError(errno.EIO, "disk")
    assert type(caught.value) is StorageError


@pytest.mark.s3
def test_a_missing_bucket_is_told(s3: Any) -> None:
    store = open_store(Location.parse("s3://no-such-bucket/x"), Options.parse(s3.options()))
    with pytest.raises(StorageError, match="bucket does not exist"):
        store.put("a", b"x")


def test_an_unreachable_endpoint_fails_soon_and_clearly() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = Options.parse(
        {"s3.endpoint": f"http://127.0.0.1:{port}", "s3.access_key": "a", "s3.secret_key": "hunter2"}
    )
    started = time.monotonic()
    with pytest.raises(StorageError, match=r"endpoint cannot be reached.*s3\.endpoint") as caught:
        open_store(Location.parse("s3://bucket/x"), options).read("a")
    assert time.monotonic() - started < 15
    assert "hunter2" not in str(caught.value)


def test_half_of_the_credentials_is_an_error() -> None:
    with pytest.raises(OptionError, match="only one of"):
        s3_arguments(Options.parse({"s3.access_key": "a"}))


def test_s3_arguments() -> None:
    assert s3_arguments(Options())["region"] is None
    assert s3_arguments(Options(s3_path_style=False))["force_virtual_addressing"]
    assert not s3_arguments(Options(s3_path_style=True))["force_virtual_addressing"]
    assert s3_arguments(Options(s3_region="eu-west-1", s3_endpoint="http://x"))["region"] == "eu-west-1"


def test_hdfs_without_its_client_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_HOME", "HADOOP_HOME", "CLASSPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ARROW_LIBHDFS_DIR", "/nonexistent")
    store = open_store(Location.parse("/shop", default_fs="hdfs://namenode:8020"))
    assert store.path("a") == "/shop/a"
    with pytest.raises(StorageError, match=r"hdfs://namenode:8020/shop.*libhdfs.*HADOOP_HOME.*CLASSPATH") as caught:
        store.read("a")
    assert "\n" not in str(caught.value)
