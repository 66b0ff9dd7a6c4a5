"""Files by a path: one file, all files of a directory, or those that a pattern matches."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from lakebed.core.errors import InputError
from lakebed.core.location import Location
from lakebed.core.options import Options
from lakebed.storage.store import Store, open_store

_SPECIAL = re.compile(r"[*?\[{]")
_HIDDEN = ("_", ".")


@dataclass(frozen=True)
class SourceFile:
    """A file that is not part of a table."""

    location: Location
    size: int

    @property
    def uri(self) -> str:
        """What it is called, whoever looks at it."""
        return self.location.uri

    def store(self, options: Options) -> tuple[Store, str]:
        """Where it is: its directory, and its name there."""
        return open_store(self.location.parent, options), self.location.name


def find_files(path: str | os.PathLike[str], options: Options) -> list[SourceFile]:
    """The files, by their path. Names that begin with ``_`` or ``.`` count only where the pattern spells that out.

    ``*`` and ``?`` stand for letters of one name, ``**`` for any directories, ``[ab]`` for one of these letters and
    ``{a,b}`` for one of these texts. Raises InputError for what is no path.

    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("a.csv", "b.csv", "_c.csv", "d.json"):
    ...     _ = (folder / name).write_text("")
    >>> [file.location.name for file in find_files(folder / "*.csv", Options())]
    ['a.csv', 'b.csv']
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError("files are named by a path or a URI", expected="text or a path", found=repr(path))
    text = os.fspath(path)
    special = _SPECIAL.search(text)
    if special is None:
        return _at(Location.parse(text, default_fs=options.default_fs), options)
    start = text.rfind("/", 0, special.start()) + 1
    base = Location.parse(text[:start] or ".", default_fs=options.default_fs)
    return _matching(base, text[start:], options)


def _at(place: Location, options: Options) -> list[SourceFile]:
    """The file of that name, or what is in the directory."""
    inside = _matching(place, "**", options)
    if inside or not place.name:
        return inside
    found = open_store(place.parent, options).list(recursive=False)
    return [SourceFile(place, file.size) for file in found if file.path == place.name]


def _matching(base: Location, pattern: str, options: Options) -> list[SourceFile]:
    names = pattern.split("/")
    recursive = len(names) > 1 or "**" in names
    whole = re.compile(_expression(pattern))
    spelled = names[-1].startswith(_HIDDEN)
    found = [
        SourceFile(base.child(file.path), file.size)
        for file in open_store(base, options).list(recursive=recursive)
        if whole.fullmatch(file.path) and (spelled or not _is_hidden(file.path, names))
    ]
    return sorted(found, key=lambda file: file.location.path)


def _is_hidden(path: str, names: list[str]) -> bool:
    """Whether a part of the path is hidden that the pattern does not name."""
    return any(part.startswith(_HIDDEN) and part not in names for part in path.split("/"))


def _expression(pattern: str) -> str:
    """The pattern as a regular expression over paths.

    >>> _expression("in/**/[ab]?.{csv,json}")
    'in/(?:[^/]+/)*[ab][^/]\\\\.(?:csv|json)'
    """
    made, at, depth = "", 0, 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            made, at = made + "(?:[^/]+/)*", at + 3
            continue
        if pattern.startswith("**", at):
            made, at = made + ".*", at + 2
            continue
        char = pattern[at]
        at += 1
        if char == "[" and (end := pattern.find("]", at + 1)) > 0:
            inside = pattern[at:end].replace("\\", "\\\\").replace("[", "\\[")
            made, at = made + ("[^" + inside[1:] if inside[0] == "!" else "[" + inside) + "]", end + 1
        elif char == "{" and "}" in pattern[at:]:
            made, depth = made + "(?:", depth + 1
        elif char == "}" and depth:
            made, depth = made + ")", depth - 1
        elif char == "," and depth:
            made += "|"
        else:
            made += {"*": "[^/]*", "?": "[^/]"}.get(char) or re.escape(char)
    return made
