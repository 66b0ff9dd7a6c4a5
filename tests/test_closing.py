"""What is left of a warehouse that was closed, and what cannot be created."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lakebed
from lakebed.engine.lease import end_pending


def test_nothing_opens_the_metastore_again(tmp_path: Path) -> None:
    """The leases of readers end before the warehouse is closed: later they would make an empty metastore."""
    for number in range(5):
        root = tmp_path / f"lake{number}"
        lake = lakebed.connect(root)
        table = lake.create_table("t", "id BIGINT", primary_key=["id"])
        table.upsert([{"id": 1}])
        readers = [table.to_batches() for _ in range(5)]
        assert sum(batch.num_rows for reader in readers for batch in reader) == 5
        del readers
        lake.close()
        shutil.rmtree(root)
        end_pending()
        assert not root.exists()


@pytest.mark.parametrize("key", [[], ["id", "p"]])
@pytest.mark.parametrize("kind", ["BINARY", "ARRAY<INT>", "STRUCT<a: INT>"])
def test_a_column_that_cannot_partition_is_refused_at_once(tmp_path: Path, kind: str, key: list[str]) -> None:
    with lakebed.connect(tmp_path) as lake:
        with pytest.raises(lakebed.LakebedError, match=r"'p'.*cannot|cannot.*'p'"):
            lake.create_table("t", f"id INT, p {kind}", partition_by=["p"], primary_key=key)
        assert lake.tables() == []
