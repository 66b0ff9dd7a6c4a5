"""Settings: who wins, and what is said when they are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.config import Config, load
from lakebed.core.errors import OptionError
from lakebed.core.metastore_url import masked_url, parse_metastore_url

POSTGRES = "postgresql://ann:hunter2@db/lake"


def configured(directory: Path, text: str = "", name: str = "lakebed.toml", **environ: str) -> Config:
    if text:
        (directory / name).write_text(text)
    return load(environ=environ, directory=directory)


def test_a_local_warehouse_needs_nothing_else(tmp_path: Path) -> None:
    config = load(tmp_path / "w", environ={}, directory=tmp_path)
    assert config.warehouse.path == f"{tmp_path}/w"
    assert config.metastore_url == f"sqlite:///{tmp_path}/w/.lakebed/metastore.db"


def test_arguments_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    text = 'warehouse = "from-file"\nbatch_size = 1\nprefetch = 1\nmax_row_group_rows = 1\n'
    (tmp_path / "lakebed.toml").write_text(text)
    environ = {
        "LAKEBED_WAREHOUSE": "/env",
        "LAKEBED_BATCH_SIZE": "2",
        "LAKEBED_PREFETCH": "2",
        "HOME": "/root",
    }
    config = load("/arg", options={"batch_size": 3}, environ=environ, directory=tmp_path)
    assert config.warehouse.path == "/arg"
    assert (config.options.batch_size, config.options.prefetch, config.options.max_row_group_rows) == (
        3,
        2,
        1,
    )
    assert load(environ=environ, directory=tmp_path).warehouse.path == "/env"
    assert load(environ={}, directory=tmp_path).warehouse.path == f"{tmp_path}/from-file"


TOML_FORMS = [
    'warehouse = "s3://b/w"\nmetastore = "postgresql://ann@db/lake"\nbatch_size = 7\n"s3.endpoint" = "http://x"\n',
    '[lakebed]\nwarehouse = "s3://b/w"\nbatch-size = 7\n[lakebed.s3]\nendpoint = "http://x"\n'
    '[lakebed.metastore]\nurl = "postgresql://ann@db/lake"\n',
    'lakebed.warehouse = "s3a://b/w"\nlakebed.metastore.url = "postgres://ann@db/lake"\nbatch_size = "7"\n'
    '[s3]\nendpoint = "http://x"\n',
]
PROPERTIES = """
# a comment
! another
lakebed.warehouse=s3://b/w
lakebed.metastore.url = postgresql+psycopg://ann@db/lake
lakebed.batch-size=7
fs.s3a.endpoint=http://x
"""


@pytest.mark.parametrize(
    ("text", "name"), [*((text, "lakebed.toml") for text in TOML_FORMS), (PROPERTIES, "lakebed.properties")]
)
def test_the_forms_of_a_file(tmp_path: Path, text: str, name: str) -> None:
    config = configured(tmp_path, text, name)
    assert config.warehouse.uri == "s3://b/w"
    assert config.metastore_url == "postgresql+psycopg://ann@db/lake"
    assert (config.options.batch_size, config.options.s3_endpoint) == (7, "http://x")


def test_the_home_comes_before_the_working_directory(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (work / "lakebed.toml").write_text('warehouse = "w"')
    assert configured(work, LAKEBED_HOME=str(home)).warehouse.path == f"{work}/w"
    (home / "lakebed.properties").write_text("warehouse=h")
    assert configured(work, LAKEBED_HOME=str(home)).warehouse.path == f"{home}/h"
    with pytest.raises(OptionError, match="LAKEBED_HOME is not a directory"):
        configured(work, LAKEBED_HOME=str(tmp_path / "nowhere"))


def test_two_files_in_one_directory_are_refused(tmp_path: Path) -> None:
    (tmp_path / "lakebed.properties").write_text("warehouse=w")
    with pytest.raises(OptionError, match="keep one"):
        configured(tmp_path, 'warehouse = "w"')


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        ('warehouse = "w"\nbatchsize = 1\n', "lakebed.toml", 2),
        ('[lakebed]\nwarehouse = "w"\n[lakebed.s3]\nendpont = "x"\n', "lakebed.toml", 4),
        ("# comment\nlakebed.warehous=w\n", "lakebed.properties", 2),
        ("warehouse=w\nbatch_size=many\n", "lakebed.properties", 2),
        ("warehouse=w\nbatch_size\n", "lakebed.properties", 2),
        ("warehouse=w\nwarehouse=x\n", "lakebed.properties", 2),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, name: str, line: int) -> None:
    with pytest.raises(OptionError) as caught:
        configured(tmp_path, text, name)
    assert f"{tmp_path / name}, line {line}" in str(caught.value)


def test_unknown_names_come_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"LAKEBED_WAREHOUS.*use 'warehouse'"):
        configured(tmp_path, LAKEBED_WAREHOUS="w")
    with pytest.raises(OptionError, match=r"LAKEBED_S3_ENDPOIN.*'s3\.endpoint'"):
        configured(tmp_path, LAKEBED_S3_ENDPOIN="w")
    with pytest.raises(OptionError, match=r"argument.*'batch_size'"):
        load("w", options={"batchsize": 3}, environ={}, directory=tmp_path)


def test_broken_toml_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"lakebed\.toml: not valid TOML.*line 1"):
        configured(tmp_path, "warehouse = = 1")
    with pytest.raises(OptionError, match="expected text"):
        configured(tmp_path, "warehouse = 5")


def test_no_warehouse_says_the_three_ways(tmp_path: Path) -> None:
    with pytest.raises(OptionError) as caught:
        configured(tmp_path)
    for way in ("lakebed.connect", "LAKEBED_WAREHOUSE", "lakebed.toml"):
        assert way in str(caught.value)


@pytest.mark.parametrize("warehouse", ["s3://b/w", "hdfs://nn/w"])
def test_a_remote_warehouse_needs_a_metastore(tmp_path: Path, warehouse: str) -> None:
    with pytest.raises(OptionError, match='metastore="postgresql://user@host/database"'):
        load(warehouse, environ={}, directory=tmp_path)


def test_the_default_file_system_applies_to_the_warehouse(tmp_path: Path) -> None:
    config = load("/w", POSTGRES, {"fs.defaultFS": "hdfs://nn:8020"}, environ={}, directory=tmp_path)
    assert config.warehouse.uri == "hdfs://nn:8020/w"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("postgresql://ann@db/lake", "postgresql+psycopg://ann@db/lake"),
        ("postgres://db/lake?sslmode=require", "postgresql+psycopg://db/lake?sslmode=require"),
        ("sqlite:///m.db", "sqlite:////base/m.db"),
        ("sqlite:////x/m.sqlite", "sqlite:////x/m.sqlite"),
        ("../m.db", "sqlite:////m.db"),
    ],
)
def test_metastore_addresses(text: str, url: str) -> None:
    assert parse_metastore_url(text, "/base") == url


@pytest.mark.parametrize(
    "text",
    [
        "mysql://ann:hunter2@db/lake",
        "sqlite://",
        "sqlite:///:memory:",
        "lake",
        "",
        "postgresql://",
        "/a?b.db",
    ],
)
def test_other_metastores_are_refused(text: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_metastore_url(text)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hunter2@db/lake",
        "postgresql://ann:hun@ter2@db:5432/lake",
        "postgresql://ann:p/hunter2@db/lake",
        "postgresql://db/lake?user=ann&password=hunter2&x=1",
        "postgresql://db/lake?sslpassword=hunter2",
        "mysql://:hunter2@db",
    ],
)
def test_passwords_are_masked(url: str) -> None:
    masked = masked_url(url)
    assert "hunter2" not in masked
    assert "ter2" not in masked
    assert "***" in masked
    assert "db" in masked


def test_nothing_secret_in_the_repr(tmp_path: Path) -> None:
    config = load(tmp_path, POSTGRES, {"s3.secret_key": "s3cret"}, environ={}, directory=tmp_path)
    assert "hunter2" not in repr(config)
    assert "s3cret" not in repr(config)
    assert "hunter2" in config.metastore_url


def test_a_secret_in_the_environment_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(OptionError) as caught:
        configured(tmp_path, LAKEBED_S3_SECRETKEY="hunter2", LAKEBED_WAREHOUSE="w")
    assert "hunter2" not in str(caught.value)
