"""What other engines read equals what Lakebed reads: at every version, after random histories."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import polars as pl
import pyarrow as pa
import pytest
from histories import PARTITIONS, RandomHistory
from model import bag

import lakebed
from lakebed.engine.scan import read_all
from lakebed.engine.source import plain

REFUSED_BY_DELTALAKE = frozenset({"typeWidening"})
REFUSED_BY_POLARS = frozenset({"typeWidening", "columnMapping"})


def by_deltalake(path: str, version: int) -> pa.Table:
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path, version=version))
    return pa.table(builder.execute("select * from t"))


def by_polars(path: str, version: int) -> pa.Table:
    return pl.scan_delta(path, version=version).collect().to_arrow()


def as_polars_reads(view: lakebed.TableView) -> pa.Table:
    """The rows, with polars' own mistake: it passes over the vector of a file whose path has to be encoded.

    polars 2.1 looks a vector up by the file's plain path where deltalake names it by the encoded one.
    """
    order, sources = view._scan(view._point(), None, None)
    files = [source.add for source in sources]
    return read_all(order, plain([replace(add, deletion_vector=None) if "%" in add.path else add for add in files]))


def features(view: lakebed.TableView) -> frozenset[str]:
    return frozenset(view._point().state.protocol.reader_features or ())  # type: ignore[attr-defined]


def compare(table: lakebed.Table, path: str, versions: range) -> Counter[str]:
    """Check every version; how many each reader has really compared."""
    compared: Counter[str] = Counter()
    for version in versions:
        view = table.at(version=version)
        ours = view.to_arrow()
        used = features(view)
        assert bag(lakebed.read_delta(path, version).to_arrow()) == bag(ours)
        if used & REFUSED_BY_DELTALAKE:
            with pytest.raises(deltalake.exceptions.DeltaError, match="TypeWidening"):
                by_deltalake(path, version)
        else:
            check_same(by_deltalake(path, version), ours, f"deltalake, version {version}")
            compared["deltalake"] += 1
        if used & REFUSED_BY_POLARS:
            with pytest.raises(Exception, match=r"reader features .*(columnMapping|typeWidening)"):
                by_polars(path, version)
        else:
            check_same(by_polars(path, version), as_polars_reads(view), f"polars, version {version}")
            compared["polars"] += 1
    return compared


def check_same(theirs: pa.Table, ours: pa.Table, reader: str) -> None:
    assert theirs.column_names == ours.column_names, reader
    found, expected = bag(theirs), bag(ours)
    assert found == expected, f"{reader}: only there {found - expected}; only here {expected - found}"


def shape(done: list[str]) -> str:
    return ", ".join(done)


@pytest.mark.parametrize(("partitions", "seed"), [*zip(PARTITIONS, range(1, 5), strict=False), ("one", 5)])
def test_every_version_reads_the_same_everywhere(local_lake: lakebed.Warehouse, partitions: str, seed: int) -> None:
    history = RandomHistory.begin(local_lake, seed, partitions, checkpoint_interval=5)
    history.run(20, plain=15)
    table = history.table
    compared = compare(table, table.location, range(table.version + 1))
    assert compared["deltalake"] > 0.6 * table.version, shape(history.done)
    assert compared["polars"] > 0.6 * table.version, shape(history.done)


def vector_kinds(table: lakebed.Table) -> set[str]:
    views = (table.at(version=v)._point() for v in range(table.version + 1))
    return {add.deletion_vector.storage_type for p in views for add in p.files(None) if add.deletion_vector}


def test_the_histories_have_vectors_in_the_log_and_in_files(local_lake: lakebed.Warehouse) -> None:
    history = RandomHistory.begin(local_lake, 3, "one")
    history.append_many()
    history.delete_scattered()
    history.table.append(history.rows(2, part="ü") + history.rows(2, part="ü", id=99))
    history.table.delete("id = 99")
    assert vector_kinds(history.table) == {"i", "u"}
    compare(history.table, history.table.location, range(history.table.version + 1))


@pytest.mark.parametrize("partitions", ["none", "several"])
def test_checkpoints_alone_carry_the_table(local_lake: lakebed.Warehouse, tmp_path: Path, partitions: str) -> None:
    """Without the commits that a checkpoint sums up, readers must get everything from the checkpoint."""
    history = RandomHistory.begin(local_lake, 5, partitions, checkpoint_interval=3)
    history.run(15, plain=12)
    table = history.table
    root = Path(table.location.removeprefix("file://"))
    checkpoints = sorted(int(p.name[:20]) for p in (root / "_delta_log").glob("*.checkpoint.parquet"))
    assert checkpoints == list(range(3, table.version + 1, 3))
    compared: Counter[str] = Counter()
    for first in checkpoints:
        copy = tmp_path / f"from-{first}"
        shutil.copytree(root, copy)
        hide_before(copy, first)
        compared += compare(table, str(copy), range(first, min(first + 3, table.version + 1)))
    assert min(compared["deltalake"], compared["polars"]) >= 9, shape(history.done)


def hide_before(root: Path, first: int) -> None:
    """Leave of the log only the checkpoint of ``first`` and the commits from it on."""
    for file in (root / "_delta_log").iterdir():
        number = file.name[:20]
        if number.isdigit() and (int(number) < first or (int(number) > first and "checkpoint" in file.name)):
            file.unlink()
    (root / "_delta_log" / "_last_checkpoint").unlink()


def test_pruned_reads_agree(local_lake: lakebed.Warehouse) -> None:
    """Statistics and partition values in the log are right, as another engine uses them to skip files."""
    history = RandomHistory.begin(local_lake, 8, "several")
    history.run(12, plain=12)
    table = history.table
    engine = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(table.location))
    for where in ("id < 10", "id >= 30", "part = 'a'", "part is null", "day = '9999-12-31'", "price > 1", "n < 0"):
        theirs: Any = pa.table(engine.execute(f"select id from t where {where}"))
        assert bag(theirs) == bag(table.to_arrow(["id"], where)), where


def test_on_object_storage(s3: Any, tmp_path: Path) -> None:
    """The same on S3, where paths and vectors are found by keys and not by directories."""
    options = {
        "AWS_ENDPOINT_URL": s3.endpoint,
        "AWS_ACCESS_KEY_ID": s3.options()["s3_access_key"],
        "AWS_SECRET_ACCESS_KEY": s3.options()["s3_secret_key"],
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    url = f"sqlite:///{tmp_path}/metastore.db"
    with lakebed.connect(f"s3://{s3.new_bucket()}/w", url, **s3.options()) as lake:
        history = RandomHistory.begin(lake, 7, "several", checkpoint_interval=3)
        history.run(8, plain=8)
        table = history.table
        for version in range(0, table.version + 1, 2):
            view = table.at(version=version)
            known = deltalake.DeltaTable(table.location, version=version, storage_options=options)
            theirs = pa.table(deltalake.QueryBuilder().register("t", known).execute("select * from t"))
            check_same(theirs, view.to_arrow(), f"deltalake, version {version}")
            frame = pl.scan_delta(table.location, version=version, storage_options=options).collect()
            check_same(frame.to_arrow(), as_polars_reads(view), f"polars, version {version}")
