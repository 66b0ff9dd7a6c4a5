"""Recovery: after the metastore is lost, the open log alone gives everything back."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Place, make_place
from histories import RandomHistory

import lakebed
from lakebed.core.location import Location
from lakebed.delta.log import read_log
from lakebed.engine.publication import PublicationWarning
from lakebed.storage.store import open_store


def facts(table: lakebed.Table, first: int = 0) -> dict[str, Any]:
    """All that the metastore knows of a table, from version ``first`` on."""
    metastore, table_id = table._handle.metastore, table._handle.table_id
    full = metastore.full_state(table_id, table.version, tombstones_after=0)
    return {
        "identity": (table_id, table.name, table.location),
        "versions": [version_facts(table, version) for version in range(first, table.version + 1)],
        "history": [replace(commit, published=True) for commit in table.history() if commit.version >= first],
        "infos": [r.info for r in metastore.history(table_id) if r.version >= first],
        "properties": table.properties,
        "comment": table.comment,
        "schema": table.schema,
        "transactions": sorted(full.transactions, key=lambda txn: txn.app_id),
        "transaction versions": table.transactions(),
        "domains": sorted(full.domains, key=lambda domain: domain.domain),
        "tombstones": sorted(full.removes, key=lambda remove: (remove.path, str(remove.key))),
    }


def version_facts(table: lakebed.Table, version: int) -> dict[str, Any]:
    state = table._state(version)
    files = table.at(version=version)._point().files(None)
    return {
        "version": version,
        "timestamp": state.timestamp,
        "metadata": state.metadata,
        "protocol": state.protocol,
        "schema version": state.schema_version,
        "files": {add.key: add for add in files},
    }


def same(before: dict[str, Any], after: dict[str, Any]) -> None:
    """One comparison for each part, so that a failure names the part."""
    assert before.keys() == after.keys()
    for part, value in before.items():
        if part == "versions":
            for old, new in zip(value, after[part], strict=True):
                for name in old:
                    assert new[name] == old[name], f"version {old['version']}: {name}"
        else:
            assert after[part] == value, part


def new_metastore(request: pytest.FixtureRequest, place: Place, tmp_path: Path) -> Place:
    """The same warehouse with an empty metastore: the old one is lost."""
    other = make_place(request, place.kind, tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir(exist_ok=True)
    url = other.metastore or f"sqlite:///{tmp_path}/elsewhere/new.db"
    return replace(place, metastore=url)


def row_ids(table: lakebed.Table) -> list[range]:
    files = table._point().files(None)
    return sorted((range(a.base_row_id, a.base_row_id + a.num_records) for a in files), key=lambda r: r.start)


CASES = [
    ("sqlite-local", "none", 11),
    ("sqlite-local", "several", 12),
    ("postgres-local", "one", 13),
    ("sqlite-s3", "one", 14),
    ("postgres-s3", "times", 15),
]


@pytest.mark.parametrize(("kind", "partitions", "seed"), CASES)
def test_nothing_differs(request: pytest.FixtureRequest, tmp_path: Path, kind: str, partitions: str, seed: int) -> None:
    place = make_place(request, kind, tmp_path)
    with place.connect() as lake:
        history = RandomHistory.begin(lake, seed, partitions, checkpoint_interval=4)
        history.run(16, plain=6)
        before = facts(history.table)
        rows = history.table.to_arrow()
    with new_metastore(request, place, tmp_path).connect() as lake:
        assert lake.tables() == []
        table = lake.recover(before["identity"][2])
        same(before, facts(table))
        assert table.to_arrow().equals(rows) or sorted(map(str, table.to_arrow().to_pylist())) == sorted(
            map(str, rows.to_pylist())
        )
        assert all(commit.published for commit in table.history())
        history.table = table
        history.append()
        ids = row_ids(table)
        assert all(one.stop <= other.start for one, other in itertools.pairwise(ids))
        assert table.append([], txn=("loader", 0)).repeated
        assert table.publish() == table.version
        assert lakebed.read_delta(table.location, **place.options).version == table.version


@pytest.fixture
def history(local_lake: lakebed.Warehouse) -> RandomHistory:
    """Sixteen steps with a checkpoint every fourth version."""
    made = RandomHistory.begin(local_lake, 21, "one", checkpoint_interval=4)
    made.run(16, plain=10)
    return made


def local_path(table: lakebed.Table) -> Path:
    return Path(table.location.removeprefix("file://"))


def forget(lake: lakebed.Warehouse) -> Path:
    """Lose the metastore of a local warehouse; its directory."""
    lake.close()
    root = Path(lake.location.removeprefix("file://"))
    shutil.rmtree(root / ".lakebed")
    return root


@pytest.mark.parametrize("told", [True, False], ids=["with-its-commit", "checkpoint-alone"])
def test_a_log_that_begins_with_a_checkpoint(local_lake: lakebed.Warehouse, history: RandomHistory, told: bool) -> None:
    first = 8
    before = facts(history.table, first)
    log = local_path(history.table) / "_delta_log"
    root = forget(local_lake)
    for file in log.iterdir():
        number = file.name[:20]
        if number.isdigit() and (int(number) < first or (int(number) == first and file.suffix == ".json" and not told)):
            file.unlink()
    with lakebed.connect(root) as lake:
        table = lake.recover(str(log.parent))
        after = facts(table, first)
        with pytest.raises(lakebed.NotFoundError, match=r"version 7.*8"):
            table.at(version=7)
        for facts_of in (before, after):
            begun_at(facts_of, told)
        same(before, after)
        assert [commit.version for commit in table.history()][-1] == first
        history.table = table
        history.run(4, plain=4)
        ids = row_ids(table)
        assert all(one.stop <= other.start for one, other in itertools.pairwise(ids))


def begun_at(known: dict[str, Any], told: bool) -> None:
    """What a checkpoint cannot tell: which version added a file's rows to it, and, alone, what its commit was."""
    for version in known["versions"]:
        version["files"] = {key: replace(add, data_change=True) for key, add in version["files"].items()}
    known["versions"][0].pop("schema version")
    for version in known["versions"][1:]:
        version.pop("schema version")
    known["tombstones"] = sorted(remove.path for remove in known["tombstones"])
    if not told:
        known["versions"][0].pop("timestamp")
        known["history"].pop()
        known["infos"].pop()


def test_a_known_table_is_not_recovered(local_lake: lakebed.Warehouse, history: RandomHistory) -> None:
    before = facts(history.table)
    with pytest.raises(lakebed.AlreadyExistsError, match=r"default\.t"):
        local_lake.recover(history.table.location)
    with pytest.raises(lakebed.AlreadyExistsError, match=r"default\.t"):
        local_lake.recover(history.table.location, "default.other")
    with pytest.raises(lakebed.AlreadyExistsError, match=r"default\.t"):
        lakebed.recover(local_path(history.table))
    same(before, facts(history.table))


def test_the_path_alone_is_enough(tmp_path: Path) -> None:
    with lakebed.connect(tmp_path / "w") as lake:
        lake.create_namespace("shop")
        table = lake.create_table("shop.orders", "id BIGINT", comment="all orders", properties={"team.owner": "ann"})
        table.append([{"id": 1}], txn=("loader", 3))
        table.tag("first")
        path = local_path(table)
        before = facts(table)
    forget(lake)
    table = lakebed.recover(path)
    same(before, facts(table))
    assert table.tags() == []  # tags are not in the log
    with lakebed.connect(tmp_path / "w") as lake:
        assert lake.namespaces() == ["default", "shop"]
        assert lake.table("shop.orders").append([{"id": 1}], txn=("loader", 3)).repeated


def test_a_new_name_is_kept(tmp_path: Path) -> None:
    with lakebed.connect(tmp_path / "w") as lake:
        lake.create_namespace("shop")
        table = lake.create_table("draft", "id BIGINT")
        table.append([{"id": 1}])
        lake.rename_table("draft", "shop.final")
        path = local_path(table)
        before = facts(lake.table("shop.final"))
    root = forget(lake)
    with pytest.raises(lakebed.InputError, match="pass warehouse="):
        lakebed.recover(path)
    table = lakebed.recover(path, root)
    assert table.name == "shop.final"
    same(before, facts(table))


def test_what_was_never_published_is_lost_with_the_metastore(local_lake: lakebed.Warehouse) -> None:
    """A commit that has landed is safe as long as the metastore is; the log has it only when it is published."""
    table = local_lake.create_table("t", "id BIGINT")
    table.append([{"id": 1}])
    path = local_path(table)
    (path / "_delta_log").rename(path / "away")
    (path / "_delta_log").touch()  # nothing can be written below a file
    with pytest.warns(PublicationWarning, match="the commit has landed"):
        assert not table.append([{"id": 2}]).published
    (path / "_delta_log").unlink()
    (path / "away").rename(path / "_delta_log")
    assert table.count() == 2
    assert read_log(open_store(Location.parse(path))).version == 1
    kept = path.parent.parent / "kept"
    shutil.copytree(path.parent.parent / ".lakebed", kept)
    root = forget(local_lake)
    recovered = lakebed.recover(path)
    assert (recovered.version, recovered.to_arrow()["id"].to_pylist()) == (1, [1])
    recovered._handle.metastore.close()

    shutil.rmtree(root / ".lakebed")
    shutil.copytree(kept, root / ".lakebed")
    with lakebed.connect(root) as lake:  # the metastore was not lost after all: so was nothing else
        assert lake.table("t").count() == 2
        assert lake.table("t").publish() == 2
        assert lakebed.read_delta(path).count() == 2


def test_a_metastore_that_is_behind_the_log_says_so(local_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    """An old copy of the metastore must not overwrite what the log has; there is a way to take the log's side."""
    table = local_lake.create_table("t", "id BIGINT")
    table.append([{"id": 1}])
    local_lake.close()
    root = Path(local_lake.location.removeprefix("file://"))
    shutil.copytree(root / ".lakebed", tmp_path / "old")
    with lakebed.connect(root) as lake:
        lake.table("t").append([{"id": 2}])
    shutil.rmtree(root / ".lakebed")
    shutil.copytree(tmp_path / "old", root / ".lakebed")
    with lakebed.connect(root) as lake:
        with pytest.warns(PublicationWarning, match="not the commit that Lakebed made as version 2"):
            lake.table("t").append([{"id": 3}])
        assert sorted(lakebed.read_delta(table.location).to_arrow()["id"].to_pylist()) == [1, 2]
        with pytest.raises(lakebed.CorruptFileError, match="drop_table"):
            lake.drop_table("t")  # it would forget a commit that the log does not have
        theirs = local_path(table) / "_delta_log" / f"{2:020d}.json"
        theirs.rename(tmp_path / "theirs.json")  # as the error says, to have the log's version
        lake.drop_table("t")
        (tmp_path / "theirs.json").replace(theirs)
        recovered = lake.recover(table.location)
        assert sorted(recovered.to_arrow()["id"].to_pylist()) == [1, 2]
        recovered.append([{"id": 4}])
        assert lakebed.read_delta(table.location).count() == 3


def test_a_damaged_checkpoint_costs_only_the_versions_below_the_next(
    local_lake: lakebed.Warehouse, history: RandomHistory, caplog: pytest.LogCaptureFixture
) -> None:
    before = facts(history.table, 12)
    log = local_path(history.table) / "_delta_log"
    root = forget(local_lake)
    for version in range(9):
        (log / f"{version:020d}.json").unlink()
    (log / f"{8:020d}.checkpoint.parquet").write_bytes(b"PAR1 damaged")
    with lakebed.connect(root) as lake:
        table = lake.recover(str(log.parent))
        assert [commit.version for commit in table.history()][-1] == 12
        assert "0008.checkpoint.parquet" in caplog.text
        assert table.version == before["versions"][-1]["version"]
        for known in before["versions"]:
            files = table.at(version=known["version"])._point().files(None)
            assert {add.key for add in files} == set(known["files"])


def test_a_checkpoint_without_the_newest_commit(local_lake: lakebed.Warehouse) -> None:
    """All commits may be gone as long as a checkpoint has the newest version."""
    table = local_lake.create_table("t", "id BIGINT", properties={"checkpoint-interval": 1})
    for number in range(4):
        table.append([{"id": number}])
    log = local_path(table) / "_delta_log"
    root = forget(local_lake)
    for file in log.glob("*.json"):
        file.unlink()
    with lakebed.connect(root) as lake:
        recovered = lake.recover(str(log.parent))
        assert [commit.version for commit in recovered.history()] == [4]
        recovered.append([{"id": 4}])
        assert sorted(recovered.to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4]
        assert sorted(lakebed.read_delta(recovered.location).to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4]
