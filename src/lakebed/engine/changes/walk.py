"""The changes of every version of a range, one version after the other.

States are those of the full history: maintenance is a part of it like any commit. Only then it is decided which
versions are told of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakebed.core.actions import AddFile, RemoveFile
from lakebed.core.change_rows import SKIP_MERGE
from lakebed.core.commit import partition_key
from lakebed.core.keyed import KeySpec
from lakebed.engine.changes.difference import UnitState
from lakebed.engine.changes.members import Members
from lakebed.engine.changes.span import Span
from lakebed.engine.changes.step import ChangeOrder, Label, RawStep, Step
from lakebed.engine.draft import Handle
from lakebed.engine.unit import Unit
from lakebed.metastore import TableState, VersionChanges


@dataclass(frozen=True)
class Walk:
    """Goes through the versions of a range."""

    handle: Handle
    span: Span
    order: ChangeOrder

    def steps(self) -> Iterator[Step | RawStep]:
        """The work, the oldest version first. Raises NotFoundError if versions of the range have expired."""
        metastore, table_id = self.handle.metastore, self.handle.table_id
        begin = self.span.first if self.span.start is None else self.span.start
        changes = metastore.changed_files(table_id, begin, self.span.end)
        state = metastore.state(table_id, begin)
        key = KeySpec.of(self.order.scan.metadata)
        present = list(metastore.files(table_id, begin).adds()) if self.span.start is None else self._base(changes, key)
        members = Members.of([*present, *(add for change in changes for add in change.adds)], key)
        files = {unit: {add.path: add for add in adds} for unit, adds in members.by_unit(present).items()}
        if self.span.start is None:
            for unit, adds in files.items():
                after = UnitState(state.metadata, tuple(adds.values()), state.next_row_id)
                yield Step(self.order, unit, UnitState(state.metadata, (), 0), after, Label(begin))
        for change in changes:
            told = _changes_rows(change)
            states = (state, state)
            if told:
                before = change.version - 1
                state = state if state.version == before else metastore.state(table_id, before)
                states = (state, metastore.state(table_id, change.version))
            yield from self._step(change, members, files, states, told=told)
            state = states[1]

    def _step(
        self,
        change: VersionChanges,
        members: Members,
        files: dict[Unit, dict[str, AddFile]],
        states: tuple[TableState, TableState],
        *,
        told: bool,
    ) -> Iterator[Step | RawStep]:
        """Let ``files`` be what the version made of them, and tell what it changed."""
        for unit in members.touched([*change.adds, *change.removes]):
            now = files.setdefault(unit, {})
            before = tuple(now.values())
            known = set(now)
            for remove in change.removes:
                if members.of_path[remove.path] == unit:
                    now.pop(remove.path, None)
            mine = [add for add in change.adds if members.of_path[add.path] == unit]
            now.update({add.path: add for add in mine})
            if told and self.order.mode == SKIP_MERGE:
                new = tuple(add for add in mine if add.path not in known and add.data_change)
                yield RawStep(self.order, unit, new, change.version)
            elif told:
                old, then = states
                yield Step(
                    self.order,
                    unit,
                    UnitState(old.metadata, before, old.next_row_id),
                    UnitState(then.metadata, tuple(now.values()), then.next_row_id),
                    Label(change.version),
                )

    def _base(self, changes: Sequence[VersionChanges], key: KeySpec | None) -> list[AddFile]:
        """The files that were there before the range and that its versions may have to do with."""
        metastore, table_id, version = self.handle.metastore, self.handle.table_id, self.span.start
        touched: list[AddFile | RemoveFile] = []
        for change in changes:
            touched += [*change.adds, *change.removes]
        if not touched:
            return []
        partitions = buckets = None
        if key is None or not key.spans_partitions:
            places = {partition_key(file.partition_values or {}) for file in touched}
            known = metastore.partitions(table_id)
            partitions = [number for number, values in known.items() if partition_key(values) in places]
        if key is not None and isinstance(key.buckets, int):
            buckets = {key.bucket(file)[1] for file in touched}
        found = metastore.files(table_id, version, partitions=partitions, buckets=buckets).adds()
        if key is not None:
            return list(found)
        paths = {file.path for file in touched}
        return [add for add in found if add.path in paths]


def _changes_rows(change: VersionChanges) -> bool:
    """Whether the version says that it is more than maintenance."""
    return any(add.data_change for add in change.adds) or any(remove.data_change for remove in change.removes)
