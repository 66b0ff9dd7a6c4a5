"""What other engines read of a primary-key table equals what is settled of it, at every version."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import make_place
from model import bag
from test_outside import by_deltalake, by_polars, check_same, features, hide_before
from test_recover import begun_at, facts, new_metastore, same

import lakebed
from lakebed.core.file_tags import UNSETTLED
from lakebed.core.unsettled import DOMAIN_PREFIX

MERGES = ("on-write", "on-read", "copy-on-write")
ENGINES = ("deduplicate", "first-row", "partial-update", "aggregation")


@dataclass
class KeyHistory:
    """Random upserts, deletes and maintenance of one table, kept beside a dict of its rows.

    The rows are exact for deduplicate; the other engines only need to be read alike everywhere.
    """

    table: lakebed.Table
    engine: str
    chance: random.Random
    done: list[str] = field(default_factory=list)

    @staticmethod
    def begin(lake: lakebed.Warehouse, merge: str, engine: str, seed: int, **more: Any) -> KeyHistory:
        properties: dict[str, Any] = {"checkpoint-interval": 2, "dynamic-bucket.target-rows": 16}
        if engine in ("partial-update", "aggregation"):
            properties["remove-record-on-delete"] = True
        if engine == "aggregation":
            properties["fields.v.aggregate-function"] = "sum"
        table = lake.create_table(
            "t", "id INT, p STRING, s INT, v INT, note STRING", merge=merge, merge_engine=engine,
            properties=properties, **{"primary_key": ["id"], "partition_by": ["p"], "buckets": 2, **more},
        )  # fmt: skip
        return KeyHistory(table, engine, random.Random(seed))

    def rows(self, count: int) -> list[dict[str, Any]]:
        draw = self.chance
        return [
            {
                "id": draw.randrange(30), "p": draw.choice(["a", "b"]), "s": draw.randrange(9),
                "v": draw.randrange(100), "note": draw.choice([None, "x", "ü"]),
            }
            for _ in range(count)
        ]  # fmt: skip

    def run(self, steps: int) -> None:
        self.table.upsert(self.rows(20))
        for _ in range(steps):
            step = self.chance.choice(["upsert", "upsert", "upsert", "kinds", "delete", "settle", "compact", "restore"])
            self.done.append(step)
            getattr(self, step)()

    def upsert(self) -> None:
        self.table.upsert(self.rows(self.chance.randrange(8)))

    def kinds(self) -> None:
        kinds = ["+I"] if self.engine == "first-row" else ["+I", "+U", "-D"]
        self.table.upsert([{**row, "op": self.chance.choice(kinds)} for row in self.rows(6)], row_kind="op")

    def delete(self) -> None:
        self.table.delete(f"v < {self.chance.randrange(30)} and id > 20")

    def settle(self) -> None:
        self.table.settle()

    def compact(self) -> None:
        self.table.compact(full=self.chance.random() < 0.5)

    def restore(self) -> None:
        self.table.restore(self.chance.randrange(1, self.table.version + 1))


SHAPES: dict[str, dict[str, Any]] = {
    "plain": {"partition_by": []},
    "spanning": {},
    "inside": {"primary_key": ["id", "p"]},
    "dynamic": {"buckets": "dynamic"},
    "postpone": {"buckets": "postpone", "partition_by": []},
    "sequence": {"sequence": ["s"]},
}
CASES = [
    *((merge, "deduplicate", shape) for merge, shape in zip(MERGES * 2, SHAPES, strict=True)),
    ("on-read", "deduplicate", "dynamic"),
    ("on-read", "deduplicate", "postpone"),
    ("on-read", "first-row", "plain"),
    ("on-read", "partial-update", "inside"),
    ("on-write", "aggregation", "dynamic"),
    ("on-read", "aggregation", "sequence"),
    ("copy-on-write", "aggregation", "spanning"),
]


def compare(table: lakebed.Table, path: str, versions: Iterable[int]) -> Counter[str]:
    """Check that every reader finds the settled rows of each version; how many had rows that are not settled."""
    seen: Counter[str] = Counter()
    for version in versions:
        view = table.at(version=version)
        settled = view.read_optimised().to_arrow()
        assert features(view) <= {"deletionVectors"}
        assert bag(lakebed.read_delta(path, version).to_arrow()) == bag(settled), f"read_delta, version {version}"
        check_same(by_deltalake(path, version), settled, f"deltalake, version {version}")
        check_same(by_polars(path, version), settled, f"polars, version {version}")
        ids = settled["id"].to_pylist() if table.primary_key == ("id",) else []
        assert len(set(ids)) == len(ids), f"version {version}: a key is settled twice"
        seen["unsettled"] += bag(settled) != bag(view.to_arrow())
        seen["all"] += 1
    return seen


def actions(root: Path) -> list[tuple[int, dict[str, Any]]]:
    """All actions of the log's commits, each with its version."""
    files = sorted((root / "_delta_log").glob("*.json"))
    return [(int(file.stem), json.loads(line)) for file in files for line in file.read_text().splitlines()]


def folder(table: lakebed.Table) -> Path:
    return Path(table.location.removeprefix("file://"))


def check_log(table: lakebed.Table) -> None:
    """The log is valid, and unsettled files are in it only as domains."""
    added: set[tuple[str, str]] = set()
    waiting: set[str] = set()
    for version, action in actions(folder(table)):
        add, remove, domain = (action.get(name) for name in ("add", "remove", "domainMetadata"))
        if "protocol" in action:
            assert "domainMetadata" in action["protocol"]["writerFeatures"]
        if add is not None:
            assert (add.get("tags") or {}).get(UNSETTLED) is None, f"version {version}: {add['path']} is not settled"
            added.add(file_key(add))
        if remove is not None:
            assert file_key(remove) in added, f"version {version} removes {remove['path']}, which was never added"
        if domain is not None and domain["domain"].startswith(DOMAIN_PREFIX):
            path = domain["domain"].removeprefix(DOMAIN_PREFIX)
            assert domain.get("removed", False) == (path in waiting), f"version {version}: {domain['domain']}"
            waiting ^= {path}
            if not domain.get("removed"):
                assert json.loads(domain["configuration"])["path"] == path
    assert waiting == {add.path for add in table._point().files(None) if UNSETTLED in (add.tags or {})}


def file_key(action: dict[str, Any]) -> tuple[str, str]:
    return action["path"], json.dumps(action.get("deletionVector"), sort_keys=True)


@pytest.mark.parametrize(("merge", "engine", "shape"), CASES)
def test_every_version_reads_the_same_everywhere(
    local_lake: lakebed.Warehouse, merge: str, engine: str, shape: str
) -> None:
    history = KeyHistory.begin(local_lake, merge, engine, CASES.index((merge, engine, shape)), **SHAPES[shape])
    history.run(8)
    table = history.table
    seen = compare(table, table.location, range(table.version + 1))
    assert (seen["unsettled"] > 0) == (merge == "on-read"), history.done
    check_log(table)


def test_checkpoints_alone_carry_the_settled_rows(local_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    history = KeyHistory.begin(local_lake, "on-read", "deduplicate", 7)
    history.run(9)
    table = history.table
    root = folder(table)
    checkpoints = sorted(int(p.name[:20]) for p in (root / "_delta_log").glob("*.checkpoint.parquet"))
    assert checkpoints == list(range(2, table.version + 1, 2))
    for first in checkpoints[::2]:
        copy = tmp_path / f"from-{first}"
        shutil.copytree(root, copy)
        hide_before(copy, first)
        compare(table, str(copy), range(first, min(first + 2, table.version + 1)))


@pytest.mark.parametrize(
    ("kind", "engine"),
    [("sqlite-local", "deduplicate"), ("sqlite-local", "aggregation"), ("postgres-s3", "deduplicate")],
)
def test_recovery_has_the_unsettled_rows_too(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, engine: str
) -> None:
    place = make_place(request, kind, tmp_path)
    with place.connect() as lake:
        history = KeyHistory.begin(lake, "on-read", engine, 11, sequence=["s"])
        history.run(5)
        history.table.upsert(history.rows(8))
        history.table.upsert([{"id": 1, "p": "a", "s": 99, "v": 1, "op": "-D"}], row_kind="op")
        before = facts(history.table)
        rows, settled = history.table.to_arrow(), history.table.read_optimised().to_arrow()
        assert bag(rows) != bag(settled)
    with new_metastore(request, place, tmp_path).connect() as lake:
        table = lake.recover(before["identity"][2])
        same(before, facts(table))
        assert bag(table.to_arrow()) == bag(rows)
        assert bag(table.read_optimised().to_arrow()) == bag(settled)
        table.upsert([{"id": 1, "p": "b", "s": 98, "v": 5}, {"id": 77, "p": "b", "s": 1, "v": 5}])
        assert table.count("id = 1") == 0, "the tombstone was forgotten"
        table.settle()
        table.compact(full=True)
        assert bag(table.read_optimised().to_arrow()) == bag(table.to_arrow()) != bag(rows)
        assert table.count() == len(rows) + 1


def test_recovery_from_a_checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Old commits are gone from the log, and with them the domains of files that are unsettled still."""
    place = make_place(request, "sqlite-local", tmp_path)
    with place.connect() as lake:
        history = KeyHistory.begin(lake, "on-read", "deduplicate", 12, buckets="dynamic")
        for _ in range(4):
            history.table.upsert(history.rows(6))
        history.table.checkpoint()
        first = history.table.version
        history.table.upsert(history.rows(6))
        before = facts(history.table, first)
        rows, location = history.table.to_arrow(), history.table.location
    root = Path(location.removeprefix("file://"))
    hide_before(root, first)
    with new_metastore(request, place, tmp_path).connect() as lake:
        table = lake.recover(location)
        after = facts(table, first)
        for known in (before, after):
            begun_at(known, told=True)
        same(before, after)
        assert bag(table.to_arrow()) == bag(rows)
        assert table.read_optimised().count() == 0
        table.settle()
        check_same(by_deltalake(location, table.version), rows, "deltalake")
        check_same(by_polars(location, table.version), rows, "polars")


def test_registered_again_after_a_drop(local_lake: lakebed.Warehouse) -> None:
    history = KeyHistory.begin(local_lake, "on-read", "deduplicate", 13)
    history.run(4)
    history.table.upsert(history.rows(5))
    rows = history.table.to_arrow()
    local_lake.drop_table("t")
    table = local_lake.register("back", history.table.location)
    assert bag(table.to_arrow()) == bag(rows)
    assert table.key is not None
    table.upsert([{"id": 1, "p": "a", "v": -1}])
    assert table.to_arrow(["v"], "id = 1").to_pylist() == [{"v": -1}]


def test_change_of_merge_as_others_see_it(local_lake: lakebed.Warehouse) -> None:
    history = KeyHistory.begin(local_lake, "on-read", "deduplicate", 14)
    for merge in ("on-write", "copy-on-write", "on-read"):
        history.run(2)
        history.table.alter(properties={"merge": merge})
    history.run(2)
    compare(history.table, history.table.location, range(history.table.version + 1))
    check_log(history.table)


def test_tombstones_and_hidden_columns_stay_hidden(local_lake: lakebed.Warehouse) -> None:
    """Rows that only delete are in the files, and no reader of the log shows them."""
    table = local_lake.create_table("t", "id INT, s INT, v INT", primary_key=["id"], sequence=["s"], buckets=1)
    table.upsert([{"id": n, "s": 1, "v": n} for n in range(6)])
    table.delete([{"id": 1, "s": 2}, {"id": 9, "s": 2}])
    table.upsert([{"id": 2, "s": 3, "v": 20, "op": "+U"}, {"id": 3, "s": 3, "op": "-D"}], row_kind="op")
    table.compact(full=True)
    assert sum(table.files()["rows"].to_pylist()) > table.count() == 4
    for version in range(table.version + 1):
        ours: pa.Table = table.at(version=version).to_arrow()
        check_same(by_deltalake(table.location, version), ours, "deltalake")
        check_same(by_polars(table.location, version), ours, "polars")
    table.upsert([{"id": 9, "s": 1, "v": 9}])
    assert table.count("id = 9") == 0
