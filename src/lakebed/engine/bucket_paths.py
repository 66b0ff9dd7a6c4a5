"""Where the files of a bucket are. The log, not the path, says which bucket a file belongs to."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from lakebed.core.bucketing import depth
from lakebed.core.partition import partition_path


def bucket_folder(number: int) -> str:
    """The directory of a bucket: its number, or the depth of its node and the bits of the hash that lead there.

    >>> bucket_folder(3), bucket_folder(-1), bucket_folder(-6)
    ('bucket-00003', 'bucket-d0', 'bucket-d2-10')
    """
    if number >= 0:
        return f"bucket-{number:05}"
    levels = depth(number)
    return f"bucket-d{levels}-{-number - (1 << levels):0{levels}b}" if levels else "bucket-d0"


def new_path(partition_values: Mapping[str, str | None], number: int | None, prefix: str = "") -> str:
    """A path, below the table, that no file has yet; ``number`` is None for a table without buckets.

    The name of the file begins with ``prefix``.

    >>> new_path({"dt": "mon"}, 3)
    'dt=mon/bucket-00003/....parquet'
    """
    folders = [partition_path(list(partition_values), list(partition_values.values()))] if partition_values else []
    if number is not None:
        folders.append(bucket_folder(number))
    return "/".join([*folders, f"{prefix}{uuid.uuid4()}.parquet"])
