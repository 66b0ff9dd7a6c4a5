"""Names in statements: which table of the warehouse is meant, if any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lakebed.core.errors import InputError, NotFoundError
from lakebed.core.names import DEFAULT_NAMESPACE
from lakebed.core.suggest import did_you_mean
from lakebed.table import Table
from lakebed.warehouse import Warehouse

CATALOG = "lakebed"
"""What our tables may be prefixed with, where Spark has one of the same name."""


@dataclass
class Names:
    """The tables of a warehouse, as one statement looks for them: by their names, else regardless of case."""

    lake: Warehouse
    _tables: dict[tuple[str, str], Table | None] = field(default_factory=dict, init=False)
    _listed: dict[str, list[str]] = field(default_factory=dict, init=False)

    def table(self, parts: Sequence[str]) -> Table | None:
        """The table that is called so; None if there is none."""
        pair = split_name(parts)
        if pair is None:
            return None
        if pair not in self._tables:
            self._tables[pair] = self._find(*pair)
        return self._tables[pair]

    def namespace(self, name: str) -> str | None:
        """The namespace that is called so; None if there is none."""
        return _spelled(name, self.lake.namespaces())

    def near(self, parts: Sequence[str]) -> str | None:
        """A hint with the nearest name of a table."""
        known = [name for space in self.lake.namespaces() for name in self._names(space)]
        short = {name.partition(".")[2]: name for name in known}
        wanted = ".".join(parts)
        return did_you_mean(wanted, known) or did_you_mean(parts[-1], [*short, *known])

    def _find(self, namespace: str, name: str) -> Table | None:
        try:
            return self.lake.table(f"{namespace}.{name}")
        except InputError:
            return None  # a name that no table of ours can have
        except NotFoundError:
            pass
        space = self.namespace(namespace)
        found = None if space is None else _spelled(f"{space}.{name}", self._names(space))
        return None if found is None else self.lake.table(found)

    def _names(self, namespace: str) -> list[str]:
        if namespace not in self._listed:
            self._listed[namespace] = self.lake.tables(namespace)
        return self._listed[namespace]


def split_name(parts: Sequence[str]) -> tuple[str, str] | None:
    """Namespace and name of a table; None if there are too many parts, or those of another catalog.

    >>> split_name(["orders"]), split_name(["shop", "orders"]), split_name(["spark_catalog", "shop", "orders"])
    (('default', 'orders'), ('shop', 'orders'), None)
    """
    names = list(parts)
    if len(names) == 3 and names[0].lower() == CATALOG:
        names = names[1:]
    if len(names) > 2:
        return None
    return (names[0], names[1]) if len(names) == 2 else (DEFAULT_NAMESPACE, names[0])


def _spelled(wanted: str, known: Sequence[str]) -> str | None:
    """The known name itself, else the only one that differs in case."""
    if wanted in known:
        return wanted
    same = [name for name in known if name.casefold() == wanted.casefold()]
    return same[0] if len(same) == 1 else None
