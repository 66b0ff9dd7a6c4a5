"""Going back: the table becomes what an earlier version was, as a new version."""

from __future__ import annotations

from dataclasses import replace

from lakebed.core.actions import AddFile, FileKey, Metadata
from lakebed.core.column_mapping import enable_mapping
from lakebed.core.commit import Claim, Kind
from lakebed.core.errors import FileMissingError
from lakebed.core.file_tags import is_unsettled
from lakebed.core.properties import COLUMN_MAPPING_MODE, MAX_COLUMN_ID, is_mapped
from lakebed.core.schema_delta import to_schema_string
from lakebed.delta.features import upgrade
from lakebed.delta.foreign import place
from lakebed.engine.draft import Draft
from lakebed.engine.plan import plan
from lakebed.metastore import TableState


def restore(draft: Draft, target: TableState) -> None:
    """Make the draft's rows, schema and properties those of ``target``.

    Raises FileMissingError, before anything changes, if a file of that version is gone.
    """
    draft.refuse_if_append_only("restore")
    handle = draft.handle
    old = plan(handle.metastore, handle.table_id, target.version, target.metadata, None).adds()
    wanted = {_identity(add): add for add in old}
    present = {_identity(add): add for add in draft.live()}
    missing = [a for key, a in wanted.items() if key not in present and not _there(draft, a)]
    if missing:
        raise FileMissingError(
            f"table {handle.name}: version {target.version} cannot be restored",
            found=f"{len(missing)} of its files are gone, for example {missing[0].file_path}",
            fix="restore a later version",
        )
    for key, add in present.items():
        if key not in wanted:
            draft.remove(add)
    for key, add in wanted.items():
        if key not in present:
            draft.add_old(add)
    draft.metadata = _metadata(draft, target)
    draft.protocol = upgrade(draft.protocol, target.protocol)
    draft.claims.append(Claim(Kind.RESTORE, reads_all=True))
    draft.parameters["version"] = target.version


def _identity(add: AddFile) -> tuple[FileKey, bool]:
    """A file that was settled since is not what it was, even if it got no vector by it."""
    return add.key, is_unsettled(add)


def _there(draft: Draft, add: AddFile) -> bool:
    at = place(draft.handle.store, add)
    return at.store.exists(at.path)


def _metadata(draft: Draft, target: TableState) -> Metadata:
    """The old metadata, except for what may only grow: column ids, and the mapping itself."""
    now, then = draft.metadata.configuration, dict(target.metadata.configuration)
    schema_string = target.metadata.schema_string
    if is_mapped(now):
        last = int(now[MAX_COLUMN_ID])
        if not is_mapped(then):
            # The mapping came later: the old columns are mapped to the names that their files have.
            mapped, last = enable_mapping(target.metadata.schema, last)
            schema_string = to_schema_string(mapped)
        then |= {COLUMN_MAPPING_MODE: now[COLUMN_MAPPING_MODE], MAX_COLUMN_ID: str(last)}
    return replace(target.metadata, schema_string=schema_string, configuration=then, name=draft.metadata.name)
