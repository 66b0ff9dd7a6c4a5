"""Unsettled files through real log files and checkpoints: others do not see them, recovery does."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

import lakebed
from lakebed.core.actions import Action, AddFile
from lakebed.core.commit import Claim, Kind, Landed, PreparedCommit
from lakebed.core.file_tags import file_tags, is_unsettled, settled
from lakebed.delta.log import read_log
from lakebed.engine.imports import import_log
from lakebed.engine.publication import checkpoint, publish_versions
from lakebed.metastore import Metastore, open_metastore


@pytest.fixture
def table(local_lake: lakebed.Warehouse) -> lakebed.Table:
    """A table at version 4, with one file that has settled and one that has not."""
    made = local_lake.create_table("t", schema=pa.schema([("id", pa.int64())]))
    made.append(pa.table({"id": [1]}))
    made.append(pa.table({"id": [2, 3]}))
    first, second = (replace(add, tags=file_tags(0)) for add in live(made).values())
    mark = file_tags(0, unsettled=True)
    commit(made, [first.remove(), second.remove(), replace(first, tags=mark), replace(second, tags=mark)])
    [unsettled] = [add for add in live(made).values() if add.path == first.path]
    commit(made, [unsettled.remove(), settled(unsettled)])
    publish_versions(made._handle)
    return made


def commit(table: lakebed.Table, actions: list[Action]) -> None:
    handle = table._handle
    version = handle.metastore.head(handle.table_id)
    prepared = PreparedCommit(
        handle.table_id, handle.name, str(uuid.uuid4()), version, (Claim(Kind.SETTLE),), tuple(actions)
    )
    assert isinstance(handle.metastore.commit([prepared]), Landed)


def live(table: lakebed.Table) -> dict[str, AddFile]:
    handle = table._handle
    return {add.path: add for add in handle.metastore.files(handle.table_id).adds()}


def at(metastore: Metastore, table_id: str, version: int) -> dict[str, AddFile]:
    """The files of a version, apart from ``data_change``, which a checkpoint does not keep."""
    files = metastore.files(table_id, version).adds()
    return {add.path: replace(add, data_change=False) for add in files}


def seen_by_others(table: lakebed.Table) -> set[str]:
    return {Path(uri).name for uri in deltalake.DeltaTable(table._handle.store.location.uri).file_uris()}


def by_path(table: lakebed.Table, *, unsettled: bool) -> set[str]:
    return {Path(path).name for path, add in live(table).items() if is_unsettled(add) is unsettled}


@pytest.mark.parametrize("checkpointed", [False, True])
def test_other_readers_see_what_is_settled(table: lakebed.Table, checkpointed: bool) -> None:
    if checkpointed:
        checkpoint(table._handle)
    assert len(by_path(table, unsettled=True)) == len(by_path(table, unsettled=False)) == 1
    assert seen_by_others(table) == by_path(table, unsettled=False)


@pytest.mark.parametrize("commits", ["all", "after the checkpoint", "none"])
def test_recovery_knows_what_is_unsettled(table: lakebed.Table, commits: str, tmp_path: Path) -> None:
    """From every commit, from a checkpoint and the commit after it, and from a checkpoint alone."""
    handle = table._handle
    checkpointed = checkpoint(handle)
    [unsettled] = [add for add in live(table).values() if is_unsettled(add)]
    if commits == "after the checkpoint":
        commit(table, [unsettled.remove(), settled(unsettled)])
        publish_versions(handle)
    versions = range(checkpointed, table.version + 1)
    expected = [at(handle.metastore, handle.table_id, version) for version in versions]
    log = Path(handle.store.location.path) / "_delta_log"
    for path in log.glob("*.json"):
        if commits != "all" and int(path.stem) <= checkpointed:
            path.unlink()
    assert not any(is_unsettled(add) for add in read_log(handle.store).files.values())
    with open_metastore(f"sqlite:///{tmp_path}/new.db") as fresh:
        imported = import_log(fresh, handle.store, None)
        assert [at(fresh, imported.table_id, version) for version in versions] == expected
        assert not [d for d in fresh.domains(imported.table_id) if d.domain.startswith("lakebed.")]
