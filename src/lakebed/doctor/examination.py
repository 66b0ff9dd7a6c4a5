"""The whole examination, from the machine to the last table; and the repairs that are safe."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from lakebed.config import Config
from lakebed.core.errors import LakebedError
from lakebed.core.metastore_url import masked_url
from lakebed.doctor.environment import examine_environment
from lakebed.doctor.finding import Finding, Repair, error, fine
from lakebed.doctor.place import examine_storage, metastore_error, settings_error
from lakebed.table import Table
from lakebed.warehouse import Warehouse


def examine(
    settings: Callable[[], Config],
    open_lake: Callable[[Config], Warehouse],
    tables: Sequence[str] = (),
    *,
    deep: bool = False,
    repair: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> Iterator[Finding]:
    """Look at everything, one thing after the other; what cannot be looked at ends the examination.

    ``tables`` are all tables by default. ``deep`` opens every data file, else the newest ones. ``repair`` puts right
    what can be without a risk.
    """
    yield from examine_environment(environ)
    try:
        config = settings()
    except LakebedError as problem:
        yield settings_error(problem)
        return
    yield fine("settings", str(config.warehouse), f"metastore {masked_url(config.metastore_url)}")
    with ExitStack() as stack:
        try:
            lake = stack.enter_context(open_lake(config))
            names = list(tables) or [name for space in lake.namespaces() for name in lake.tables(space)]
        except LakebedError as problem:
            yield metastore_error(config, problem)
            return
        yield fine("metastore", masked_url(config.metastore_url), f"{len(names)} table(s)")
        yield from examine_storage(config)
        for name in names:
            yield from _examined(lake, name, deep=deep, repair=repair)


def _examined(lake: Warehouse, name: str, *, deep: bool, repair: bool) -> Iterator[Finding]:
    from lakebed.doctor.tables import examine_table

    try:
        table = lake.table(name)
        for finding in examine_table(table, deep=deep):
            yield _repaired(table, finding) if repair and finding.repair is not None else finding
    except LakebedError as problem:
        yield error("table", name, str(problem), problem.fix or "see docs/errors.md")


def _repaired(table: Table, finding: Finding) -> Finding:
    try:
        if finding.repair is Repair.PUBLISH:
            table.publish()
        else:
            table.checkpoint()
    except LakebedError as problem:
        return replace(finding, what=f"{finding.what}; the repair failed: {problem}")
    return replace(finding, repaired=True)
