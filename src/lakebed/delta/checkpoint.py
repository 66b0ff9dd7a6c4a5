"""Writing a checkpoint: one Parquet file that sums up the log up to a version, and the pointer to it."""

from __future__ import annotations

import itertools
import json
import mmap
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.core.actions import (
    Action,
    AddFile,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from lakebed.core.errors import FileMissingError
from lakebed.core.steps import Step, reach
from lakebed.delta.checkpoint_schema import SCHEMA, add_rows, remove_rows, small_rows
from lakebed.delta.log import list_log
from lakebed.delta.paths import LAST_CHECKPOINT, checkpoint_path, commit_path
from lakebed.storage.failure import translated
from lakebed.storage.store import Store

BATCH_ROWS = 1 << 15


@dataclass
class _Counts:
    actions: int = 0
    adds: int = 0


def write_checkpoint(
    store: Store,
    version: int,
    *,
    protocol: Protocol,
    metadata: Metadata,
    transactions: Iterable[SetTransaction] = (),
    domains: Iterable[DomainMetadata] = (),
    adds: Iterable[AddFile] = (),
    removes: Iterable[RemoveFile] = (),
) -> None:
    """Write the state of ``version`` as a classic checkpoint and point ``_last_checkpoint`` at the newest one.

    ``adds`` (the live files) and ``removes`` (the tombstones that have not expired) are taken in batches, so
    memory does not grow with the table. The checkpoint appears whole or not at all. Raises FileMissingError
    if the commit itself is not in the log yet.

    >>> from lakebed.core.location import Location
    >>> from lakebed.storage.store import open_store
    >>> store = open_store(Location.parse(tempfile.mkdtemp()))
    >>> store.put(commit_path(7), b'{"commitInfo":{}}')
    >>> table = Metadata("t", '{"type":"struct","fields":[]}')
    >>> write_checkpoint(store, 7, protocol=Protocol(1, 2), metadata=table)
    >>> json.loads(store.read(LAST_CHECKPOINT))["version"]
    7
    """
    if not store.exists(commit_path(version)):
        raise FileMissingError(
            f"{store.location}: version {version} cannot have a checkpoint before its commit is in the log",
            expected=commit_path(version),
            fix="publish first",
        )
    small: tuple[Action, ...] = (protocol, metadata, *transactions, *(d for d in domains if not d.removed))
    counts = _Counts()
    batches = itertools.chain(
        (small_rows(small),), map(add_rows, _chunks(adds, counts)), map(remove_rows, _chunks(removes))
    )
    target = checkpoint_path(version)
    with translated("write", store.uri(target)), tempfile.TemporaryFile(prefix="lakebed-checkpoint-") as file:
        counts.actions = _write_parquet(file, batches)
        size = file.tell()
        # Not closed by hand: after a failed put, the error's frames still hold the view.
        store.put(target, memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)))
    reach(Step.CHECKPOINT_WRITTEN)
    if not _points_beyond(store, version):
        store.put(LAST_CHECKPOINT, _pointer(version, counts, size))
    reach(Step.CHECKPOINT_POINTED)


def pointed_version(store: Store) -> int | None:
    """The version that ``_last_checkpoint`` names; None if it names none. The checkpoint need not be there."""
    try:
        pointed = json.loads(store.read(LAST_CHECKPOINT))["version"]
    except (FileMissingError, ValueError, KeyError, TypeError):
        return None
    return pointed if isinstance(pointed, int) else None


def _points_beyond(store: Store, version: int) -> bool:
    """Whether ``_last_checkpoint`` names a later checkpoint that is there: the commits before it may be gone."""
    pointed = pointed_version(store)
    if pointed is None or pointed <= version:
        return False
    return any(checkpoint.version == pointed for checkpoint in list_log(store).checkpoints)


def _chunks(actions: Iterable[Any], counts: _Counts | None = None) -> Iterator[list[Any]]:
    rest = iter(actions)
    while chunk := list(itertools.islice(rest, BATCH_ROWS)):
        if counts is not None:
            counts.adds += len(chunk)
        yield chunk


def _write_parquet(file: IO[bytes], batches: Iterable[pa.RecordBatch]) -> int:
    rows = 0
    with pq.ParquetWriter(file, SCHEMA, compression="zstd", store_schema=False) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    file.flush()
    return rows


def _pointer(version: int, counts: _Counts, size: int) -> bytes:
    body = {"version": version, "size": counts.actions, "sizeInBytes": size, "numOfAddFiles": counts.adds}
    return json.dumps(body, separators=(",", ":")).encode()
