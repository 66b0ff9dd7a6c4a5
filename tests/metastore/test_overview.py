"""All tables at a glance: by the metastore, and by SQLite's file alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import lakebed
from lakebed.metastore import Metastore, open_metastore
from lakebed.metastore.migrations import MIGRATIONS
from lakebed.metastore.overview import SCHEMA_VERSION, overviews_in_file


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A metastore with tables that have dead rows, unsettled files, no rows, and no keys."""
    with lakebed.connect(tmp_path / "w") as lake:
        lake.create_namespace("shop")
        orders = lake.create_table("shop.orders", "id BIGINT, name STRING", primary_key=["id"], merge="on-read")
        orders.upsert([{"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}])
        orders.upsert([{"id": 1, "name": "eve"}])
        orders.settle()
        orders.upsert([{"id": 2, "name": "joe"}])
        lake.create_table("empty", "id BIGINT")
        lake.create_table("events", "id BIGINT").append([{"id": 1}])
    return f"sqlite:///{tmp_path}/w/.lakebed/metastore.db"


def test_the_file_alone_tells_the_same(file: str) -> None:
    with open_metastore(file) as metastore:
        known = metastore.overviews()
        shop = metastore.overviews("shop")
    assert [str(one) for one in known] == ["default.empty", "default.events", "shop.orders"]
    assert (known[2].rows, known[2].dead, known[2].unsettled) == (3, 1, 1)
    assert overviews_in_file(file) == known
    assert overviews_in_file(file, "shop") == shop == [known[2]]


def test_a_namespace_without_tables(file: str, metastore: Metastore) -> None:
    assert overviews_in_file(file, "nowhere") is None  # whether there is one is for the metastore to say
    assert metastore.overviews() == metastore.overviews("nowhere") == []


def test_another_schema_is_left_to_the_metastore(file: str) -> None:
    with sqlite3.connect(file.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE lakebed_meta SET schema_version = 99")
    assert overviews_in_file(file) is None


def test_what_is_no_metastore(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("no database " * 100)
    assert overviews_in_file(f"sqlite:///{tmp_path}/notes.db") is None
    assert overviews_in_file(f"sqlite:///{tmp_path}/none.db") is None
    assert not (tmp_path / "none.db").exists()
    assert overviews_in_file("postgresql+psycopg://ann@db/lake") is None


def test_the_query_is_written_for_the_newest_schema() -> None:
    assert len(MIGRATIONS) == SCHEMA_VERSION
