"""Which streaming query a batch is of: its checkpoint tells."""

from __future__ import annotations

import json

from lakebed.core.errors import CorruptFileError
from lakebed.core.location import Location
from lakebed.core.options import Options
from lakebed.storage.store import open_store

_PREFIX = "spark-stream-"


def query_id(checkpoint: str, options: Options) -> str:
    """What a stream is known by as an application: the id that Spark gave the query with this checkpoint.

    A new checkpoint, be it in the same place, has another. Raises FileMissingError if there is none, and
    CorruptFileError if it tells no id.
    """
    store = open_store(Location.parse(checkpoint, default_fs=options.default_fs), options)
    with store.open_input("metadata") as file:
        text = file.read()
    try:
        return _PREFIX + str(json.loads(text)["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(f"{store.uri('metadata')} does not tell the id of a streaming query") from error
