"""What a data file of a primary-key table says of itself, in the tags of its ``add``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakebed.core.actions import AddFile, RemoveFile

BUCKET = "lakebed.bucket"
UNSETTLED = "lakebed.unsettled"
TOMBSTONES = "lakebed.tombstones"
BATCH = "lakebed.batch"
"""What the files of one batch have in common, where rows of one key may be in several of them."""
REPLACED = "lakebed.replaced-tombstones"
"""Positions of tombstones that a later row of their key has replaced, as a bitmap in base 64."""

KIND_COLUMN = "_lakebed_kind"
"""The hidden column of row kinds (int8), in files that have the tag ``TOMBSTONES``."""
ROW_ID_COLUMN = "_lakebed_row_id"
ROW_VERSION_COLUMN = "_lakebed_row_version"
"""Row tracking's materialised columns, in rewritten files."""
HIDDEN_COLUMNS = (KIND_COLUMN, ROW_ID_COLUMN, ROW_VERSION_COLUMN)

Tags = Mapping[str, str | None]


def file_tags(bucket: int, *, unsettled: bool = False, tombstones: int = 0) -> dict[str, str | None]:
    """The tags of a new file.

    >>> file_tags(3, unsettled=True)
    {'lakebed.bucket': '3', 'lakebed.unsettled': 'true'}
    """
    tags: dict[str, str | None] = {BUCKET: str(bucket)}
    if unsettled:
        tags[UNSETTLED] = "true"
    if tombstones:
        tags[TOMBSTONES] = str(tombstones)
    return tags


def bucket_of(file: AddFile | RemoveFile) -> int | None:
    """The number of the file's bucket; None for a file of a table without a primary key.

    >>> bucket_of(AddFile("a", {}, 1, 0, True, tags=file_tags(3)))
    3
    """
    text = (file.tags or {}).get(BUCKET)
    return None if text is None else int(text)


def is_unsettled(file: AddFile | RemoveFile) -> bool:
    """Whether the file's keys have not been matched with the older files of its bucket yet.

    >>> is_unsettled(AddFile("a", {}, 1, 0, True, tags=file_tags(3, unsettled=True)))
    True
    """
    return (file.tags or {}).get(UNSETTLED) == "true"


def tombstones_of(file: AddFile | RemoveFile) -> int:
    """How many rows of the file are not puts.

    >>> tombstones_of(AddFile("a", {}, 1, 0, True, tags=file_tags(3, tombstones=2)))
    2
    """
    return int((file.tags or {}).get(TOMBSTONES) or 0)


def settled(add: AddFile) -> AddFile:
    """The same file without the mark of an unsettled one.

    >>> settled(AddFile("a", {}, 1, 0, True, tags=file_tags(3, unsettled=True))).tags
    {'lakebed.bucket': '3'}
    """
    tags = {name: value for name, value in (add.tags or {}).items() if name != UNSETTLED}
    return replace(add, tags=tags)


def without_tombstones(add: AddFile) -> AddFile:
    """The same file without the mark of tombstones: they have done their work and mean nothing any more.

    >>> without_tombstones(AddFile("a", {}, 1, 0, True, tags=file_tags(3, tombstones=2))).tags
    {'lakebed.bucket': '3'}
    """
    tags = {name: value for name, value in (add.tags or {}).items() if name not in (TOMBSTONES, REPLACED)}
    return replace(add, tags=tags) if tombstones_of(add) else add
