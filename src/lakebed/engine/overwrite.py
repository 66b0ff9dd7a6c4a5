"""Appending and replacing rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.commit import Claim, Kind, partition_key
from lakebed.core.errors import AlreadyExistsError, InputError
from lakebed.core.keyed import KeySpec
from lakebed.core.partition import decode_values, encode_value
from lakebed.core.predicate import Node, render
from lakebed.engine.delete import remove_rows
from lakebed.engine.draft import Draft
from lakebed.engine.incoming import Incoming
from lakebed.engine.settle import settle_for, settle_own
from lakebed.engine.source import Source
from lakebed.engine.upsert import upsert, write_pending


def append(draft: Draft, rows: Incoming) -> None:
    """Add rows to the draft. In a table with a primary key that is an upsert: a key has one row."""
    if KeySpec.of(draft.metadata) is not None:
        upsert(draft, rows)
        return
    files = rows.write(draft.order)
    draft.claims.append(Claim(Kind.APPEND))
    draft.parameters.setdefault("mode", "Append")
    draft.add_new(files)


def overwrite_all(draft: Draft, rows: Incoming) -> None:
    """Replace all rows of the draft."""
    draft.refuse_if_append_only("overwrite")
    before = draft.live()
    new = _NewRows.write(draft, rows)
    for add in before:
        draft.remove(add)
    draft.parameters["mode"] = "Overwrite"
    new.enter(Claim(Kind.OVERWRITE, reads_all=True))


def overwrite_nothing(draft: Draft) -> None:
    """Raise AlreadyExistsError if the draft has any row."""
    if any(Source(add).live_rows != 0 for add in draft.live()):
        raise AlreadyExistsError(
            f"table {draft.handle.name} has rows already", fix="choose another mode, like 'append' or 'overwrite'"
        )


def overwrite_where(draft: Draft, rows: Incoming, predicate: Node) -> None:
    """Replace the rows for which ``predicate`` is true; every new row must satisfy it too."""
    draft.refuse_if_append_only("overwrite")
    before = settle_for(draft, predicate, deleting=True)
    # The rows that leave are found before the new ones are in the draft, and after those have been seen to fit.
    new = _NewRows.write(draft, rows, predicate)
    draft.count("numDeletedRows", remove_rows(draft, predicate, but=new.paths))
    draft.parameters.update(mode="Overwrite", predicate=render(predicate))
    new.enter(Claim(Kind.OVERWRITE, predicate=predicate, buckets=before, settles=bool(before)))


def overwrite_partitions(draft: Draft, rows: Incoming) -> None:
    """Replace just the partitions that the new rows are in."""
    draft.refuse_if_append_only("overwrite")
    if not draft.metadata.partition_columns:
        raise InputError(
            f"table {draft.handle.name} has no partitions to overwrite dynamically",
            fix="leave out where='dynamic' to replace the whole table",
        )
    key = KeySpec.of(draft.metadata)
    # A newer row in a partition that leaves must not uncover the older one elsewhere.
    before = settle_for(draft) if key is not None and key.spans_partitions else frozenset()
    present = draft.live()
    new = _NewRows.write(draft, rows)
    touched = new.partitions
    key_of = _Keys(draft.metadata)
    for add in present:
        if key_of(add) in touched:
            draft.remove(add)
    draft.parameters.update(mode="Overwrite", partitionOverwriteMode="dynamic")
    new.enter(Claim(Kind.OVERWRITE, partitions=touched, buckets=before, settles=bool(before)))


@dataclass(frozen=True)
class _NewRows:
    """The rows that take the place of others: written, and then let into the draft."""

    draft: Draft
    files: list[AddFile]
    key: KeySpec | None
    partitions: frozenset[str]
    """The partitions that rows came for, even if another row of their key took them elsewhere."""

    @staticmethod
    def write(draft: Draft, rows: Incoming, within: Node | None = None) -> _NewRows:
        key = KeySpec.of(draft.metadata)
        if key is None:
            files = rows.write(replace(draft.order, within=within))
            draft.written.extend(add.file_path for add in files)
            partitions = frozenset(partition_key(add.partition_values) for add in files)
        else:
            earlier = set(draft.adds)
            partitions = write_pending(draft, key, rows, within=within).partitions
            files = [add for path, add in draft.adds.items() if path not in earlier]
        return _NewRows(draft, files, key, partitions)

    @property
    def paths(self) -> frozenset[str]:
        """The paths of the new files."""
        return frozenset(add.path for add in self.files)

    def enter(self, claim: Claim) -> None:
        """The new rows are part of the draft; in a key table they are settled with what has stayed."""
        if self.key is None:
            self.draft.add_new(self.files)
        else:
            buckets = claim.buckets | settle_own(self.draft, self.key)
            claim = replace(claim, buckets=buckets, settles=bool(buckets))
        self.draft.claims.append(claim)


class _Keys:
    """The partition of a file as our own writers spell it; others write ``inf`` or a time in another form."""

    def __init__(self, metadata: Metadata) -> None:
        self._types = {f.physical_name: f.type for f in metadata.partition_schema}
        self._spelled: dict[tuple[str, str | None], str | None] = {}

    def __call__(self, add: AddFile) -> str:
        return partition_key({name: self._text(name, text) for name, text in add.partition_values.items()})

    def _text(self, name: str, text: str | None) -> str | None:
        if (name, text) not in self._spelled:
            kind = self._types[name]
            self._spelled[name, text] = encode_value(decode_values([text], kind)[0], kind)
        return self._spelled[name, text]
