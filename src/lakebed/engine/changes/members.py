"""Which files are looked at together, whichever version they are of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakebed.core.actions import AddFile, RemoveFile
from lakebed.core.commit import partition_key
from lakebed.core.keyed import KeySpec
from lakebed.engine.unit import Unit, units_of


@dataclass(frozen=True)
class Members:
    """Files of several versions by unit: that of their keys, or their partition in a table without a key.

    Units that are apart at one version may be one at another, when buckets have split; here they are one.
    """

    files: Sequence[AddFile]
    units: Mapping[Unit, frozenset[str]]
    """The paths of the files of each unit."""
    of_path: Mapping[str, Unit]

    @staticmethod
    def of(files: Iterable[AddFile], key: KeySpec | None) -> Members:
        """The units of these files; a path that is there several times is one file."""
        known = {add.path: add for add in files}
        found: dict[Unit, list[AddFile]] = {}
        if key is not None:
            found = units_of(known.values(), key)
        else:
            for add in known.values():
                found.setdefault(Unit(partition_key(add.partition_values), frozenset()), []).append(add)
        units = {unit: frozenset(add.path for add in members) for unit, members in found.items()}
        return Members(tuple(known.values()), units, {path: unit for unit, paths in units.items() for path in paths})

    def by_unit(self, files: Iterable[AddFile]) -> dict[Unit, list[AddFile]]:
        """Some of the files by unit, in their order."""
        found: dict[Unit, list[AddFile]] = {}
        for add in files:
            found.setdefault(self.of_path[add.path], []).append(add)
        return found

    def touched(self, files: Iterable[AddFile | RemoveFile]) -> list[Unit]:
        """The units of some of the files, each once."""
        return list(dict.fromkeys(self.of_path[file.path] for file in files))
