"""A table's pending change: what operations have done so far, not yet committed.

Operations work on a draft; reading through it sees their effect. ``prepare`` turns it into a commit.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any

from lakebed.core.actions import (
    Action,
    AddFile,
    DomainMetadata,
    FileKey,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from lakebed.core.commit import Bucket, Claim, Kind, PreparedCommit, partition_key
from lakebed.core.errors import InputError, StorageError
from lakebed.core.file_tags import bucket_of
from lakebed.core.options import Options
from lakebed.core.predicate import Node, may_match_files
from lakebed.core.properties import value_of
from lakebed.delta.features import check_writable
from lakebed.engine.distribution import Distribution
from lakebed.engine.plan import plan
from lakebed.engine.settlement import Settlement
from lakebed.engine.unit import Unit
from lakebed.engine.user import user_name
from lakebed.engine.write import WriteOrder
from lakebed.metastore import Metastore, TableState
from lakebed.storage.deletion_vector import vector_path
from lakebed.storage.store import Store


class LeftoverWarning(UserWarning):
    """Files that belong to no version of the table could not be deleted."""


@dataclass(frozen=True)
class Handle:
    """One table as the engine sees it: identity, metadata, files, options."""

    table_id: str
    name: str
    metastore: Metastore
    store: Store
    options: Options
    distribution: Distribution | None = field(default=None, compare=False)
    """The cluster that large work runs on; None: this process does it all."""


@dataclass
class Draft:
    """The change of one table against ``base``; mutable, used by one thread."""

    handle: Handle
    base: TableState
    metadata: Metadata = field(init=False)
    protocol: Protocol = field(init=False)
    adds: dict[str, AddFile] = field(default_factory=dict)
    removes: dict[FileKey, RemoveFile] = field(default_factory=dict)
    transactions: dict[str, SetTransaction] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, int] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    settlements: dict[Unit, Settlement] = field(default_factory=dict)
    """What settling the draft's upserts does to the table as it is in ``base``; made when the draft lands."""
    touched: Mapping[Unit, Sequence[AddFile]] = field(default_factory=dict)
    """The files of the units that the draft's upserts touch, as settling has found them."""
    unsettled: bool = False
    """Let the upserts land unsettled, although the table wants them settled: others keep winning the race."""
    written: list[str] = field(default_factory=list)
    """Files that this draft has made; they go if the commit certainly does not land."""
    alone: bool = False
    """Whether one operation is all that this draft will have."""
    commit_id: str | None = None
    """The id that the commit gets, where somebody has to find it afterwards."""
    published: bool = False
    """Whether the open log has the commit; set when it has landed."""

    def __post_init__(self) -> None:
        self.metadata = self.base.metadata
        self.protocol = self.base.protocol

    @property
    def order(self) -> WriteOrder:
        """What a writer of this table needs."""
        return WriteOrder(self.handle.store, self.handle.name, self.metadata, self.handle.options)

    def live(self, predicate: Node | None = None) -> list[AddFile]:
        """The files that may hold rows for which ``predicate`` is true, this draft's own included."""
        stored = plan(self.handle.metastore, self.handle.table_id, self.base.version, self.metadata, predicate)
        kept = [add for add in stored.adds() if add.key not in self.removes]
        pending: Sequence[AddFile] = list(self.adds.values())
        if predicate is not None:
            pending = may_match_files(predicate, pending, self.metadata)
        return [*kept, *pending]

    def live_in(self, places: Collection[str], buckets: Collection[int] | None = None) -> list[AddFile]:
        """The files of these partitions (as ``partition_key`` texts; "" means all of them) and buckets."""
        metastore, table_id = self.handle.metastore, self.handle.table_id
        numbers = None
        if "" not in places:
            found = metastore.partitions(table_id)
            numbers = [number for number, values in found.items() if partition_key(values) in places]
        stored = metastore.files(table_id, self.base.version, partitions=numbers, buckets=buckets)
        added = [
            add
            for add in self.adds.values()
            if (numbers is None or partition_key(add.partition_values) in places)
            and (buckets is None or bucket_of(add) in buckets)
        ]
        return [*(add for add in stored.adds() if add.key not in self.removes), *added]

    def add_new(self, files: Sequence[AddFile]) -> None:
        """Files that this draft has just written enter the table."""
        for add in files:
            self.adds[add.path] = add
            self.written.append(add.file_path)
        self.count("numFiles", len(files))
        self.count("numOutputRows", sum(add.num_records or 0 for add in files))
        self.count("numOutputBytes", sum(add.size for add in files))

    def remove(self, add: AddFile) -> None:
        """A file leaves the table; one that this draft added is simply forgotten."""
        if self.adds.get(add.path) is add:
            del self.adds[add.path]
        else:
            self.removes[add.key] = add.remove()
        self.count("numRemovedFiles", 1)

    def put(self, before: AddFile, after: AddFile) -> None:
        """A file of the table is now as ``after`` says: with another vector, or settled."""
        if self.adds.get(before.path) is not before:
            self.removes[before.key] = before.remove(data_change=after.data_change)
        self.adds[before.path] = after

    def add_old(self, add: AddFile) -> None:
        """A file of an earlier version comes back as it was."""
        self.adds[add.path] = replace(add, data_change=True)
        self.count("numRestoredFiles", 1)

    def settle(self, settlements: Iterable[Settlement]) -> None:
        """Take over settlements for good: later operations of this draft see them."""
        for settlement in settlements:
            self.removes.update(settlement.removes)
            for path in settlement.dropped:
                del self.adds[path]
            self.adds.update(settlement.adds)
            self.note(settlement)

    def note(self, settlement: Settlement) -> None:
        """The files that a settlement has written are this draft's; its numbers are shown in the history."""
        self.written.extend(settlement.written)
        for metric, number in settlement.metrics.items():
            self.count(metric, number)

    @property
    def can_move(self) -> bool:
        """Whether the draft only upserts: then it can be based on a newer version, keeping its data files."""
        return not self.removes and all(claim.kind is Kind.UPSERT for claim in self.claims)

    def move(self, base: TableState, stale: Callable[[Settlement], bool]) -> None:
        """Base the draft on a newer version, and forget the settlements that do not hold there."""
        self.base, self.metadata, self.protocol = base, base.metadata, base.protocol
        for unit in [unit for unit, settlement in self.settlements.items() if stale(settlement)]:
            self.forget(unit)

    def forget(self, unit: Unit) -> None:
        """Take a settlement back; the files that were written for it are left over."""
        for metric, number in self.settlements.pop(unit).metrics.items():
            self.count(metric, -number)

    def result(self) -> tuple[dict[FileKey, RemoveFile], dict[str, AddFile]]:
        """The files that leave and those that enter, settlements included."""
        removes, adds = dict(self.removes), dict(self.adds)
        for settlement in self.settlements.values():
            removes.update(settlement.removes)
            for path in settlement.dropped:
                del adds[path]
            adds.update(settlement.adds)
        return removes, adds

    def count(self, metric: str, number: int) -> None:
        """Add to one of the numbers that history shows."""
        self.metrics[metric] = self.metrics.get(metric, 0) + number

    def refuse_if_unwritable(self) -> None:
        """Raise UnsupportedFeatureError when the table asks of a writer what Lakebed does not do."""
        check_writable(self.protocol, self.metadata, table=f"table {self.handle.name}")

    def refuse_if_append_only(self, operation: str) -> None:
        """Raise InputError when the table's rows may not be taken away."""
        if value_of("append-only", self.metadata.configuration) == "true":
            raise InputError(
                f"table {self.handle.name} is append-only: no {operation}",
                fix="set the property 'append-only' to false",
            )

    @property
    def info(self) -> dict[str, dict[str, str]]:
        """What history says of the operation."""
        return {
            "operationParameters": {k: str(v) for k, v in self.parameters.items()},
            "operationMetrics": {k: str(v) for k, v in self.metrics.items()},
        }

    def prepare(self, info: Mapping[str, Any] | None = None) -> PreparedCommit:
        """The commit that this draft asks for."""
        return PreparedCommit(
            table_id=self.handle.table_id,
            table_name=self.handle.name,
            commit_id=self.commit_id or str(uuid.uuid4()),
            read_version=self.base.version,
            claims=tuple(self._with_buckets(claim) for claim in self.claims),
            actions=self._actions(),
            made_for=self.base.metadata,
            info={"userName": user_name(), **self.info, **(info or {})},
        )

    def _actions(self) -> tuple[Action, ...]:
        head: list[Action] = []
        if self.protocol != self.base.protocol:
            head.append(self.protocol)
        if self.metadata != self.base.metadata:
            head.append(self.metadata)
        removes, adds = self.result()
        return (*head, *self.domains.values(), *self.transactions.values(), *removes.values(), *adds.values())

    def _with_buckets(self, claim: Claim) -> Claim:
        """The claim with the buckets that its operation matched while the draft was settled."""
        if claim.kind is not Kind.UPSERT or not self.settlements:
            return claim
        return replace(claim, buckets=_buckets(self.settlements), settles=True)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """An operation that fails leaves the draft, and the table's directory, as they were."""
        before = {f.name: copy(getattr(self, f.name)) for f in fields(self)}
        try:
            yield
        except BaseException:
            fresh = [path for path in self.written if path not in before["written"]]
            for name, value in before.items():
                setattr(self, name, value)
            self.delete_files(fresh)
            raise

    def discard(self) -> None:
        """Delete what this draft has written; only when its commit certainly did not land."""
        self.delete_files(self.written)

    def tidy(self) -> None:
        """After the commit: delete files that were written but never became part of it."""
        adds = self.result()[1].values()
        kept = {add.file_path for add in adds}
        vectors = (add.deletion_vector for add in adds)
        kept |= {vector_path(v.path_or_inline_dv) for v in vectors if v is not None and v.storage_type == "u"}
        self.delete_files([path for path in self.written if path not in kept])

    def delete_files(self, paths: Sequence[str]) -> None:
        """Delete files of no version. One that cannot be is a warning, since the outcome is known already."""
        try:
            self.handle.store.delete_many(paths)
            for path in paths:
                self.handle.store.remove_empty_parents(path)
        except StorageError as error:
            warnings.warn(
                LeftoverWarning(
                    f"table {self.handle.name}: {len(paths)} file(s) that belong to no version could not be deleted "
                    f"({error}); vacuum will find them"
                ),
                stacklevel=2,
            )


def _buckets(units: Iterable[Unit]) -> frozenset[Bucket]:
    return frozenset(bucket for unit in units for bucket in unit.buckets)
