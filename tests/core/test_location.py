"""Locations: one normal form, and no way out of a directory."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lakebed.core.errors import InputError
from lakebed.core.location import Location

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=12)
PLAIN_NAMES = NAMES.filter(lambda name: name not in (".", ".."))
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.text("./\\:%#?a~\0 ", max_size=12)


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("/a/b", "file:///a/b"),
        ("/a//b/./c/../d/", "file:///a/b/d"),
        ("/", "file:///"),
        ("/a b/ü", "file:///a%20b/%C3%BC"),
        ("/a%20b", "file:///a%2520b"),
        ("/a#b?c", "file:///a%23b%3Fc"),
        ("/dt=2026-11-15/x+y@z:1", "file:///dt=2026-11-15/x+y@z:1"),
        ("file:///a%20b", "file:///a%20b"),
        ("file:///a b", "file:///a%20b"),
        ("file:/a/b", "file:///a/b"),
        ("file://localhost/a", "file:///a"),
        ("FILE:///a", "file:///a"),
        ("s3://bucket/k/x", "s3://bucket/k/x"),
        ("s3a://bucket/k", "s3://bucket/k"),
        ("s3n://bucket//k/", "s3://bucket/k"),
        ("s3://bucket", "s3://bucket/"),
        ("hdfs://nn:8020/a/b", "hdfs://nn:8020/a/b"),
        ("hdfs:///a", "hdfs:///a"),
    ],
)
def test_normal_form(text: str, uri: str) -> None:
    assert Location.parse(text).uri == uri


def test_relative_paths_start_at_the_working_directory_or_a_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Location.parse("w/x").path == f"{os.getcwd()}/w/x"
    assert Location.parse("../w", base="/srv/lake").path == "/srv/w"
    assert Location.parse(Path("w")).path == f"{os.getcwd()}/w"
    assert Location.parse("a:b").path == f"{os.getcwd()}/a:b"


def test_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert Location.parse("~/lake").path == "/home/ann/lake"
    assert Location.parse("/x/~/lake").path == "/x/~/lake"


def test_the_default_file_system_prefixes_paths_without_a_scheme() -> None:
    assert Location.parse("/shop", default_fs="hdfs://nn:8020").uri == "hdfs://nn:8020/shop"
    assert Location.parse("shop", default_fs="s3a://bucket/lake").uri == "s3://bucket/lake/shop"
    assert Location.parse("/shop", default_fs="s3a://bucket/lake").uri == "s3://bucket/shop"
    assert Location.parse("s3://b/x", default_fs="hdfs://nn").uri == "s3://b/x"
    assert Location.parse("hdfs:///x", default_fs="hdfs://nn:1").uri == "hdfs://nn:1/x"
    assert Location.parse("/shop", default_fs="file:///").uri == "file:///shop"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "empty"),
        ("a\0b", "NUL"),
        ("file:///a%00b", "NUL"),
        ("gs://bucket/x", "s3://"),
        ("s3:/bucket/x", "//"),
        ("s3:///x", "bucket"),
        ("s3://bucket/../x", "above the root"),
        ("file://host/x", "no host"),
        ("s3://bucket/a#b", "%23"),
        ("s3://bucket/a?b", "%3F"),
        ("s3://bucket/100%", "%25"),
        ("s3://bucket/%ff", "UTF-8"),
        ("/\ud800", "Unicode"),
        ("hdfs://a b/x", "name node"),
    ],
)
def test_what_is_no_location_is_refused_with_a_reason(text: str, word: str) -> None:
    with pytest.raises(InputError) as caught:
        Location.parse(text)
    assert word in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "s3://AKIA:hunter2@bucket/x",
        "s3://AKIA:hun/ter2@bucket/x",
        "gs://u:hunter2@b/x",
        "hdfs://u:hunter2@nn/x",
    ],
)
def test_credentials_in_a_location_are_refused_and_not_shown(text: str) -> None:
    with pytest.raises(InputError) as caught:
        Location.parse(text)
    assert "hunter2" not in str(caught.value)
    assert "ter2" not in str(caught.value)


@pytest.mark.parametrize(
    "relative",
    ["", "/etc/passwd", "..", "../x", "a/../b", "a/..", "./a", "a/./b", "a//b", "a/", "a\\..\\b", "a\0b",
     "s3://b/x", "file:/etc", "file:///etc", "\ud800"],
)  # fmt: skip
def test_a_child_cannot_leave_the_directory(relative: str) -> None:
    with pytest.raises(InputError):
        Location.parse("/lake").child(relative)


def test_ordinary_children() -> None:
    lake = Location.parse("s3://bucket/lake")
    assert (lake / "ts=2026-11-15 10:00:00/a%20b#.parquet").path == "/lake/ts=2026-11-15 10:00:00/a%20b#.parquet"
    assert (lake / "..a").name == "..a"
    assert Location.parse("s3://bucket").child("x").uri == "s3://bucket/x"
    assert (lake / "x").parent == lake
    assert Location.parse("/").parent.path == "/"


def test_relative_refuses_what_is_elsewhere() -> None:
    lake = Location.parse("s3://bucket/lake")
    assert lake.relative("s3a://bucket/lake/a/b") == "a/b"
    for other in ("s3://bucket/lake2/a", "s3://other/lake/a", "/lake/a", "s3://bucket/lake"):
        with pytest.raises(InputError, match="not below"):
            lake.relative(other)


def test_hadoop_path_is_not_escaped() -> None:
    assert Location.parse("/a b%20").hadoop_path == "file:///a b%20"
    assert Location.parse("s3://bucket/a b").hadoop_path == "s3a://bucket/a b"


@given(st.lists(PLAIN_NAMES, max_size=4), st.sampled_from(["", "s3", "hdfs"]))
def test_a_uri_gives_the_same_location_back(parts: list[str], scheme: str) -> None:
    location = Location(scheme or "file", "bucket" if scheme else "", "/" + "/".join(parts))
    assert Location.parse(location.uri) == location


@given(st.lists(PLAIN_NAMES, min_size=1, max_size=4))
def test_a_plain_path_stands_for_itself(parts: list[str]) -> None:
    path = "/" + "/".join(parts)
    assert Location.parse(path).path == path


@given(ANY_TEXT)
def test_parsing_gives_a_normal_path_or_an_input_error(text: str) -> None:
    try:
        location = Location.parse(text, base="/base")
    except InputError:
        return
    assert location.path == posixpath.normpath(location.path)
    assert location.path.startswith("/")
    assert Location.parse(location.uri) == location


@given(ANY_TEXT | st.lists(NAMES, max_size=4).map("/".join))
def test_no_child_is_ever_outside(relative: str) -> None:
    lake = Location.parse("/srv/lake")
    try:
        child = lake.child(relative)
    except InputError:
        return
    assert posixpath.normpath(child.path) == child.path
    assert child.path.startswith("/srv/lake/")
    assert lake.relative(child) == relative
    assert lake.relative(child.uri) == relative


@given(st.lists(PLAIN_NAMES, min_size=1, max_size=3))
def test_usual_names_are_allowed_as_children(parts: list[str]) -> None:
    relative = "/".join(parts)
    assume("\\" not in relative and ":" not in relative)
    assert Location.parse("/lake").child(relative).path == f"/lake/{relative}"
