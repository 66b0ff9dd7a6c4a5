"""Namespaces, tables and tags by name."""

from __future__ import annotations

import uuid

import pytest
from table_under_test import PROTOCOL, Written, add, create, metadata, prepare

from lakebed.core.commit import Kind
from lakebed.core.errors import AlreadyExistsError, InputError, NotFoundError
from lakebed.metastore import Metastore


def test_default_namespace_always_exists_and_stays(metastore: Metastore) -> None:
    assert metastore.namespaces() == ["default"]
    with pytest.raises(InputError, match="cannot be dropped"):
        metastore.drop_namespace("default")


def test_namespaces_keep_properties(metastore: Metastore) -> None:
    metastore.create_namespace("shop", {"owner": "ann", "tier": "1"})
    metastore.set_namespace_properties("shop", {"owner": "bob", "tier": None, "note": "ü"})
    assert metastore.namespace("shop").properties == {"owner": "bob", "note": "ü"}
    assert metastore.namespaces() == ["default", "shop"]
    metastore.drop_namespace("shop")
    assert metastore.namespaces() == ["default"]


def test_namespace_twice(metastore: Metastore) -> None:
    metastore.create_namespace("shop")
    metastore.create_namespace("shop", if_not_exists=True)
    with pytest.raises(AlreadyExistsError, match="shop"):
        metastore.create_namespace("shop")


def test_unknown_namespace_names_the_nearest(metastore: Metastore) -> None:
    metastore.create_namespace("shop")
    for call in (metastore.namespace, metastore.drop_namespace, metastore.tables):
        with pytest.raises(NotFoundError, match="did you mean 'shop'"):
            call("shopp")
    with pytest.raises(NotFoundError, match="no namespace"):
        metastore.set_namespace_properties("nowhere", {})


def test_namespace_with_tables_is_not_dropped(metastore: Metastore) -> None:
    metastore.create_namespace("shop")
    create(metastore, "orders", "shop")
    create(metastore, "audit", "shop")
    with pytest.raises(InputError, match=r"2 table\(s\): audit, orders"):
        metastore.drop_namespace("shop")


@pytest.mark.parametrize("name", ["", "a.b", "a/b", "a`b", "a\nb", "a b", "\x00"])
def test_names_that_cannot_be(metastore: Metastore, table: Written, name: str) -> None:
    with pytest.raises(InputError):
        metastore.create_namespace(name)
    with pytest.raises(InputError):
        create(metastore, name)
    with pytest.raises(InputError):
        metastore.rename_table("default", "t", "default", name)
    with pytest.raises(InputError):
        metastore.create_tag(table.table_id, name, 0)


def test_created_table_has_version_0(metastore: Metastore) -> None:
    table = create(metastore)
    record = metastore.table("default", "t")
    assert record == metastore.table_by_id(table.table_id) == metastore.tables("default")[0]
    assert (record.table_id, record.version, str(record)) == (table.table_id, 0, "default.t")
    assert metastore.history(table.table_id)[0].kind is Kind.CREATE


def test_name_and_location_and_id_are_taken(metastore: Metastore, table: Written) -> None:
    other = str(uuid.uuid4())
    first = prepare(other, [PROTOCOL, metadata(other)], -1, Kind.CREATE)
    with pytest.raises(AlreadyExistsError, match=r"table default\.t exists"):
        metastore.create_table("default", "t", "file:///elsewhere", first)
    with pytest.raises(AlreadyExistsError, match=r"belongs to table default\.t"):
        metastore.create_table("default", "u", metastore.table("default", "t").location, first)
    with pytest.raises(AlreadyExistsError, match="the same id"):
        again = prepare(table.table_id, [PROTOCOL, metadata(other)], -1, Kind.CREATE)
        metastore.create_table("default", "u", "file:///elsewhere", again)
    with pytest.raises(NotFoundError, match="no namespace"):
        metastore.create_table("nowhere", "u", "file:///elsewhere", first)
    assert [r.name for r in metastore.tables("default")] == ["t"]


def test_the_first_commit_must_say_what_the_table_is(metastore: Metastore) -> None:
    with pytest.raises(InputError, match="metadata and protocol"):
        metastore.create_table("default", "t", "file:///x", prepare("x", [PROTOCOL], -1, Kind.CREATE))
    with pytest.raises(InputError, match="version -1"):
        metastore.create_table("default", "t", "file:///x", prepare("x", [PROTOCOL, metadata("x")], 0, Kind.CREATE))


def test_creating_with_the_same_commit_again_is_the_same_table(metastore: Metastore) -> None:
    first = prepare("x", [PROTOCOL, metadata("x")], -1, Kind.CREATE)
    made = metastore.create_table("default", "t", "file:///x", first)
    assert metastore.create_table("default", "t", "file:///x", first) == made


def test_unknown_table_names_the_nearest(metastore: Metastore) -> None:
    create(metastore, "orders")
    with pytest.raises(NotFoundError, match=r"did you mean 'default\.orders'"):
        metastore.table("default", "order")
    with pytest.raises(NotFoundError, match="no namespace"):
        metastore.table("nowhere", "orders")
    with pytest.raises(NotFoundError, match="this table was dropped"):
        metastore.head("no-such-id")


def test_rename(metastore: Metastore, table: Written) -> None:
    metastore.create_namespace("shop")
    create(metastore, "taken", "shop")
    with pytest.raises(AlreadyExistsError, match=r"shop\.taken"):
        metastore.rename_table("default", "t", "shop", "taken")
    with pytest.raises(NotFoundError, match="no namespace"):
        metastore.rename_table("default", "t", "nowhere", "t")
    renamed = metastore.rename_table("default", "t", "shop", "orders")
    assert renamed == metastore.table("shop", "orders")
    assert renamed.table_id == table.table_id
    assert metastore.tables("default") == []


def test_drop_forgets_everything_and_frees_the_names(metastore: Metastore, table: Written) -> None:
    location = metastore.table("default", "t").location
    other = create(metastore, "other")
    other.commit(add("o"))
    table.commit(add("a"))
    table.commit(add("b"))
    metastore.create_tag(table.table_id, "eod", 1)
    assert metastore.drop_table("default", "t") == location
    with pytest.raises(NotFoundError):
        metastore.table("default", "t")
    with pytest.raises(NotFoundError):
        metastore.state(table.table_id)
    first = prepare(table.table_id, [PROTOCOL, metadata(table.table_id)], -1, Kind.CREATE)
    metastore.create_table("default", "t", location, first)
    assert (table.versions(), table.live(), metastore.tags(table.table_id)) == ([0], {}, [])
    assert set(other.live()) == {"o"}


def test_tags(metastore: Metastore, table: Written) -> None:
    table.commit(add("a"))
    metastore.create_tag(table.table_id, "late", 1, retain_until=99)
    metastore.create_tag(table.table_id, "early", 0)
    assert [(t.name, t.version, t.retain_until) for t in metastore.tags(table.table_id)] == [
        ("early", 0, None),
        ("late", 1, 99),
    ]
    assert metastore.tag(table.table_id, "late").version == 1
    with pytest.raises(AlreadyExistsError, match="version 1"):
        metastore.create_tag(table.table_id, "late", 0)
    with pytest.raises(NotFoundError, match="from 0 to 1"):
        metastore.create_tag(table.table_id, "future", 2)
    metastore.delete_tag(table.table_id, "late")
    with pytest.raises(NotFoundError, match="early"):
        metastore.delete_tag(table.table_id, "late")
