"""The warehouse: its settings, its metastore, and whether files can be written, read and deleted there."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from lakebed.config import Config
from lakebed.core.errors import AccessError, LakebedError, MetastoreVersionError, NoSpaceError
from lakebed.core.metastore_url import masked_url
from lakebed.doctor.finding import Finding, error, fine

_RIGHTS = "give this user the right to write, read and delete there, or check the credentials"


def settings_error(problem: LakebedError) -> Finding:
    """Settings that cannot be used."""
    told = "; ".join(part for part in (problem.what, problem.found and f"found {problem.found}") if part)
    return error("settings", "settings", told, problem.fix or f"expected {problem.expected}")


def metastore_error(config: Config, problem: LakebedError) -> Finding:
    """A metastore that cannot be opened."""
    where = masked_url(config.metastore_url)
    told = "; ".join(part for part in (problem.what, problem.found and f"found {problem.found}") if part)
    if isinstance(problem, MetastoreVersionError):
        return error("metastore", where, told, problem.fix or "use the Lakebed that made it")
    return error("metastore", where, told, problem.fix or "check the URL, and that the server runs")


def examine_storage(config: Config) -> Iterator[Finding]:
    """Write a small file below the warehouse, read it, and delete it."""
    from lakebed.storage.store import open_store

    place = config.warehouse
    store = open_store(place, config.options)
    name, content = f".lakebed/doctor-{uuid.uuid4().hex}", b"lakebed doctor was here"
    step = "written"
    try:
        store.put(name, content, sync=False)
        step = "read"
        if store.read(name) != content:
            yield error("storage", place.uri, "a file does not read back as it was written", "check the storage")
            return
        step = "deleted"
        store.delete(name, missing_ok=False)
    except NoSpaceError as problem:
        yield error("storage", place.uri, f"files cannot be {step}: {problem.what}", "free space, or raise the quota")
    except LakebedError as problem:
        fix = _RIGHTS if isinstance(problem, AccessError) else (problem.fix or _RIGHTS)
        yield error("storage", place.uri, f"files cannot be {step}: {problem}", fix)
    else:
        yield fine("storage", place.uri, "files can be written, read and deleted")
