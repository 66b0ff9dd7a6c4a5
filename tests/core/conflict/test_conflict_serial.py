"""The rules against a model: a commit that may land leaves the rows of some serial order, none lost or doubled."""

import json
from collections import Counter
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.core.actions import Action, AddFile, DeletionVector, Metadata, Protocol, RemoveFile
from lakebed.core.commit import Claim, Kind, PreparedCommit, Winner, finalise
from lakebed.core.conflict import check
from lakebed.core.predicate import parse
from lakebed.core.schema import LONG, Field, Struct
from lakebed.core.schema_delta import to_delta
from lakebed.core.snapshot import Snapshot, apply

SCHEMA = Struct((Field("id", LONG),))
METADATA = Metadata("t", json.dumps(to_delta(SCHEMA)))
EMPTY = apply([Protocol(3, 7, (), ()), METADATA], None)


class Disk:
    """What the files hold; the log only names them."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[int, ...]] = {}
        self.dead: dict[str, frozenset[int]] = {}

    def write(self, ids: list[int], *, data_change: bool = True) -> list[AddFile]:
        if not ids:
            return []
        path = f"f{len(self.rows)}"
        self.rows[path] = tuple(ids)
        bounds = {"minValues": {"id": min(ids)}, "maxValues": {"id": max(ids)}, "nullCount": {"id": 0}}
        return [AddFile(path, {}, 1, 0, data_change, json.dumps({"numRecords": len(ids), **bounds}))]

    def dead_of(self, file: AddFile) -> frozenset[int]:
        return self.dead[file.deletion_vector.path_or_inline_dv] if file.deletion_vector else frozenset()

    def live(self, file: AddFile) -> list[int]:
        return [id for at, id in enumerate(self.rows[file.path]) if at not in self.dead_of(file)]

    def strike(self, file: AddFile, low: int, high: int) -> list[Action]:
        """Take the rows of a range out of a file; nothing if there are none."""
        hit = {at for at, id in enumerate(self.rows[file.path]) if low <= id < high} - self.dead_of(file)
        if not hit:
            return []
        name = f"v{len(self.dead)}"
        self.dead[name] = self.dead_of(file) | hit
        left = len(self.rows[file.path]) - len(self.dead[name])
        vector = DeletionVector("u", name, 1, len(self.dead[name]))
        return [file.remove(timestamp=0), *([replace(file, deletion_vector=vector)] if left else [])]

    def contents(self, snapshot: Snapshot) -> Counter[int]:
        return Counter(id for file in snapshot.files.values() for id in self.live(file))


class Log:
    """The versions of the table, and operations on the newest or an older one."""

    def __init__(self, disk: Disk, versions: list[Snapshot]) -> None:
        self.disk = disk
        self.versions = versions

    def prepare(self, operation: tuple[Kind, int, int], read: Snapshot) -> PreparedCommit:
        kind, low, high = operation
        disk, files = self.disk, list(read.files.values())
        where = parse(f"id >= {low} AND id < {high}", SCHEMA)
        actions: list[Action] = []
        claim = Claim(kind)
        if kind is Kind.APPEND:
            actions = [*disk.write(list(range(low, high)))]
        elif kind is Kind.COMPACT:
            chosen = files[low % (len(files) + 1) :]
            moved = [id for file in chosen for id in disk.live(file)]
            actions = [*(f.remove(data_change=False) for f in chosen), *disk.write(moved, data_change=False)]
        elif kind is Kind.RESTORE:
            target = self.versions[low % (read.version + 1)]
            claim = Claim(kind, reads_all=True)
            gone = [f.remove() for key, f in read.files.items() if key not in target.files]
            actions = [*gone, *(replace(f, data_change=True) for k, f in target.files.items() if k not in read.files)]
        elif kind is Kind.OVERWRITE and low % 2:
            claim = Claim(kind, reads_all=True)
            actions = [*(f.remove() for f in files), *disk.write([low])]
        else:  # of the rows of the range: delete, update (move them by three), overwrite (with one row)
            claim = Claim(kind, where)
            hit = [id for f in files for id in disk.live(f) if low <= id < high]
            new = {Kind.DELETE: [], Kind.UPDATE: [id + 3 for id in hit], Kind.OVERWRITE: [low]}[kind]
            actions = [*(a for f in files for a in disk.strike(f, low, high)), *disk.write(new)]
        return PreparedCommit("t", "t", "c", read.version, (claim,), tuple(actions), read.metadata)

    def land(self, mine: PreparedCommit) -> Winner:
        newest = self.versions[-1]
        final = finalise(mine, version=newest.version + 1, timestamp=0, next_row_id=0)
        self.versions.append(apply(final.actions, newest))
        adds = [a for a in final.actions if isinstance(a, AddFile)]
        return Winner(final.version, mine.kind, adds, [a for a in final.actions if isinstance(a, RemoveFile)])

    def run(self, operation: tuple[Kind, int, int]) -> Winner:
        return self.land(self.prepare(operation, self.versions[-1]))

    @property
    def contents(self) -> Counter[int]:
        return self.disk.contents(self.versions[-1])


KINDS = [Kind.APPEND, Kind.COMPACT, Kind.DELETE, Kind.UPDATE, Kind.OVERWRITE, Kind.RESTORE]
operations = st.builds(
    lambda kind, low, length: (kind, low, low + length), st.sampled_from(KINDS), st.integers(0, 12), st.integers(1, 4)
)


def _serial_outcomes(
    disk: Disk, history: list[Snapshot], mine: tuple[Kind, int, int], theirs: list[tuple[Kind, int, int]]
) -> list[Counter[int]]:
    outcomes = []
    for at in range(len(theirs) + 1):
        log = Log(disk, list(history))
        for operation in [*theirs[:at], mine, *theirs[at:]]:
            log.run(operation)
        outcomes.append(log.contents)
    return outcomes


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(operations, max_size=5), operations, st.lists(operations, min_size=1, max_size=3))
def test_a_commit_that_lands_is_serial(past, mine, theirs) -> None:
    disk = Disk()
    log = Log(disk, [EMPTY])
    for operation in [(Kind.APPEND, 0, 4), (Kind.APPEND, 3, 8), *past]:
        log.run(operation)
    history = list(log.versions)
    prepared = log.prepare(mine, history[-1])
    winners = [log.run(operation) for operation in theirs]
    if check(prepared, winners, METADATA) is None:
        log.land(prepared)
        assert log.contents in _serial_outcomes(disk, history, mine, theirs)
        paths = [path for path, _ in log.versions[-1].files]
        assert len(paths) == len(set(paths))
