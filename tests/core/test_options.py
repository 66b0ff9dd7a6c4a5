"""Options: names, values, secrets."""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

import pytest

from lakebed.core import options as module
from lakebed.core.errors import OptionError
from lakebed.core.options import OPTIONS, Options, describe, parse_size
from lakebed.core.secret import Secret


def test_the_table_and_the_dataclass_agree() -> None:
    assert [(o.field, o.default) for o in OPTIONS] == [(f.name, f.default) for f in fields(Options)]


@pytest.mark.parametrize("name", ["s3.endpoint", "s3_endpoint", "s3-endpoint", "S3.Endpoint", "fs.s3a.endpoint"])
def test_one_option_has_many_spellings(name: str) -> None:
    assert Options.parse({name: "http://127.0.0.1:9000"}).s3_endpoint == "http://127.0.0.1:9000"


def test_hadoop_spellings() -> None:
    parsed = Options.parse(
        {
            "fs.s3a.access.key": "a",
            "fs.s3a.secret.key": "b",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.endpoint.region": "eu-west-1",
            "fs.defaultFS": "hdfs://nn:8020",
        }
    )
    assert parsed.s3_access_key == Secret("a")
    assert parsed.s3_secret_key is not None
    assert parsed.s3_secret_key.reveal() == "b"
    assert (parsed.s3_path_style, parsed.s3_region) == (True, "eu-west-1")
    assert parsed.default_fs == "hdfs://nn:8020"


def test_the_old_name_of_the_default_file_system_warns() -> None:
    with pytest.warns(DeprecationWarning, match=r"fs\.default\.name.*fs\.defaultFS"):
        assert Options.parse({"fs.default.name": "hdfs://nn"}).default_fs == "hdfs://nn"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("128MiB", 128 << 20),
        ("1 GB", 10**9),
        ("64k", 64 << 10),
        ("512", 512),
        (7, 7),
        ("1.5KiB", 1536),
        ("2TB", 2 * 10**12),
    ],
)
def test_sizes(text: Any, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("batch_size", "many", "a whole number"),
        ("batch_size", True, "a whole number"),
        ("batch_size", 1.5, "a whole number"),
        ("batch_size", 0, "at least 1"),
        ("prefetch", -1, "at least 0"),
        ("writer_memory_limit", "128 bananas", "a size"),
        ("writer_memory_limit", "", "a size"),
        ("sync", "maybe", "true or false"),
        ("sync", 1, "true or false"),
        ("compression", "rar", "one of auto, zstd"),
        ("s3.endpoint", "", "text"),
        ("s3.endpoint", 5, "text"),
    ],
)
def test_a_wrong_value_is_refused_with_what_was_expected_and_found(name: str, value: Any, expected: str) -> None:
    with pytest.raises(OptionError) as caught:
        Options.parse({name: value})
    assert expected in str(caught.value)
    assert repr(value) in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("batchsize", "batch_size"), ("s3.endpont", "s3.endpoint"), ("fs.s3a.acess.key", "s3.access_key")],
)
def test_an_unknown_name_is_refused_with_the_nearest(wrong: str, near: str) -> None:
    with pytest.raises(OptionError, match=rf"unknown option '{wrong}'.*'{near}'"):
        Options.parse({wrong: 1})


def test_a_name_near_to_nothing_lists_all() -> None:
    with pytest.raises(OptionError, match=r"the options are .*batch_size.*writer_memory_limit"):
        Options.parse({"zzzzzz": 1})


def test_two_spellings_must_not_contradict() -> None:
    with pytest.raises(OptionError, match="same option"):
        Options.parse({"batch_size": 1, "batch-size": 2})
    assert Options.parse({"batch_size": 5, "batch-size": "5"}).batch_size == 5


def test_none_leaves_an_option_alone() -> None:
    assert Options.parse({"batch_size": None}) == Options()


def test_secrets_are_never_shown() -> None:
    parsed = Options.parse({"s3.secret_key": "hunter2", "s3.access_key": "AKIA42", "s3.session_token": "tok3n"})
    shown = f"{parsed!r} {parsed} {parsed.s3_secret_key} {parsed.s3_secret_key!r} {[parsed.s3_access_key]}"
    for secret in ("hunter2", "AKIA42", "tok3n"):
        assert secret not in shown
    assert pickle.loads(pickle.dumps(parsed)) == parsed


def test_errors_about_secrets_do_not_show_them() -> None:
    with pytest.raises(OptionError) as caught:
        Options.parse({"s3.secret_key": ["hunter2"]})
    assert "hunter2" not in str(caught.value)
    assert b"hunter2" not in pickle.dumps(caught.value)
    with pytest.raises(OptionError) as caught:
        Options.parse({"s3.secretkye": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_describe_has_a_row_per_option() -> None:
    rows = describe()
    assert [row[0] for row in rows] == [o.name for o in module.OPTIONS]
    assert ("writer_memory_limit", "size", "512MiB") in [row[:3] for row in rows]
    assert all(row[3] for row in rows)
