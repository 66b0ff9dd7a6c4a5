"""Rows that come from files: tasks, or this process, read them and write them as files of a table."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakebed.core.actions import AddFile, SetTransaction
from lakebed.core.commit import Bucket
from lakebed.core.errors import DataError, InputError, SchemaError
from lakebed.core.schema import Struct
from lakebed.core.schema_arrow import to_arrow
from lakebed.engine.draft import Draft
from lakebed.engine.file_formats import FileFormat
from lakebed.engine.incoming import Settles
from lakebed.engine.keyed_write import KeyedWriter
from lakebed.engine.upsert_order import Upserted, UpsertOrder, one_batch
from lakebed.engine.workforce import Workload
from lakebed.engine.write import TableWriter, WriteOrder, conformed
from lakebed.storage.file_glob import SourceFile

LOADED = "lakebed.copy_into:"
"""What the names of applications begin with that stand for loaded files."""
_THREADS = 2
_LONGEST = 1000
# Files of a key table are read together in larger shares: each share makes a file in every bucket.
_KEYED_SHARES = 4


def loaded_files(draft: Draft, files: Sequence[SourceFile]) -> dict[str, int]:
    """How often each of the files was loaded into the draft's table, less one; those that never were are left out."""
    known = draft.handle.metastore.transactions(draft.handle.table_id, draft.base.version)
    return {file.uri: known[app].version for file in files if (app := _application(file)) in known}


def mark_loaded(draft: Draft, files: Sequence[SourceFile], before: dict[str, int]) -> None:
    """Let the draft land only if nobody else has loaded any of the files meanwhile."""
    for file in files:
        app = _application(file)
        draft.transactions[app] = SetTransaction(app, before.get(file.uri, -1) + 1)


def _application(file: SourceFile) -> str:
    """The name of the application that has written a file's rows; no longer than an index takes."""
    uri = file.uri
    return LOADED + (uri if len(uri) <= _LONGEST else f"sha256:{hashlib.sha256(uri.encode()).hexdigest()}")


@dataclass(frozen=True)
class Loaded:
    """What came of some files."""

    files: list[AddFile] = field(hash=False)
    rows: int
    deletes: int = 0
    splits: list[Bucket] = field(default_factory=list, hash=False)


@dataclass(frozen=True)
class LoadOrder:
    """How files are read and written; small and serialisable."""

    format: FileFormat
    order: WriteOrder | UpsertOrder

    def run(self, files: Sequence[SourceFile]) -> Loaded:
        """Load these files, one after the other; on any error nothing remains."""
        if isinstance(self.order, WriteOrder):
            return self._append(files, self.order)
        with KeyedWriter(self.order) as writer:
            for file in files:
                with _named(file):
                    for batch in self._batches(file):
                        writer.write(batch)
                    writer.check()
            done = writer.close()
        return Loaded(done.files, done.rows, done.deletes, done.splits)

    def _append(self, files: Sequence[SourceFile], order: WriteOrder) -> Loaded:
        with TableWriter(order) as writer:
            for file in files:
                with _named(file):
                    for batch in self._batches(file):
                        for rows in conformed(pa.RecordBatchReader.from_batches(batch.schema, [batch]), order):
                            writer.write(rows)
            return Loaded(writer.close(), writer.rows)

    def _batches(self, file: SourceFile) -> Iterator[pa.RecordBatch]:
        return self.format.batches(file, to_arrow(self.order.metadata.schema), self.order.options)


class _named:
    """Problems of rows say which file they are in."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DataError) and self._file.uri not in error.title:
            raise DataError(f"{error.title} (file {self._file.uri})", error.problems, fix=error.fix) from error


@dataclass(frozen=True)
class FileRows:
    """The rows of files, on their way into a draft's table. Later files count as later rows."""

    draft: Draft
    files: tuple[SourceFile, ...]
    format: FileFormat

    @property
    def schema(self) -> pa.Schema:
        """The columns of all files. Raises SchemaError if they do not go together."""
        found = [self.format.schema(file, self.draft.handle.options) for file in self.files]
        try:
            return pa.unify_schemas([one.remove_metadata() for one in found], promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise SchemaError(
                "the columns of the files do not go together", found=str(error), fix="load files of one kind at a time"
            ) from error

    @property
    def replaces_partitions(self) -> bool:
        """No: nothing says so."""
        return False

    def cast(self, schema: Struct, names: Collection[str]) -> FileRows:
        """Not here: rows that need it are better read first."""
        raise InputError("rows are not cast while their files are loaded", fix="read the files, cast, and append")

    def read(self) -> pa.Table:
        """All rows, as their files have them."""
        batches = [batch for file in self.files for batch in self._read(file)]
        return pa.concat_tables([pa.table(batch) for batch in batches], promote_options="permissive")

    def _read(self, file: SourceFile) -> Iterator[pa.RecordBatch]:
        draft = self.draft
        return self.format.batches(file, to_arrow(draft.metadata.schema), draft.handle.options)

    def write(self, order: WriteOrder) -> list[AddFile]:
        """Write the rows into a table without a key."""
        done = self._run(lambda prefix: LoadOrder(self.format, replace(order, prefix=prefix)), 1)
        return [add for one in done for add in one.files]

    def upsert(self, order: UpsertOrder, settles: Settles) -> Upserted:
        """Write the rows as upsert files; they are settled when the commit lands."""
        done = self._run(lambda prefix: LoadOrder(self.format, replace(order, prefix=prefix)), _KEYED_SHARES)
        return Upserted(
            files=one_batch([add for one in done for add in one.files], order.key),
            rows=sum(one.rows for one in done),
            deletes=sum(one.deletes for one in done),
            splits=list(dict.fromkeys(split for one in done for split in one.splits)),
        )

    def _run(self, work: Callable[[str], LoadOrder], shares: int) -> list[Loaded]:
        options = self.draft.handle.options
        total = sum(file.size for file in self.files)
        distributed = self.draft.handle.distribution is not None and total >= options.distribute_from
        # One writer after the other knows the order of rows, and fills the buckets' files best.
        whole = shares > 1 and not distributed
        groups = [self.files] if whole else _groups(self.files, shares * options.file_target_size)
        workload = Workload[tuple[SourceFile, ...], Loaded](
            work=lambda prefix: work(prefix).run,
            size=lambda group: sum(file.size for file in group),
            made=lambda one: [add.file_path for add in one.files],
            threads=_THREADS,
        )
        done = workload.run(self.draft, groups)
        self.draft.count("numSourceFiles", len(self.files))
        self.draft.count("numSourceRows", sum(one.rows for one in done))
        return done


def _groups(files: Sequence[SourceFile], size: int) -> list[tuple[SourceFile, ...]]:
    """Files that are read together, in their order: small ones share a file of the table.

    >>> from lakebed.core.location import Location
    >>> found = [SourceFile(Location.parse(f"/{n}"), n) for n in (1, 2, 9, 1)]
    >>> [[file.size for file in group] for group in _groups(found, 4)]
    [[1, 2], [9], [1]]
    """
    groups: list[list[SourceFile]] = []
    filled = 0
    for file in files:
        if not groups or filled + file.size > size:
            groups.append([])
            filled = 0
        groups[-1].append(file)
        filled += file.size
    return [tuple(group) for group in groups]
