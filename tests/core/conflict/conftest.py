"""A table at version 7, my commit made from it, and the winners that landed as versions 8, 9, …"""

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from lakebed.core.actions import Action, AddFile, DeletionVector, Metadata
from lakebed.core.commit import Bucket, Claim, Kind, PreparedCommit, Winner, partition_key
from lakebed.core.conflict import Verdict, check
from lakebed.core.predicate import parse
from lakebed.core.schema import DOUBLE, INTEGER, LONG, STRING, Field, Struct
from lakebed.core.schema_delta import to_delta

READ_VERSION = 7
ADDRESS = Struct((Field("zip", STRING), Field("city", STRING)))
SCHEMA = Struct(
    (
        Field("id", LONG),
        Field("amount", DOUBLE),
        Field("number", INTEGER),
        Field("address", ADDRESS),
        Field("dt", STRING),
    )
)


def metadata_of(schema: Struct, partition_columns: tuple[str, ...] = ("dt",), **further: object) -> Metadata:
    return Metadata("t", json.dumps(to_delta(schema)), partition_columns, **further)


class Race:
    """Makes both sides of a race, and asks for the verdict."""

    metadata = metadata_of(SCHEMA)

    def __init__(self) -> None:
        self._versions = itertools.count(READ_VERSION + 1)
        self._vectors = itertools.count(1)

    def file(
        self,
        path: str,
        dt: str | None = "mon",
        ids: tuple[int, int] = (1, 10),
        nulls: Mapping[str, object] | None = None,
        **further: object,
    ) -> AddFile:
        """A data file with ten rows; without ``nulls`` no column holds one."""
        clean = {"id": 0, "amount": 0, "number": 0, "address": {"zip": 0, "city": 0}}
        stats = {
            "numRecords": 10,
            "minValues": {"id": ids[0]},
            "maxValues": {"id": ids[1]},
            "nullCount": {**clean, **(nulls or {})},
        }
        return AddFile(path, {"dt": dt}, 100, 0, True, **{"stats": json.dumps(stats), **further})

    def struck(self, file: AddFile) -> AddFile:
        """The same file with one more dead row."""
        vector = DeletionVector("u", f"v{next(self._vectors)}", 40, 1, offset=1)
        return replace(file, deletion_vector=vector)

    def moved(self, file: AddFile) -> AddFile:
        """The file as compaction writes it."""
        return replace(file, path=f"compacted-{file.path}", data_change=False)

    def claim(self, kind: Kind, where: str | None = None, **further: object) -> Claim:
        node = None if where is None else parse(where, self.metadata.schema)
        return Claim(kind, node, **further)

    def mine(self, *claims: Claim, actions: Iterable[Action] = ()) -> PreparedCommit:
        return PreparedCommit(
            "t", "shop.orders", "my-commit", READ_VERSION, claims, tuple(actions), made_for=self.metadata
        )

    def append(self, *files: AddFile) -> PreparedCommit:
        return self.mine(Claim(Kind.APPEND), actions=files)

    def upsert(self, *buckets: Bucket, actions: Iterable[Action] = ()) -> PreparedCommit:
        return self.mine(Claim(Kind.UPSERT, buckets=frozenset(buckets), settles=True), actions=actions)

    def compaction(self, *files: AddFile, kind: Kind = Kind.COMPACT, buckets: Iterable[Bucket] = ()) -> PreparedCommit:
        removes = [file.remove(data_change=False) for file in files]
        claim = Claim(kind, buckets=frozenset(buckets))
        return self.mine(claim, actions=[*removes, *map(self.moved, files)])

    def change(self, kind: Kind, where: str, *touched: AddFile, adds: Iterable[AddFile] = ()) -> PreparedCommit:
        """delete, update, merge or overwrite of the rows of a predicate; ``touched`` files get a vector."""
        vectors = [a for file in touched for a in (file.remove(), self.struck(file))]
        return self.mine(self.claim(kind, where), actions=[*vectors, *adds])

    def replace_all(self, *live: AddFile, adds: Iterable[AddFile] = ()) -> PreparedCommit:
        """An overwrite of the whole table."""
        return self.mine(Claim(Kind.OVERWRITE, reads_all=True), actions=[*(f.remove() for f in live), *adds])

    def replace_partitions(self, *days: str | None, removes: Iterable[AddFile] = ()) -> PreparedCommit:
        """A dynamic overwrite."""
        keys = frozenset(partition_key({"dt": day}) for day in days)
        adds = [self.file(f"mine-{day}", day) for day in days]
        claim = Claim(Kind.OVERWRITE, partitions=keys)
        return self.mine(claim, actions=[*(f.remove() for f in removes), *adds])

    def won(
        self, kind: Kind, adds: Iterable[AddFile] = (), removes: Iterable[AddFile] = (), **further: object
    ) -> Winner:
        """A commit that landed meanwhile."""
        gone = tuple(file.remove(data_change=kind is not Kind.COMPACT) for file in removes)
        return Winner(next(self._versions), kind, tuple(adds), gone, **further)

    def won_delete(self, *files: AddFile, kind: Kind = Kind.DELETE, adds: Iterable[AddFile] = ()) -> Winner:
        """A delete or update that struck rows of ``files``."""
        return self.won(kind, [*(self.struck(f) for f in files), *adds], files)

    def won_compaction(self, *files: AddFile, kind: Kind = Kind.COMPACT, **further: object) -> Winner:
        return self.won(kind, [self.moved(f) for f in files], files, data_change=False, **further)

    def won_alter(
        self, schema: Struct = SCHEMA, partition_columns: tuple[str, ...] = ("dt",), **further: object
    ) -> Winner:
        return self.won(Kind.ALTER, metadata=metadata_of(schema, partition_columns, **further))

    def altered(self, name: str, /, **changes: object) -> Struct:
        """The table's schema with one column changed."""
        return Struct(tuple(replace(f, **changes) if f.name == name else f for f in SCHEMA))

    def check(self, mine: PreparedCommit, *winners: Winner) -> Verdict:
        left = next((w.metadata for w in reversed(winners) if w.metadata is not None), self.metadata)
        return check(mine, winners, left)


@pytest.fixture
def race() -> Race:
    return Race()
